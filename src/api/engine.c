/* SPDX-License-Identifier: Apache-2.0
 *
 * See engine.h.
 */
#include "api/comm.h"
#include "seams/streams.h"
#include "seams/vectors.h"

#include "api/engine.h"
#include "base/memory.h"
#include "base/os.h"
#include "seams/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- queues ---- */

/* Records the first failure of a queue. Its calls may end in several threads; each returns only when the record is complete. */
static void queue_fail(struct queue *queue, uint64_t place, enum collet_result result) {
    enum collet_result none = COLLET_SUCCESS;
    if (__atomic_compare_exchange_n(&queue->failure, &none, COLLET_IN_PROGRESS, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
        snprintf(queue->text, sizeof(queue->text), "%s", err_last());
        queue->failed_place = place;
        __atomic_store_n(&queue->failure, result, __ATOMIC_RELEASE); /* pairs with queue_failure() */
    }
    while (__atomic_load_n(&queue->failure, __ATOMIC_ACQUIRE) == COLLET_IN_PROGRESS)
        os_cpu_relax();
}

enum collet_result queue_failure(const struct queue *queue, uint64_t place) {
    enum collet_result failure = __atomic_load_n(&queue->failure, __ATOMIC_ACQUIRE); /* pairs with queue_fail() */
    return failure < 0 && queue->failed_place < place ? err_adopt(failure, queue->text) : COLLET_SUCCESS;
}

/* ---- lanes ---- */

static struct lane *probes_of(const struct collet_comm *comm) { return comm->engine.lanes + 1 + 2 * comm->nranks; }

struct lane *engine_lane(const struct post *post) {
    const struct exec_request *r = &post->request;
    struct lane *collectives = post->comm->engine.lanes;
    if (r->root == PROBE_ANY)
        return probes_of(post->comm);
    return prog_is_p2p(r->collective) ? collectives + 1 + 2 * r->root + (r->collective == PROG_RECV) : collectives;
}

/* On most CPUs an atomic addition waits until all earlier stores are done. A queue with one thread does not need it. */
static inline void queue_advance(struct queue *queue) { /* pairs with queue_has_come_to() */
    if (queue->shared)
        __atomic_add_fetch(&queue->done, 1, __ATOMIC_RELEASE);
    else
        __atomic_store_n(&queue->done, queue->done + 1, __ATOMIC_RELEASE);
}

static inline void end_one(struct post *post, enum collet_result result) {
    struct queue *queue = post->queue;
    if (result != COLLET_SUCCESS)
        queue_fail(queue, post->place, result);
    __atomic_store_n(&post->done, true, __ATOMIC_RELEASE); /* pairs with is_done() */
    if (post->is_copy)
        stream_post_free(post);
    queue_advance(queue);
}

/* Ends a post. From now on it belongs to the thread that waits for its queue: nothing here may touch it. */
static void post_end(struct post *post, enum collet_result result) {
    if (post->partner != NULL)
        end_one(post->partner, result);
    end_one(post, result);
}

static bool is_done(const struct post *post) { return __atomic_load_n(&post->done, __ATOMIC_ACQUIRE); }

static void lane_append(struct engine *engine, struct post *post) {
    struct lane *lane = engine_lane(post);
    post->next = NULL;
    if (lane->first != NULL) {
        lane->last = lane->last->next = post;
        return;
    }
    lane->first = lane->last = post;
    lane->next = NULL;
    *engine->busy_end = lane;
    engine->busy_end = &lane->next;
}

/* Puts a post into its lane. Its communicator may have failed or ended since the post was made. */
static void post_admit(struct post *post) {
    enum collet_result result = comm_check_locked(post->comm);
    if (result == COLLET_SUCCESS) {
        lane_append(&post->comm->engine, post);
        return;
    }
    if (comm_is_live(post->comm))
        comm_keep_error(post->comm);
    post_end(post, result);
}

static void post_push(struct post *post) {
    struct engine *engine = &post->comm->engine;
    post->next = __atomic_load_n(&engine->incoming, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&engine->incoming, &post->next, post, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) /* pairs with admit_incoming() and leaves_calls() */
        ;
}

static void admit_incoming(struct engine *engine) {
    struct post *newest = __atomic_exchange_n(&engine->incoming, NULL, __ATOMIC_ACQUIRE), *oldest = NULL, *next;
    for (; newest != NULL; newest = next) {
        next = newest->next;
        newest->next = oldest;
        oldest = newest;
    }
    for (; oldest != NULL; oldest = next) {
        next = oldest->next;
        post_admit(oldest);
    }
}

static bool has_incoming(const struct engine *engine) {
    return __atomic_load_n(&engine->incoming, __ATOMIC_RELAXED) != NULL;
}

/* ---- a lane's turn ---- */

static bool may_begin(const struct post *post) {
    return queue_has_come_to(post->queue, post->place) &&
           (post->partner == NULL || queue_has_come_to(post->partner->queue, post->partner->place));
}

/* Begins the lane's first call. If it cannot be prepared (no memory, no transport), that is a failure: other ranks would wait for it. */
static inline enum collet_result lane_begin(struct lane *lane) {
    const struct post *post = lane->first;
    struct exec_call *call = &lane->call;
    COLLET_TRY(plan_get(post->comm->planner, &post->request, call));
    call->args.in = post->in;
    call->args.out = post->out;
    call->args.sequence = lane->begun + 1;
    __atomic_store_n(&lane->begun, call->args.sequence, __ATOMIC_RELAXED); /* dumps read it without the lock */
    lane->entry = journal_begin(post->comm->engine.journal, lane->entry, call);
    if (call->program->nremote > 0)
        proxy_count(call->chan, call->program->conns, call->program->nconns, 1);
    return COLLET_SUCCESS;
}

static inline void lane_end(struct lane *lane) {
    journal_end(lane->first->comm->engine.journal, lane->entry, &lane->call);
    lane->call.state = EXEC_IDLE;
    exec_said_no_more(&lane->call);
    if (lane->call.program->nremote > 0)
        proxy_count(lane->call.chan, lane->call.program->conns, lane->call.program->nconns, -1);
}

/* A message to oneself is a copy. */
static enum collet_result copy_to_self(const struct post *send) {
    if (send->request.count > 0)
        memmove(send->partner->out, send->in, send->request.count);
    return COLLET_SUCCESS;
}

/* Tries the lane's first call. SUCCESS: it is done. IN_PROGRESS: not yet. Else a failure. */
static enum collet_result lane_try(struct lane *lane, bool *moved) {
    bool call_moved = false;
    if (lane->call.state == EXEC_IDLE) {
        if (!may_begin(lane->first))
            return COLLET_IN_PROGRESS;
        if (lane->first->partner != NULL)
            return copy_to_self(lane->first);
        if (lane->first->request.root == PROBE_ANY)
            return probe_try(lane->first->comm, lane->first, &lane->call.idle_since_ns);
        COLLET_TRY(lane_begin(lane));
    }
    enum collet_result result = exec_call_try(&lane->call, &call_moved);
    if (call_moved)
        lane->call.idle_since_ns = 0;
    *moved |= call_moved;
    if (result == COLLET_SUCCESS)
        lane_end(lane);
    return result < 0 ? exec_explain(&lane->call, result) : result;
}

/* Runs the calls of a lane, as far as they can move now. */
static enum collet_result lane_turn(struct lane *lane, bool *moved) {
    while (lane->first != NULL) {
        COLLET_TRY(lane_try(lane, moved));
        struct post *post = lane->first;
        lane->first = post->next;
        lane->call.idle_since_ns = 0;
        post_end(post, COLLET_SUCCESS);
        *moved = true;
    }
    return COLLET_SUCCESS;
}

/* ---- a communicator's turn ---- */

/* Makes a communicator fail. A call that stops halfway leaves its connections in the middle of a message, so they cannot be used again. */
static void engine_fail(struct collet_comm *comm, enum collet_result result) {
    struct engine *engine = &comm->engine;
    boot_fail(comm->boot, result, err_last());
    comm_keep_error(comm);
    for (struct lane *lane = engine->busy; lane != NULL; lane = lane->next) {
        if (lane->call.state != EXEC_IDLE) {
            proxy_pause(comm->chan);
            exec_stop_loans(&lane->call);
            proxy_resume(comm->chan);
            lane->entry->result = (int16_t)result;
            lane_end(lane);
        }
        for (struct post *post = lane->first, *next; post != NULL; post = next) {
            next = post->next;
            post_end(post, result);
        }
        lane->first = NULL;
    }
    engine->busy = NULL;
    engine->busy_end = &engine->busy;
    comm_tell_failure(comm);
}

static void engine_turn(struct collet_comm *comm, bool *moved) {
    struct engine *engine = &comm->engine;
    if (has_incoming(engine))
        admit_incoming(engine);
    for (struct lane **link = &engine->busy, *lane; (lane = *link) != NULL;) {
        enum collet_result result = lane_turn(lane, moved);
        if (result < 0) {
            engine_fail(comm, result);
            return;
        }
        if (result == COLLET_IN_PROGRESS)
            link = &lane->next;
        else if ((*link = lane->next) == NULL)
            engine->busy_end = link;
    }
}

static enum collet_result lane_look(struct collet_comm *comm, struct lane *lane, uint64_t now_ns) {
    return lane->call.state == EXEC_IDLE ? boot_check(comm->boot) : exec_look(&lane->call, now_ns);
}

/* May the calls of the communicator go on waiting? If not, the communicator fails. */
static void engine_look(struct collet_comm *comm, uint64_t idle_ns, uint64_t now_ns) {
    enum collet_result result = COLLET_SUCCESS;
    if (comm->engine.busy == NULL)
        return;
    chan_attend(comm->chan, idle_ns, now_ns);
    for (struct lane *lane = comm->engine.busy; lane != NULL && result == COLLET_SUCCESS; lane = lane->next)
        result = lane_look(comm, lane, now_ns);
    if (result != COLLET_SUCCESS)
        engine_fail(comm, result);
}

/* ---- drivers ---- */

/* Even if calls always move, a failure elsewhere, or an abort, must be noticed after this many turns. */
#define LOOK_EVERY_TURNS 64

void driver_turn(struct driver *driver) {
    bool moved = false;
    for (struct collet_comm *comm = driver->comms; comm != NULL; comm = comm->engine.driven)
        engine_turn(comm, &moved);
    if (moved) {
        wait_progressed(&driver->waiter);
        if (++driver->turns % LOOK_EVERY_TURNS != 0)
            return;
    } else if (!wait_pause(&driver->waiter)) {
        return;
    }
    uint64_t idle_ns = wait_idle_ns(&driver->waiter), now_ns = os_now_ns();
    for (struct collet_comm *comm = driver->comms; comm != NULL; comm = comm->engine.driven)
        engine_look(comm, idle_ns, now_ns);
}

bool driver_take(struct driver *driver, struct collet_comm *comm) {
    struct engine *engine = &comm->engine;
    if (!call_lock_try(&comm->lock))
        return false;
    __atomic_store_n(&engine->driver, driver, __ATOMIC_RELAXED);
    engine->driven = NULL;
    *driver->end = comm;
    driver->end = &engine->driven;
    if (has_incoming(engine)) /* they come before the thread's next calls */
        admit_incoming(engine);
    return true;
}

/* A thread that pushes a post, and then sees a driver, leaves the post to it. So the driver first stores that it leaves, and then looks
 * for posts. A plain load could run before that store, and miss the post. An atomic addition of 0 cannot. Either it comes before the
 * push, and the other thread sees no driver; or after it, and finds the post. */
static bool leaves_calls(struct engine *engine) {
    return engine->busy != NULL || __atomic_fetch_add(&engine->incoming, 0, __ATOMIC_ACQ_REL) != NULL;
}

/* Releases the lock. If calls are left, it first wakes collet-engine, before another thread can end the communicator. */
static void lock_give(struct collet_comm *comm) {
    struct engine *engine = &comm->engine;
    __atomic_store_n(&engine->driver, NULL, __ATOMIC_RELAXED);
    if (__atomic_load_n(&engine->thread, __ATOMIC_RELAXED) != NULL && leaves_calls(engine))
        engine_thread_wake(comm);
    call_lock_release(&comm->lock);
}

void driver_leave(struct driver *driver) {
    for (struct collet_comm *comm = driver->comms, *next; comm != NULL; comm = next) {
        next = comm->engine.driven;
        lock_give(comm);
    }
}

void engine_drain(struct collet_comm *comm) {
    struct driver driver = {.comms = comm, .waiter = comm->engine.patience};
    comm->engine.driven = NULL;
    while (engine_is_busy(&comm->engine))
        driver_turn(&driver);
}

/* ---- threads that want the lock ---- */

/* Counts the thread as a caller. False: comm is no communicator. It stays valid until caller_leave(). */
static bool caller_enter(struct collet_comm *comm) {
    if (!comm_enter(comm))
        return false;
    __atomic_add_fetch(&comm->engine.callers, 1, __ATOMIC_ACQ_REL);
    return true;
}

static void caller_leave(struct collet_comm *comm) {
    __atomic_sub_fetch(&comm->engine.callers, 1, __ATOMIC_ACQ_REL);
    engine_thread_wake(comm);
    comm_leave(comm);
}

bool engine_take(struct collet_comm *comm, uint64_t limit_ns) {
    __atomic_add_fetch(&comm->engine.callers, 1, __ATOMIC_ACQ_REL);
    bool taken = call_lock_acquire(&comm->lock, limit_ns);
    __atomic_sub_fetch(&comm->engine.callers, 1, __ATOMIC_ACQ_REL);
    return taken;
}

void engine_give(struct collet_comm *comm) { lock_give(comm); }

void engine_wait(const struct queue *queue, uint64_t place, struct collet_comm *comm, uint64_t deadline_ns) {
    struct driver driver;
    if (queue_has_come_to(queue, place))
        return;
    bool helps = caller_enter(comm);
    driver_init(&driver, &comm->engine.patience);
    while (!queue_has_come_to(queue, place) && (deadline_ns == 0 || os_now_ns() < deadline_ns)) {
        if (helps && !driver_has(&driver, &comm->engine))
            driver_take(&driver, comm);
        driver_turn(&driver);
    }
    driver_leave(&driver);
    if (helps)
        caller_leave(comm);
}

/* ---- calls are issued ---- */

/* Admits a post, or leaves it to the thread that drives. False: that thread will find it. */
static bool post_now(struct post *post, struct driver *driver) {
    struct collet_comm *comm = post->comm;
    if (driver_has(driver, &comm->engine) || driver_take(driver, comm)) {
        post_admit(post);
        return true;
    }
    if (!caller_enter(comm)) {
        post_end(post, comm_check(comm));
        return true;
    }
    post->waits_outside = true;
    if (!post->queue->shared) /* the driver of an earlier post of this queue may read it */
        post->queue->shared = true;
    post_push(post);
    return false;
}

static enum collet_result post_later(struct post *post, uint64_t issue, struct driver *driver) {
    struct collet_comm *comm = post->comm;
    struct post *copy;
    COLLET_TRY(stream_post(post, issue, &copy));
    if (driver_has(driver, &comm->engine)) {
        post_admit(copy);
        return COLLET_SUCCESS;
    }
    post_push(copy);
    engine_thread_wake(comm);
    return COLLET_SUCCESS;
}

/* Issues a post on a stream. collet-engine, or a thread that waits, runs it later. */
static void post_on_stream(struct post *post, uint64_t issue, struct queue *queue, struct driver *driver) {
    bool is_comm = comm_enter(post->comm);
    enum collet_result result = is_comm ? post_later(post, issue, driver) : comm_check(post->comm);
    if (result == COLLET_SUCCESS)
        post->done = true;
    else
        queue_fail(queue, 0, result);
    if (is_comm)
        comm_leave(post->comm);
}

/* Takes the locks of communicators that have lost their driver, if posts still wait there. */
static void take_what_is_free(struct post *posts, int nposts, struct driver *driver) {
    for (int k = 0; k < nposts; k++)
        if (posts[k].waits_outside && !is_done(&posts[k]) && !driver_has(driver, &posts[k].comm->engine))
            driver_take(driver, posts[k].comm);
}

void engine_fail_posts(const struct post *posts, int nposts, enum collet_result result, const char *text) {
    for (int k = 0; k < nposts; k++)
        if (!is_done(&posts[k]) && comm_enter(posts[k].comm)) {
            boot_fail(posts[k].comm->boot, result, text);
            comm_leave(posts[k].comm);
        }
}

static void wait_for_posts(struct post *posts, int nposts, struct queue *queue, struct driver *driver, bool outside) {
    bool failed = false;
    while (!queue_has_come_to(queue, queue->issued)) {
        driver_turn(driver);
        if (outside)
            take_what_is_free(posts, nposts, driver);
        if (!failed && queue_failure(queue, UINT64_MAX) != COLLET_SUCCESS) {
            engine_fail_posts(posts, nposts, queue->failure, queue->text);
            failed = true;
        }
    }
}

/* Issues all posts. issue: number of the group, if some of its calls are on streams. True: other drivers have some of them. */
static bool post_all(struct post *posts, int nposts, uint64_t issue, struct queue *queue, struct driver *driver) {
    bool outside = false;
    for (int k = 0; k < nposts; k++) {
        struct post *post = &posts[k];
        if (post->done)
            continue;
        if (post->stream != NULL) {
            if (!post->is_partner)
                post_on_stream(post, issue, queue, driver);
            continue;
        }
        post->queue = queue;
        queue->issued++;
        if (post->partner != NULL)
            post->partner->queue = queue;
        if (!post->is_partner)
            outside |= !post_now(post, driver);
    }
    return outside;
}

enum collet_result engine_run(struct post *posts, int nposts, bool on_streams) {
    struct driver driver;
    struct queue queue;
    driver_init(&driver, &posts[0].comm->engine.patience);
    queue.failure = COLLET_SUCCESS;
    queue.issued = queue.done = 0;
    queue.shared = false;
    const uint64_t issue = on_streams ? ++process_lock()->issues : 0;
    bool outside = post_all(posts, nposts, issue, &queue, &driver);
    if (on_streams)
        process_unlock();
    if (on_streams && queue_failure(&queue, UINT64_MAX) != COLLET_SUCCESS)
        engine_fail_posts(posts, nposts, queue.failure, queue.text);
    wait_for_posts(posts, nposts, &queue, &driver, outside);
    driver_leave(&driver);
    for (int k = 0; outside && k < nposts; k++)
        if (posts[k].waits_outside)
            caller_leave(posts[k].comm);
    return queue_failure(&queue, UINT64_MAX);
}

/* ---- life ---- */

enum collet_result engine_open(struct collet_comm *comm) {
    struct engine *engine = &comm->engine;
    COLLET_TRY(memory_get(&engine->lanes, 2 + 2 * (size_t)comm->nranks, sizeof(*engine->lanes),
                          "no memory for the calls of %d ranks", comm->nranks));
    engine->none.args_id = UINT64_MAX;
    for (int k = 0; k < 2 + 2 * comm->nranks; k++)
        engine->lanes[k].entry = &engine->none;
    boot_count_at(comm->boot, &engine->lanes->begun);
    engine->patience = comm->chan->patience;
    return COLLET_SUCCESS;
}

void engine_close(struct collet_comm *comm) {
    if (comm->boot != NULL)
        boot_count_at(comm->boot, NULL);
    free(comm->engine.lanes);
    comm->engine.lanes = NULL;
    comm->engine.probed = 0;
}

uint64_t engine_collectives(const struct collet_comm *comm) {
    const struct lane *collectives = comm->engine.lanes;
    return collectives != NULL ? __atomic_load_n(&collectives->begun, __ATOMIC_RELAXED) : 0;
}
