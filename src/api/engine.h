/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine of a communicator on host memory: carries its calls to their ends.
 *
 *    issued by any thread           lanes: the calls of one lane run one after the other, lanes run side by side
 *
 *                                   collectives     c7 runs ◀─ c8 ◀─ c9
 *    post ─▶ incoming ─▶ admitted   to rank 3       m2 runs ◀─ m3
 *                                   from rank 1     m0 may not begin yet: its queue has not come to its place
 *
 * One thread at a time is the driver: the one that holds the communicator's lock. It gives each lane a turn, again and
 * again, whoever issued the calls. A thread that waits for its calls drives if nobody else does, and otherwise waits until
 * the driver has done them or has left. So a blocking call is done by the thread that made it, and nothing but the driver
 * touches lanes, programs, connections and the planner.
 */
#ifndef COLLET_API_ENGINE_H
#define COLLET_API_ENGINE_H

#include "base/err.h"
#include "base/wait.h"
#include "seams/observe.h"

/* Calls that are done in order: those of a host stream. Or those that a thread waits for: of one blocking call or group. */
struct queue {
    uint64_t issued, done;      /* how many calls */
    bool shared;                /* several threads may end its calls */
    enum collet_result failure; /* of the first call that failed; SUCCESS: none has; IN_PROGRESS: it is being written */
    uint64_t failed_place;      /* the place of that call */
    char text[ERR_TEXT_BYTES];  /* of that failure */
};

/* A call as the user made it, from its issue to its end. */
struct post {
    struct exec_request request;
    struct collet_comm *comm;
    const void *in;
    void *out;
    void *stream;
    struct queue *queue;
    uint64_t place;       /* it may begin once so many calls of its queue are done */
    struct post *partner; /* a send to oneself: its receive, which is done with it. Otherwise NULL */
    struct post *next;    /* in its lane, or in `incoming` */
    bool is_partner;      /* a receive from oneself: it is in no lane */
    bool is_copy;         /* of what the user asked for, which has returned (stream.h) */
    bool waits_outside;   /* issued while another thread drove */
    bool done;
};

/* The calls of a communicator that must follow each other, oldest first. */
struct lane {
    struct post *first, *last;
    uint64_t begun;              /* calls so far */
    uint64_t launched;           /* on a GPU: those of them that are in streams */
    struct exec_call call;       /* the first one, if it has begun; else IDLE */
    struct journal_entry *entry; /* of that call */
    struct lane *next;           /* of those that are not empty */
};

struct engine {
    struct lane *lanes; /* 0: collectives; 1 + 2·peer: sends to peer; 2 + 2·peer: receives from peer; last: probes */
    struct journal *journal;      /* NULL: nobody writes down */
    struct journal_entry none;    /* no call's */
    int probed;                   /* the rank that a probe found last */
    struct lane *busy;            /* those that are not empty */
    struct lane **busy_end;       /* where the next one goes */
    struct post *incoming;        /* not admitted yet, newest first; pushed by any thread */
    struct waiter patience;       /* how the rank waits */
    struct engine_thread *thread; /* the thread collet-engine; NULL: not started */
    int callers;                /* how many threads wait here and would drive: that thread acquires it, and lets them */
    struct driver *driver;      /* of the thread that holds the communicator's lock; NULL: nobody, or not to drive */
    struct collet_comm *driven; /* the next one that the same thread drives */
};

enum collet_result engine_open(struct collet_comm *comm);
void engine_close(struct collet_comm *comm);

/* How many there have been. */
uint64_t engine_collectives(const struct collet_comm *comm);

/* Where the call belongs. */
struct lane *engine_lane(const struct post *post);

/* Issues the posts that are not done. Waits for those without a stream; of the others, copies are done later. On a failure,
 * every communicator with an unfinished call among them fails too, and the first failure is returned. */
enum collet_result engine_run(struct post *posts, int nposts, bool on_streams);

/* Waits until so many calls of the queue are done, or until deadline_ns (0: none). Drives comm if nobody else does. */
void engine_wait(const struct queue *queue, uint64_t place, struct collet_comm *comm, uint64_t deadline_ns);

/* Takes the communicator's lock for something else than driving. False: not within limit_ns (0: no limit). */
bool engine_take(struct collet_comm *comm, uint64_t limit_ns);
void engine_give(struct collet_comm *comm);

/* Fails the communicators of those posts that are not done. */
void engine_fail_posts(const struct post *posts, int nposts, enum collet_result result, const char *text);

static inline bool queue_has_come_to(const struct queue *queue, uint64_t place) {
    return __atomic_load_n(&queue->done, __ATOMIC_ACQUIRE) >= place; /* pairs with post_end() */
}
/* The failure of the queue's calls before that place. */
enum collet_result queue_failure(const struct queue *queue, uint64_t place);

/* With the communicator's lock: carries all of its calls to their ends. */
void engine_drain(struct collet_comm *comm);

/* With the lock: is there anything to be done? */
static inline bool engine_is_busy(const struct engine *engine) {
    return engine->busy != NULL || __atomic_load_n(&engine->incoming, __ATOMIC_RELAXED) != NULL;
}

/* ---- who drives ---- */

/* A thread that drives, or wants to. */
struct driver {
    struct collet_comm *comms; /* whose locks it holds */
    struct collet_comm **end;  /* where the next one goes */
    struct waiter waiter;
    uint32_t turns; /* in which something moved */
};

static inline void driver_init(struct driver *driver, const struct waiter *patience) {
    driver->comms = NULL;
    driver->end = &driver->comms;
    driver->waiter = *patience;
    driver->turns = 0;
}

/* False: another thread holds the lock. Never waits. */
bool driver_take(struct driver *driver, struct collet_comm *comm);
void driver_turn(struct driver *driver);  /* a turn for every call, or a pause if nothing moves */
void driver_leave(struct driver *driver); /* gives all locks back */

static inline bool driver_has(const struct driver *driver, const struct engine *engine) {
    return __atomic_load_n(&engine->driver, __ATOMIC_RELAXED) == driver; /* nobody else writes or clears this value */
}

#endif
