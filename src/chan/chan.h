/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections of one rank: found by (peer, channel, lane, side), made on first use, kept until the communicator ends.
 *
 *    consumer                                   control plane                             producer
 *    conn_get ── transport.offer ──▶ memory ─────── blob ──────▶ transport.accept ── maps or connects
 *             ◀──────────────────────── transport.ready on both ends ─────────────▶
 *
 * The consumer owns the memory. Both steps are resumable: conn_try() moves a connection forward and returns, so that one
 * thread can set up connections of many ranks.
 */
#ifndef COLLET_CHAN_CHAN_H
#define COLLET_CHAN_CHAN_H

#include "base/wait.h"
#include "transport/conn.h"

struct proxy_client;
struct tracer;

/* The connections of one rank of one communicator, and how the rank waits for them. */
struct chan {
    /* Set by chan_create() and chan_plan(): */
    struct conn_owner owner; /* the rank */
    struct waiter patience;  /* how this rank waits */
    bool far;                /* the CPUs of this node are far from each other */
    uint64_t cache_bytes;    /* this rank's share of the last-level cache, in bytes */
    int64_t timeout_ms;      /* maximum time without progress */
    const char *name;        /* name of the communicator; "": none */
    struct tracer *tracer;   /* NULL: no tracing */

    /* windows.c, on GPUs */
    struct gpu_window *windows;
    uint64_t window_meetings; /* number of meetings of all ranks */
    bool had_team;            /* some window had a team; all ranks know it after the same registration … */
    bool had_lent;            /* … and some window was lent */

    /* The table of connections: */
    struct conn **last; /* end of the list owner.first: the next connection goes here */
    uint64_t counters[CONN_COUNTERS];
    void *index; /* tree of tsearch(), by key */

    uint64_t attended_ns; /* attend.c: time at which its own rank last attended to it */

    /* State that other rooms keep per rank. Only the named file writes it; others ask whether it is there. */
    struct proxy_client *proxy; /* layers/gpu/proxy.c carries slots over networks; NULL: the executor does */
    struct inquest *inquest;    /* exec/exec_inquest.c; NULL: none yet. chan_destroy() frees it */
    struct copies *copies;      /* layers/gpu/exec_copies.c; NULL: none yet */
};

/* Options of chan_create(). */
struct chan_options {
    struct boot *boot;
    const struct config *config;
    int nranks, rank;
    struct gpu_rank *gpu; /* NULL: the rank uses host memory */
    bool far;             /* as in struct chan */
    bool kernel_copies;   /* the kernel copies between processes of this node faster than slots do */
    bool turns;           /* some processes of the communicator take turns on a GPU; equal on all ranks */
    int64_t timeout_ms;   /* 0: take the configuration's */
    const char *name;     /* as in struct chan; NULL: none */
};

/* Are all names in COLLET_TRANSPORT and COLLET_DIRECT known? Compare tuner_check_names(). */
enum collet_result chan_check_names(const struct config *config);

enum collet_result chan_create(const struct chan_options *options, struct chan **chan_p);
void chan_destroy(struct chan *chan); /* closes all connections; NULL is fine */

/* Stores what the planner decides for all connections (struct conn_owner). Call it before the first conn_get(). */
void chan_plan(struct chan *chan, const struct map *map, bool tied, bool whole_lines, bool joined);

/* Gets a connection; the first call creates it, in state NEW. Errors: NO_MEMORY, UNSUPPORTED (no allowed transport reaches the
 * peer; the text says why for each). */
enum collet_result conn_get(struct chan *chan, int peer, int channel, int lane, enum conn_side side,
                            struct conn **conn_p);

/* Moves a connection toward READY. SUCCESS: it is READY. IN_PROGRESS: not yet. Else a failure. */
enum collet_result conn_try(struct conn *conn);

/* attend.c: if this rank has waited for idle_ns, or has not attended for long, it does what other ranks may wait for. It attends to all
 * connections of chan, whose lock this thread holds. Not if the communicator has failed: lent memory belongs to the program again. */
#define CHAN_ATTEND_EVERY_NS 200000000u
void chan_attend(struct chan *chan, uint64_t idle_ns, uint64_t now_ns);
void chan_attend_now(struct chan *chan);

/* The transport between two ranks: the first one of the registry that is allowed and reaches. Every rank gets the same answer. NULL:
 * there is none. */
const struct transport *chan_pair_transport(const struct chan *chan, int a, int b);

#endif
