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

#include "api/post.h"

enum collet_result engine_open(struct collet_comm *comm);
void engine_close(struct collet_comm *comm);

/* Number of collectives so far. */
uint64_t engine_collectives(const struct collet_comm *comm);

/* The lane of a call. */
struct lane *engine_lane(const struct post *post);

/* Issues the posts that are not done, and waits for those without a stream. Copies of the others are done later. On a failure, every
 * communicator that has an unfinished call among them fails too. Returns the first failure. */
enum collet_result engine_run(struct post *posts, int nposts, bool on_streams);

/* Waits until `place` calls of the queue are done, or until deadline_ns (0: no deadline). Drives comm if nobody else does. */
void engine_wait(const struct queue *queue, uint64_t place, struct collet_comm *comm, uint64_t deadline_ns);

/* Takes the communicator's lock, not to drive. False: it was not free within limit_ns (0: no limit). */
bool engine_take(struct collet_comm *comm, uint64_t limit_ns);
void engine_give(struct collet_comm *comm);

/* Makes the communicators of all unfinished posts fail. */
void engine_fail_posts(const struct post *posts, int nposts, enum collet_result result, const char *text);

static inline bool queue_has_come_to(const struct queue *queue, uint64_t place) {
    return __atomic_load_n(&queue->done, __ATOMIC_ACQUIRE) >= place; /* pairs with post_end() */
}
/* The failure of a call before `place` in the queue; SUCCESS: none. */
enum collet_result queue_failure(const struct queue *queue, uint64_t place);

/* With the communicator's lock: carries all of its calls to their ends. */
void engine_drain(struct collet_comm *comm);

/* Is there work? The caller holds the lock. */
static inline bool engine_is_busy(const struct engine *engine) {
    return engine->busy != NULL || __atomic_load_n(&engine->incoming, __ATOMIC_RELAXED) != NULL;
}

/* ---- who drives ---- */

/* A thread that drives, or wants to drive. */
struct driver {
    struct collet_comm *comms; /* communicators whose locks it holds */
    struct collet_comm **end;  /* end of that list */
    struct waiter waiter;
    uint32_t turns; /* number of turns in which something moved */
};

static inline void driver_init(struct driver *driver, const struct waiter *patience) {
    driver->comms = NULL;
    driver->end = &driver->comms;
    driver->waiter = *patience;
    driver->turns = 0;
}

/* Takes comm's lock without waiting. False: another thread holds it. */
bool driver_take(struct driver *driver, struct collet_comm *comm);
void driver_turn(struct driver *driver);  /* one turn for every call; a pause if nothing moved */
void driver_leave(struct driver *driver); /* releases all locks */

static inline bool driver_has(const struct driver *driver, const struct engine *engine) {
    return __atomic_load_n(&engine->driver, __ATOMIC_RELAXED) == driver; /* nobody else writes or clears this value */
}

#endif
