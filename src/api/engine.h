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

/* Begins a post as the next call of a lane. If the call cannot be prepared (no memory, no transport), the communicator must fail,
 * because other ranks would wait for the call. request: the request of the post, or on GPUs a changed copy of it. */
enum collet_result lane_begin(struct lane *lane, const struct post *post, const struct exec_request *request,
                              struct exec_call *call);

/* Issues the posts that are not done, and waits for those without a stream. Posts on streams are copied, and the copies are done later.
 * If a call fails, every communicator that has an unfinished call among the posts fails too. Returns the first failure. */
enum collet_result engine_run(struct post *posts, int nposts, bool on_streams);

/* Waits until `place` calls of the queue are done, or until deadline_ns (0: no deadline). Drives comm if nobody else does. */
void engine_wait(const struct queue *queue, uint64_t place, struct collet_comm *comm, uint64_t deadline_ns);

/* Takes the communicator's lock for other work than driving. False: another thread held the lock for limit_ns (0: no limit). */
bool engine_take(struct collet_comm *comm, uint64_t limit_ns);
void engine_give(struct collet_comm *comm);

/* Makes the communicators of all unfinished posts fail. */
void engine_fail_posts(const struct post *posts, int nposts, enum collet_result result, const char *text);

static inline bool queue_has_come_to(const struct queue *queue, uint64_t place) {
    return __atomic_load_n(&queue->done, __ATOMIC_ACQUIRE) >= place; /* Pairs with post_end() */
}
/* The failure of a call before `place`; SUCCESS: none. */
enum collet_result post_failure(const struct post_failure *failure, uint64_t place);

/* Carries all calls of comm to their ends. The caller holds comm's lock. */
void engine_drain(struct collet_comm *comm);

/* Does the communicator have calls that are not done? The caller holds its lock. */
static inline bool engine_is_busy(const struct engine *engine) {
    return engine->busy != NULL || __atomic_load_n(&engine->incoming, __ATOMIC_RELAXED) != NULL;
}

/* ---- who drives ---- */

/* A thread that drives, or wants to drive. */
struct driver {
    /* Communicators whose locks it holds, oldest lock first: a list, linked by engine.driven. */
    struct collet_comm *comms;
    struct collet_comm *last; /* Last communicator of that list. */
    struct waiter waiter;     /* Copy of a rank's engine.patience. */
    uint32_t turns;           /* Number of turns in which a call moved. */
    int outside;              /* Number of its calls that it has left to other drivers. */
};

/* Takes comm's lock without waiting. True: the driver holds the lock, perhaps since an earlier call. False: another thread holds it. */
bool driver_take(struct driver *driver, struct collet_comm *comm);
void driver_turn(struct driver *driver);  /* Gives each call one turn; pauses if no call moved */
void driver_leave(struct driver *driver); /* Releases all locks of the driver */

#endif
