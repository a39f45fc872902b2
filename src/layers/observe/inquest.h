/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rank holds up the job? If a call is blocked, its rank asks the rank for which the call waits. Then it asks the rank for which
 * that rank waits, and so on to the end of the chain.
 *
 *      rank 4 ── waits for ──▶ rank 3 ── waits for ──▶ rank 1: has not made this call
 *        │  what are you in?     ▲                       ▲
 *        ├───────────────────────┘                       │
 *        └───────────────────────────────────────────────┘
 *
 * The text of a timeout tells the end of the chain. If ranks are found to be in different calls, all ranks are asked, so
 * that the text can tell which rank called what. Each communicator follows one chain at a time.
 *
 * A chain may leave the communicator: the asked rank waits in another communicator, with other processes. That rank follows
 * its own chain there, and answers which processes it has found behind it. Each question makes one more process known,
 * until a circle has closed:
 *
 *      process 0 ── waits in A for ──▶ process 1 ── in B for ──▶ process 2 ── in C for ──▶ process 0
 *                                      says: 2, then 2 and 0     says: 0
 */
#ifndef COLLET_LAYERS_OBSERVE_INQUEST_H
#define COLLET_LAYERS_OBSERVE_INQUEST_H

#include "base/wait.h"
#include "layers/observe/status.h"

#define INQUEST_LINKS 16 /* maximum number of remembered links: a text has room for fewer links */

struct inquest {
    const struct exec_call *call; /* the call that is or was blocked; NULL: no call yet */
    uint64_t since_ns, looked_ns; /* time since which the call has been idle; time of the last look at it */
    const struct exec_call
        *differing; /* a call that differs from another rank's call: its rank waits for all others' calls */
    int at;         /* rank that was asked; −1: none */
    uint64_t question, asked_ns;
    uint64_t next_ns;         /* time at which the next chain begins */
    int links;                /* number of links of this chain so far */
    int asked[INQUEST_LINKS]; /* ranks of the first links */
    uint64_t sequence;        /* sequence number of the last link's collective; 0: the last link is a send or receive */
    bool differs;             /* some link's call is not the call of the link before */
    uint64_t path[COMMS_BEHIND]; /* processes behind the first rank, in this chain */
    struct comms_entry *entry;   /* publishes to others the processes that this rank has found */
    int standstills;  /* number of chains in a row that came back to their beginning, through different calls */
    struct late late; /* COLLET_WARN_AFTER */
    char chain[400];  /* text of this chain so far */
    char found[400];  /* text of the last complete chain; "": none yet */
};

/* Called from time to time while a call waits. Afterwards chan->found says why the call waits, as far as that is known. */
enum collet_result inquest_look(struct inquest *inquest, const struct exec_call *call);

/* A call differs from another rank's call. Sets the error MISMATCH, whose text has the calls of all ranks. SUCCESS: the
 * other ranks' calls are not known. */
enum collet_result inquest_differs(const struct inquest *inquest, const struct exec_call *call);

#endif
