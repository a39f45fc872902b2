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

/* ---- failures ---- */

/* Records a failure, if it is the first one. Calls may fail in several threads at once. Each thread returns only when the record is
 * complete. */
static void post_fail(struct post_failure *failure, uint64_t place, enum collet_result result) {
    enum collet_result none = COLLET_SUCCESS;
    if (__atomic_compare_exchange_n(&failure->result, &none, COLLET_IN_PROGRESS, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
        snprintf(failure->text, sizeof(failure->text), "%s", err_last());
        failure->place = place;
        __atomic_store_n(&failure->result, result, __ATOMIC_RELEASE); /* Pairs with post_failure() */
    }
    while (__atomic_load_n(&failure->result, __ATOMIC_ACQUIRE) == COLLET_IN_PROGRESS)
        os_cpu_relax();
}

enum collet_result post_failure(const struct post_failure *failure, uint64_t place) {
    enum collet_result result = __atomic_load_n(&failure->result, __ATOMIC_ACQUIRE); /* Pairs with post_fail() */
    return result < 0 && failure->place < place ? err_adopt(result, failure->text) : COLLET_SUCCESS;
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

/* Ends a post and its partner. From then on, both posts belong to the threads that wait for them: the driver may not touch them. */
static void post_end(struct post *post, enum collet_result result) {
    for (struct post *partner; post != NULL; post = partner) {
        struct queue *queue = post->queue;
        partner = post->partner;
        if (result != COLLET_SUCCESS)
            post_fail(post->failure, post->place, result);
        if (queue == NULL) {
            __atomic_store_n(&post->done, true, __ATOMIC_RELEASE); /* Pairs with is_done() */
            continue;
        }
        stream_post_free(post);
        __atomic_add_fetch(&queue->done, 1, __ATOMIC_RELEASE); /* Pairs with queue_has_come_to() */
    }
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
                                        __ATOMIC_RELAXED)) /* Pairs with admit_incoming() and leaves_calls() */
        ;
}

static void admit_incoming(struct engine *engine) {
    if (__atomic_load_n(&engine->incoming, __ATOMIC_RELAXED) == NULL)
        return;
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

/* ---- a lane's turn ---- */

static bool may_begin(const struct post *post) {
    for (; post != NULL; post = post->partner)
        if (post->queue != NULL && !queue_has_come_to(post->queue, post->place))
            return false;
    return true;
}

/* Inline, because every call passes through this function. */
inline enum collet_result lane_begin(struct lane *lane, const struct post *post, const struct exec_request *request,
                                     struct exec_call *call) {
    COLLET_TRY(plan_get(post->comm->planner, request, call));
    call->args.in = post->in;
    call->args.out = post->out;
    call->args.sequence = lane->begun + 1;
    call->stream = post->stream;
    __atomic_store_n(&lane->begun, call->args.sequence, __ATOMIC_RELAXED); /* Dumps read it without the lock */
    if (lane->run.args_id != call->args_id)
        recorder_tell(call->chan->recorder, CALL_BEGINS, &lane->run, call);
    lane->run.calls.last = call->args.sequence;
    return COLLET_SUCCESS;
}

static inline void lane_end(struct lane *lane) {
    if (lane->run.args_id == 0)
        recorder_tell(lane->call.chan->recorder, CALL_ENDS, &lane->run, &lane->call);
    if (lane->call.program->nremote > 0)
        proxy_count(lane->call.chan, lane->call.program->conns, lane->call.program->nconns, -1);
}

/* A message to oneself is a copy. */
static enum collet_result copy_to_self(const struct post *send) {
    if (send->request.count > 0)
        memmove(send->partner->out, send->in, send->request.count);
    return COLLET_SUCCESS;
}

/* Tries the lane's first call. SUCCESS: the call is done. IN_PROGRESS: not yet. Else the call has failed. */
static enum collet_result lane_try(struct lane *lane, bool *moved) {
    bool call_moved = false;
    if (lane->call.state == EXEC_IDLE) {
        if (!may_begin(lane->first))
            return COLLET_IN_PROGRESS;
        if (lane->first->partner != NULL)
            return copy_to_self(lane->first);
        if (lane->first->request.root == PROBE_ANY)
            return probe_try(lane->first->comm, lane->first, &lane->call.idle_since_ns);
        COLLET_TRY(lane_begin(lane, lane->first, &lane->first->request, &lane->call));
        if (lane->call.program->nremote > 0)
            proxy_count(lane->call.chan, lane->call.program->conns, lane->call.program->nconns, 1);
    }
    enum collet_result result = exec_call_try(&lane->call, &call_moved);
    if (call_moved)
        lane->call.idle_since_ns = 0;
    *moved |= call_moved;
    if (result == COLLET_SUCCESS)
        lane_end(lane);
    return result < 0 ? exec_explain(&lane->call, result) : result;
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
            lane->run.calls.result = (int8_t)result;
            lane_end(lane);
            lane->call.state = EXEC_IDLE;
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

/* Runs the calls of each lane, as far as they can move now. */
static void engine_turn(struct collet_comm *comm, bool *moved) {
    struct engine *engine = &comm->engine;
    admit_incoming(engine);
    for (struct lane **link = &engine->busy, *lane; (lane = *link) != NULL;) {
        enum collet_result result = lane_try(lane, moved);
        if (result < 0) {
            engine_fail(comm, result);
            return;
        }
        if (result == COLLET_IN_PROGRESS) {
            link = &lane->next;
            continue;
        }
        struct post *post = lane->first;
        lane->first = post->next;
        lane->call.idle_since_ns = 0;
        post_end(post, COLLET_SUCCESS);
        *moved = true;
        if (lane->first == NULL && (*link = lane->next) == NULL)
            engine->busy_end = link;
    }
}

/* May the calls of the communicator go on waiting? If not, the communicator fails. */
static void engine_look(struct collet_comm *comm, uint64_t idle_ns, uint64_t now_ns) {
    enum collet_result result = COLLET_SUCCESS;
    if (comm->engine.busy == NULL)
        return;
    chan_attend(comm->chan, idle_ns, now_ns);
    for (struct lane *lane = comm->engine.busy; lane != NULL && result == COLLET_SUCCESS; lane = lane->next)
        result = lane->call.state == EXEC_IDLE ? boot_check(comm->boot) : exec_look(&lane->call, now_ns);
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
    if (__atomic_load_n(&engine->driver, __ATOMIC_RELAXED) == driver) /* No other thread stores or clears this value */
        return true;
    if (!call_lock_try(&comm->lock))
        return false;
    __atomic_store_n(&engine->driver, driver, __ATOMIC_RELAXED);
    engine->driven = NULL;
    *(driver->comms == NULL ? &driver->comms : &driver->last->engine.driven) = comm;
    driver->last = comm;
    return true;
}

/* A thread that pushes a post and then sees a driver leaves the post to that driver. So a driver that leaves first stores NULL in
 * engine->driver, and then looks for posts. A plain load could run before that store and miss the post. An atomic addition of 0 cannot:
 * if the addition comes before the push, the other thread sees no driver; if it comes after the push, it finds the post. */
static bool leaves_calls(struct engine *engine) {
    return engine->busy != NULL || __atomic_fetch_add(&engine->incoming, 0, __ATOMIC_ACQ_REL) != NULL;
}

/* Releases the lock. If calls are left, wakes collet-engine first: after the release, another thread may end the communicator. */
void engine_give(struct collet_comm *comm) {
    struct engine *engine = &comm->engine;
    __atomic_store_n(&engine->driver, NULL, __ATOMIC_RELAXED);
    if (__atomic_load_n(&engine->thread, __ATOMIC_RELAXED) != NULL && leaves_calls(engine))
        engine_thread_wake(comm);
    call_lock_release(&comm->lock);
}

void driver_leave(struct driver *driver) {
    for (struct collet_comm *comm = driver->comms, *next; comm != NULL; comm = next) {
        next = comm->engine.driven;
        engine_give(comm);
    }
    driver->comms = NULL;
}

void engine_drain(struct collet_comm *comm) {
    struct driver driver = {.comms = comm, .waiter = comm->engine.patience};
    comm->engine.driven = NULL;
    while (engine_is_busy(&comm->engine))
        driver_turn(&driver);
}

/* ---- threads that want the lock ---- */

/* Counts the thread as a caller, so comm stays valid until caller_leave(). False: comm is no communicator. */
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

void engine_wait(const struct queue *queue, uint64_t place, struct collet_comm *comm, uint64_t deadline_ns) {
    if (queue_has_come_to(queue, place))
        return;
    bool helps = caller_enter(comm);
    struct driver driver = {.waiter = comm->engine.patience};
    while (!queue_has_come_to(queue, place) && (deadline_ns == 0 || os_now_ns() < deadline_ns)) {
        if (helps)
            driver_take(&driver, comm);
        driver_turn(&driver);
    }
    driver_leave(&driver);
    if (helps)
        caller_leave(comm);
}

/* ---- calls are issued ---- */

/* Admits a post, or leaves it to the thread that drives. */
static void post_now(struct post *post, struct driver *driver) {
    struct collet_comm *comm = post->comm;
    if (driver_take(driver, comm)) {
        admit_incoming(&comm->engine); /* Those posts come before this one */
        post_admit(post);
    } else if (caller_enter(comm)) {
        driver->outside++;
        post->waits_outside = true;
        post_push(post);
    } else {
        post_end(post, comm_check(comm));
    }
}

/* Leaves a copy of a post to collet-engine, or to a thread that drives. */
static enum collet_result post_later(struct post *post, uint64_t issue) {
    struct post *copy;
    COLLET_TRY(stream_post(post, issue, &copy));
    post_push(copy);
    engine_thread_wake(post->comm);
    return COLLET_SUCCESS;
}

/* Issues a post on a stream. If there is no memory for that, the communicator fails, because other ranks would wait for the call. */
static void post_on_stream(struct post *post, uint64_t issue) {
    struct collet_comm *comm = post->comm;
    const bool is_comm = comm_enter(comm);
    const enum collet_result result = is_comm ? post_later(post, issue) : comm_check(comm);
    if (is_comm && result != COLLET_SUCCESS)
        boot_fail(comm->boot, result, err_last());
    post_end(post, result);
    if (is_comm)
        comm_leave(comm);
}

/* Takes the locks of communicators that have lost their driver while posts of this thread still wait there. */
static void take_what_is_free(struct post *posts, int nposts, struct driver *driver) {
    for (int k = 0; k < nposts; k++)
        if (posts[k].waits_outside && !is_done(&posts[k]))
            driver_take(driver, posts[k].comm);
}

void engine_fail_posts(const struct post *posts, int nposts, enum collet_result result, const char *text) {
    for (int k = 0; k < nposts; k++)
        if (!is_done(&posts[k]) && comm_enter(posts[k].comm)) {
            boot_fail(posts[k].comm->boot, result, text);
            comm_leave(posts[k].comm);
        }
}

static void wait_for_posts(struct post *posts, int nposts, const struct post_failure *failure, struct driver *driver) {
    bool failed = false;
    for (int k = 0; k < nposts; k++)
        while (!is_done(&posts[k])) {
            driver_turn(driver);
            if (driver->outside > 0)
                take_what_is_free(posts, nposts, driver);
            if (!failed && post_failure(failure, UINT64_MAX) != COLLET_SUCCESS) {
                engine_fail_posts(posts, nposts, failure->result, failure->text);
                failed = true;
            }
        }
}

/* Issues all posts that are not done. issue: number of the group, if some of its calls are on streams. */
static void post_all(struct post *posts, int nposts, uint64_t issue, struct post_failure *failure,
                     struct driver *driver) {
    for (int k = 0; k < nposts; k++) {
        struct post *post = &posts[k];
        post->failure = failure;
        if (post->partner != NULL)
            post->partner->failure = failure;
        if (post->done || post->is_partner)
            continue;
        if (post->stream != NULL)
            post_on_stream(post, issue);
        else
            post_now(post, driver);
    }
}

enum collet_result engine_run(struct post *posts, int nposts, bool on_streams) {
    struct driver driver = {.waiter = posts[0].comm->engine.patience};
    struct post_failure failure;
    failure.result = COLLET_SUCCESS;
    const uint64_t issue = on_streams ? ++process_lock()->issues : 0;
    post_all(posts, nposts, issue, &failure, &driver);
    if (on_streams)
        process_unlock();
    wait_for_posts(posts, nposts, &failure, &driver);
    driver_leave(&driver);
    for (int k = 0; driver.outside > 0 && k < nposts; k++)
        if (posts[k].waits_outside)
            caller_leave(posts[k].comm);
    return post_failure(&failure, UINT64_MAX);
}

/* ---- life ---- */

enum collet_result engine_open(struct collet_comm *comm) {
    struct engine *engine = &comm->engine;
    COLLET_TRY(memory_get(&engine->lanes, 2 + 2 * (size_t)comm->nranks, sizeof(*engine->lanes),
                          "no memory for the calls of %d ranks", comm->nranks));
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
