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

#include "base/call_lock.h"
#include "base/wait.h"
#include "transport/conn.h"

struct proxy_client;
struct tracer;

/* The connections of one rank of one communicator, and how the rank waits for them. */
struct chan {
    /* From chan_create() and chan_plan() on: */
    struct conn_owner owner; /* the rank */
    struct waiter patience;  /* how this rank waits */
    bool far;                /* the CPUs of this node are far from each other */
    uint64_t cache_bytes;    /* this rank's part of the last cache */
    int64_t timeout_ms;      /* longest time without progress */
    const char *name;        /* of the communicator; "": it has none */
    struct tracer *tracer;   /* NULL: nothing is traced */

    /* windows.c, on GPUs */
    struct gpu_window *windows;
    uint64_t window_meetings; /* of all ranks */
    bool had_team;            /* a window had a team; all ranks know it from the same registration on … */
    bool had_lent;            /* … and that a window was lent */

    /* Its connections grow in number: */
    struct conn **last; /* where the next of owner.first goes */
    uint64_t counters[CONN_COUNTERS];
    void *index; /* by key: a tree of tsearch() */

    /* attend.c */
    struct call_lock *lock; /* held while this struct is used; NULL: not listed */
    struct chan *next_chan; /* in the list of the process's */
    uint64_t attended_ns;   /* when its own rank last did so */

    /* Guests: what a room above keeps once per rank. That room alone writes it; others ask whether it is there. */
    struct proxy_client *proxy; /* layers/gpu/proxy.c carries slots over networks; NULL: the executor does */
    struct inquest *inquest;    /* exec/exec_inquest.c; NULL: none yet. chan_destroy() frees it */
    struct copies *copies;      /* layers/gpu/exec_copies.c; NULL: none yet */
};

/* What connections are made with. */
struct chan_options {
    struct boot *boot;
    const struct config *config;
    int nranks, rank;
    struct gpu_rank *gpu;   /* NULL: the rank is on host memory */
    bool far;               /* as in struct chan */
    bool kernel_copies;     /* the kernel copies between processes of this node sooner than slots do */
    bool turns;             /* some processes of the communicator take turns on a GPU; the same on all ranks */
    int64_t timeout_ms;     /* 0: the configuration's */
    const char *name;       /* as in struct chan; NULL: none */
    struct call_lock *lock; /* the communicator's; while nobody holds it, others attend to the connections (attend.c) */
};

/* What the slots of a communicator depend on, beside its configuration. */
struct chan_scale {
    int nranks, node_ranks; /* of each node; if they differ in that, of any that all ranks agree on */
    bool messages;          /* slots are messages (transport.h) */
    bool on_gpus;           /* ranks are */
    bool turns;             /* processes take turns on a GPU */
};
/* Of memory, for one rank's connections of one kind, in one direction on one channel. */
#define CHAN_BUDGET_BYTES (320u << 20)
/* As in struct conn_owner. */
void chan_layouts(const struct config *config, const struct chan_scale *scale,
                  struct fifo_layout layouts[PROG_CONNECTS_COUNT]);
/* Room to roam in, per slot: where neighbours are many, their connections fill the caches together. */
uint32_t chan_roam_bytes(int neighbours);

/* Do COLLET_TRANSPORT and COLLET_DIRECT name what there is? As tuner_check_names(). */
enum collet_result chan_check_names(const struct config *config);

enum collet_result chan_create(const struct chan_options *options, struct chan **chan_p);
void chan_destroy(struct chan *chan); /* closes all connections; NULL is fine */

/* What the planner decides for all connections, before the first conn_get(): see struct conn_owner. */
void chan_plan(struct chan *chan, const struct map *map, bool tied, bool whole_lines, bool joined);

/* The connection, created in state NEW if it is asked for the first time. Errors: NO_MEMORY, UNSUPPORTED (no allowed
 * transport reaches the peer; the text says why for each). */
enum collet_result conn_get(struct chan *chan, int peer, int channel, int lane, enum conn_side side,
                            struct conn **conn_p);

/* Moves a connection toward READY: SUCCESS when it is, IN_PROGRESS while it is not, or a failure. */
enum collet_result conn_try(struct conn *conn);

/* attend.c: a rank that has waited for idle_ns, or has not done so for long, does what other ranks may be waiting for: on any
 * connection of chan, whose lock the thread holds, and of the process's other communicators that nobody is using. */
void chan_attend(struct chan *chan, uint64_t idle_ns, uint64_t now_ns);
/* From now on a thread does so too, while there are such communicators. */
void chan_attend_always(void);
/* From now on chan is one of those others, while nobody holds the lock of its calls. */
void chan_list(struct chan *chan, struct call_lock *lock);
void chan_unlist(struct chan *chan); /* the thread holds that lock; never listed is fine */

/* The transport that two ranks use with each other: the first of the registry that is allowed and reaches; the answer is
 * the same on every rank. NULL if there is none. */
const struct transport *chan_pair_transport(const struct chan *chan, int a, int b);

#endif
