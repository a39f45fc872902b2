/* SPDX-License-Identifier: Apache-2.0
 *
 * The connections of one rank. A connection is found by (peer, channel, lane, side). It is made on first use, and kept until the
 * communicator ends.
 *
 *    consumer                                   control plane                             producer
 *    conn_get ── transport.offer ──▶ memory ─────── blob ──────▶ transport.accept ── maps or connects
 *             ◀──────────────────────── transport.ready on both ends ─────────────▶
 *
 * The consumer owns the memory. Setting up a connection never blocks: conn_try() moves a connection forward and returns, so that one
 * thread can set up connections of many ranks.
 */
#ifndef COLLET_CHAN_CHAN_H
#define COLLET_CHAN_CHAN_H

#include "base/wait.h"
#include "transport/conn.h"

struct proxy_client;
struct recorder;

/* The connections of one rank of one communicator, and how the rank waits for them. */
struct chan {
    /* Set by chan_create() and planner_create(): */
    struct conn_owner owner;   /* The rank, as its connections know it */
    struct waiter patience;    /* How this rank waits: each wait starts with a copy */
    bool far;                  /* True: the CPUs of this node are far from each other */
    uint64_t cache_bytes;      /* This rank's share of the last-level cache */
    int64_t timeout_ms;        /* Maximum time without progress in a call */
    const char *name;          /* Name of the communicator; "": it has none */
    struct recorder *recorder; /* The rank's flight recorder (seams/observe.h); NULL: there is none */

    /* State of layers/gpu/windows.c, for ranks on GPUs: */
    struct gpu_window *windows;
    uint64_t window_meetings; /* How often all ranks have met to register or deregister a window */
    bool had_team;            /* True: some window has had a team. All ranks learn this at the same registration */
    bool had_lent; /* True: the payloads in some window could be lent. All ranks learn this at the same registration */

    /* The table of connections: */
    struct conn **last; /* End of the list owner.first: the next connection is linked here */
    uint64_t counters[CONN_COUNTERS];
    void *index; /* Tree of tsearch(), by key */

    uint64_t attended_ns; /* attend.c: time at which this rank last attended to its connections */

    /* State that other rooms keep per rank. Only the named file writes it. Other files only ask whether it is NULL. */
    struct proxy_client *proxy; /* layers/gpu/proxy.c: it carries slots over networks; NULL: the executor does */
    /* layers/observe/inquest.c: a text that says who holds up a blocked call; NULL: it is not known. */
    const char *found;
    /* layers/gpu/exec_copies.c: state of calls by copy engines; NULL: there was no such call yet. */
    struct copies *copies;
};

/* Options of chan_create(). */
struct chan_options {
    struct boot *boot;
    const struct config *config;
    int nranks, rank;
    struct gpu_rank *gpu; /* The rank's GPU; NULL: the rank uses host memory */
    bool far;             /* As in struct chan */
    /* True: between processes of this node, copies by the operating system are faster than slots. */
    bool kernel_copies;
    bool turns;         /* True: some processes of the communicator take turns on a GPU. Equal on all ranks */
    int64_t timeout_ms; /* As in struct chan; 0: use COLLET_TIMEOUT */
    const char *name;   /* As in struct chan; NULL: the communicator has none */
};

/* Are all names in COLLET_TRANSPORT and COLLET_DIRECT known? Compare tuner_check_names(). */
enum collet_result chan_check_names(const struct config *config);

enum collet_result chan_create(const struct chan_options *options, struct chan **chan_p);
void chan_destroy(struct chan *chan); /* Closes all connections. NULL is fine */

/* Gets a connection. The first call creates it, in state NEW. Errors: NO_MEMORY, UNSUPPORTED (no allowed transport reaches the
 * peer; the text says why, for each transport). */
enum collet_result conn_get(struct chan *chan, int peer, int channel, int lane, enum conn_side side,
                            struct conn **conn_p);

/* Moves a connection toward READY. SUCCESS: it is READY. IN_PROGRESS: it is not READY yet. Any other result is a failure. */
enum collet_result conn_try(struct conn *conn);

/* Does what other ranks may wait for, on all connections of chan: if this rank has waited for long enough (idle_ns), or the last time is
 * CHAN_ATTEND_EVERY_NS ago. chan_attend_now() does it at once. The calling thread holds the lock of chan. Both do nothing if the
 * communicator has failed, because lent memory belongs to the program again. They are in attend.c. */
#define CHAN_ATTEND_EVERY_NS 200000000u
void chan_attend(struct chan *chan, uint64_t idle_ns, uint64_t now_ns);
void chan_attend_now(struct chan *chan);

/* The transport between two ranks: the first transport of the registry that is allowed and connects the two. Every rank gets the same
 * answer. NULL: there is none. */
const struct transport *chan_pair_transport(const struct chan *chan, int a, int b);

#endif
