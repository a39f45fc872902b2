/* SPDX-License-Identifier: Apache-2.0
 *
 * See engine.h.
 */
#include "api/comm.h"

#include "base/memory.h"
#include "base/os.h"
#include "proxy/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- queues ---- */

static bool has_come_to(const struct queue *queue, uint64_t place) {
    return __atomic_load_n(&queue->done, __ATOMIC_ACQUIRE) >= place; /* pairs with post_end() */
}

/* Keeps the first failure of a queue. Its calls may end in several threads. */
static void queue_fail(struct queue *queue, enum collet_result result) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (queue->failure == COLLET_SUCCESS) {
        snprintf(queue->text, sizeof(queue->text), "%s", err_last());
        __atomic_store_n(&queue->failure, result, __ATOMIC_RELEASE); /* pairs with queue_failure() */
    }
    pthread_mutex_unlock(&lock);
}

static enum collet_result queue_failure(const struct queue *queue) {
    enum collet_result failure = __atomic_load_n(&queue->failure, __ATOMIC_ACQUIRE);
    return failure == COLLET_SUCCESS ? COLLET_SUCCESS : err_adopt(failure, queue->text);
}

/* ---- lanes ---- */

struct lane *engine_lane(const struct post *post) {
    const struct exec_request *r = &post->request;
    struct lane *collectives = post->comm->engine.lanes;
    return prog_is_p2p(r->collective) ? collectives + 1 + 2 * r->root + (r->collective == PROG_RECV) : collectives;
}

/* The post belongs to whoever waits for its queue again: nothing may look at it any more. */
static void post_end(struct post *post, enum collet_result result) {
    struct queue *queue = post->queue;
    if (post->partner != NULL)
        post_end(post->partner, result);
    if (result != COLLET_SUCCESS)
        queue_fail(queue, result);
    __atomic_store_n(&post->done, true, __ATOMIC_RELEASE); /* pairs with is_done() */
    __atomic_add_fetch(&queue->done, 1, __ATOMIC_RELEASE); /* pairs with has_come_to() */
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

/* Its communicator may have failed or ended since it was made. */
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
    while (!__atomic_compare_exchange_n(&engine->incoming, &post->next, post, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) /* pairs with admit_incoming() */
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
    return has_come_to(post->queue, post->place) &&
           (post->partner == NULL || has_come_to(post->partner->queue, post->partner->place));
}

/* A call that cannot be prepared here (no memory, no transport) is a failure: others would wait for it. */
static enum collet_result lane_begin(struct lane *lane) {
    const struct post *post = lane->first;
    struct exec_call *call = &lane->call;
    COLLET_TRY(plan_get(post->comm->planner, &post->request, call));
    call->args.in = post->in;
    call->args.out = post->out;
    call->args.sequence = lane->begun + 1;
    __atomic_store_n(&lane->begun, call->args.sequence, __ATOMIC_RELAXED); /* dumps look */
    if (call->program->nremote > 0)
        proxy_hold(call->chan);
    return COLLET_SUCCESS;
}

static void lane_end(struct lane *lane) {
    lane->call.state = EXEC_IDLE;
    if (lane->call.program->nremote > 0)
        proxy_release(lane->call.chan);
}

/* A message to oneself is a copy. */
static enum collet_result copy_to_self(const struct post *send) {
    if (send->request.count > 0)
        memmove(send->partner->out, send->in, send->request.count);
    return COLLET_SUCCESS;
}

/* Moves the lane's first call: SUCCESS if it is done, IN_PROGRESS, or a failure. */
static enum collet_result lane_try(struct lane *lane, bool *moved) {
    bool call_moved = false;
    if (lane->call.state == EXEC_IDLE) {
        if (!may_begin(lane->first))
            return COLLET_IN_PROGRESS;
        if (lane->first->partner != NULL)
            return copy_to_self(lane->first);
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

/* As far as its calls can move now. */
static enum collet_result lane_turn(struct lane *lane, bool *moved) {
    while (lane->first != NULL) {
        COLLET_TRY(lane_try(lane, moved));
        struct post *post = lane->first;
        lane->first = post->next;
        post_end(post, COLLET_SUCCESS);
        *moved = true;
    }
    return COLLET_SUCCESS;
}

/* ---- a communicator's turn ---- */

/* A call that stops half-way leaves its connections in the middle of a message, so its communicator is over. */
static void engine_fail(struct collet_comm *comm, enum collet_result result) {
    struct engine *engine = &comm->engine;
    boot_fail(comm->boot, result, err_last());
    comm_keep_error(comm);
    for (struct lane *lane = engine->busy; lane != NULL; lane = lane->next) {
        if (lane->call.state != EXEC_IDLE)
            lane_end(lane);
        for (struct post *post = lane->first, *next; post != NULL; post = next) {
            next = post->next;
            post_end(post, result);
        }
        lane->first = NULL;
    }
    engine->busy = NULL;
    engine->busy_end = &engine->busy;
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

/* May its calls still be waited for? */
static void engine_look(struct collet_comm *comm, uint64_t idle_ns, uint64_t now_ns) {
    enum collet_result result = COLLET_SUCCESS;
    if (comm->engine.busy == NULL)
        return;
    chan_attend(comm->chan, idle_ns);
    for (struct lane *lane = comm->engine.busy; lane != NULL && result == COLLET_SUCCESS; lane = lane->next)
        result = lane->call.state == EXEC_IDLE ? boot_check(comm->boot) : exec_look(&lane->call, now_ns);
    if (result != COLLET_SUCCESS)
        engine_fail(comm, result);
}

/* ---- drivers ---- */

/* A call that goes on and on must notice a failure elsewhere, or an abort, too. */
#define LOOK_EVERY_TURNS 64

static void driver_turn(struct driver *driver) {
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

void driver_init(struct driver *driver, struct waiter patience) {
    driver->comms = NULL;
    driver->end = &driver->comms;
    driver->waiter = patience;
    driver->turns = 0;
}

bool driver_take(struct driver *driver, struct collet_comm *comm) {
    struct engine *engine = &comm->engine;
    if (!call_lock_try(&comm->lock))
        return false;
    __atomic_store_n(&engine->driver, driver, __ATOMIC_RELAXED);
    engine->driven = NULL;
    *driver->end = comm;
    driver->end = &engine->driven;
    if (has_incoming(engine)) /* before what the thread issues next */
        admit_incoming(engine);
    return true;
}

void driver_leave(struct driver *driver) {
    for (struct collet_comm *comm = driver->comms, *next; comm != NULL; comm = next) {
        next = comm->engine.driven;
        __atomic_store_n(&comm->engine.driver, NULL, __ATOMIC_RELAXED);
        call_lock_release(&comm->lock);
    }
}

void engine_drain(struct collet_comm *comm) {
    struct driver driver = {.comms = comm, .waiter = comm->engine.patience};
    comm->engine.driven = NULL;
    while (comm->engine.busy != NULL || has_incoming(&comm->engine))
        driver_turn(&driver);
}

/* ---- calls that their thread waits for ---- */

/* False: another thread drives, and will find the post. */
static bool post_now(struct post *post, struct driver *driver) {
    struct engine *engine = &post->comm->engine;
    if (driver_has(driver, engine) || driver_take(driver, post->comm)) {
        post_admit(post);
        return true;
    }
    if (!comm_enter(post->comm)) {
        post_end(post, comm_check(post->comm));
        return true;
    }
    post->waits_outside = true;
    post_push(post);
    return false;
}

/* Its driver may have left. */
static void take_what_is_free(struct post *posts, int nposts, struct driver *driver) {
    for (int k = 0; k < nposts; k++)
        if (posts[k].waits_outside && !is_done(&posts[k]) && !driver_has(driver, &posts[k].comm->engine))
            driver_take(driver, posts[k].comm);
}

/* The calls of a group are done together or not at all, as far as that can be. */
static void fail_the_others(struct post *posts, int nposts, const struct queue *queue) {
    for (int k = 0; k < nposts; k++)
        if (posts[k].queue == queue && !is_done(&posts[k]) && comm_enter(posts[k].comm)) {
            boot_fail(posts[k].comm->boot, queue->failure, queue->text);
            comm_leave(posts[k].comm);
        }
}

static void wait_for_posts(struct post *posts, int nposts, struct queue *queue, struct driver *driver, bool outside) {
    bool failed = false;
    while (!has_come_to(queue, queue->issued)) {
        driver_turn(driver);
        if (outside)
            take_what_is_free(posts, nposts, driver);
        if (!failed && queue_failure(queue) != COLLET_SUCCESS) {
            fail_the_others(posts, nposts, queue);
            failed = true;
        }
    }
}

enum collet_result engine_run(struct post *posts, int nposts) {
    struct driver driver;
    struct queue queue;
    bool outside = false;
    driver_init(&driver, posts[0].comm->engine.patience);
    queue.failure = COLLET_SUCCESS;
    queue.issued = queue.done = 0;
    for (int k = 0; k < nposts; k++) {
        struct post *post = &posts[k];
        if (post->done)
            continue;
        post->queue = &queue;
        queue.issued++;
        if (post->partner != NULL)
            post->partner->queue = &queue;
        if (!post->is_partner)
            outside |= !post_now(post, &driver);
    }
    wait_for_posts(posts, nposts, &queue, &driver, outside);
    driver_leave(&driver);
    for (int k = 0; outside && k < nposts; k++)
        if (posts[k].waits_outside)
            comm_leave(posts[k].comm);
    return queue_failure(&queue);
}

/* ---- life ---- */

enum collet_result engine_open(struct collet_comm *comm) {
    struct engine *engine = &comm->engine;
    COLLET_TRY(memory_get(&engine->lanes, 1 + 2 * (size_t)comm->nranks, sizeof(*engine->lanes),
                          "no memory for the calls of %d ranks", comm->nranks));
    engine->patience = (struct waiter){.spin = comm->chan->spin, .yield_ns = comm->chan->yield_ns};
    return COLLET_SUCCESS;
}

void engine_close(struct collet_comm *comm) {
    free(comm->engine.lanes);
    comm->engine.lanes = NULL;
}

/* ---- dumps ---- */

uint64_t engine_collectives(const struct collet_comm *comm) {
    const struct lane *collectives = comm->engine.lanes;
    return collectives != NULL ? __atomic_load_n(&collectives->begun, __ATOMIC_RELAXED) : 0;
}

/* Another thread may be driving: see exec_dump(). */
__attribute__((no_sanitize("thread"))) void engine_dump(const struct collet_comm *comm, int fd) {
    const struct lane *lanes = comm->engine.lanes;
    for (int k = 0; lanes != NULL && k < 1 + 2 * comm->nranks; k++)
        if (lanes[k].call.state != EXEC_IDLE)
            exec_dump(&lanes[k].call, fd);
        else if (lanes[k].first != NULL)
            dprintf(fd, " a %s waits for an earlier call of its stream\n",
                    k == 0       ? "collective"
                    : k % 2 == 1 ? "send"
                                 : "receive");
}
