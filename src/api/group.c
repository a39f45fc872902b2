/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups. Of one communicator, collectives run one after the other, in order of issue; the messages of one pair of ranks
 * and direction likewise; everything else runs side by side.
 */
#include "api/group.h"

#include "base/grow.h"
#include "base/log.h"
#include "base/types.h"
#include "exec/exec_gpu.h"

#include <stdlib.h>
#include <string.h>

struct grouped_call {
    struct collet_comm *comm;
    struct exec_request request;
    const void *in;
    void *out;
    void *stream;
    bool done; /* a message to oneself that has been copied */
};

/* What this thread has collected. The arrays are kept from group to group. */
struct group {
    int depth;
    unsigned generation;      /* of the process that opened it */
    enum collet_result error; /* the first; nothing runs then */
    char error_text[ERR_TEXT_BYTES];
    struct grouped_call *calls;
    int ncalls, calls_room;
    struct collet_comm ***joins;
    int njoins, joins_room;
    struct exec_call *execs;
    struct collet_comm **comms; /* of the calls, each once, in the order in which they are locked */
    int execs_room;
};

static _Thread_local struct group group;

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

/* What group_end() would have run is not silently forgotten. */
static void warn_of_open_group(const struct group *g) {
    if (g->depth > 0 && g->ncalls > 0 && g->generation == process_generation())
        log_warn(ERR, "a thread ended before collet_group_end(): %d calls of its group, the first a %s, were not made",
                 g->ncalls, prog_collective_name(g->calls[0].request.collective));
}

static void warn_at_exit(void) { warn_of_open_group(&group); }

static void free_arrays(void *of_thread) {
    struct group *g = of_thread;
    warn_of_open_group(g);
    free(g->calls);
    free(g->joins);
    free(g->execs);
    free(g->comms);
}

static void exit_key_create(void) {
    pthread_key_create(&exit_key, free_arrays);
    atexit(warn_at_exit); /* the thread that ends the process does not end by itself */
}

/* From now on the arrays are freed when this thread ends. */
static void free_at_thread_exit(void) {
    pthread_once(&exit_once, exit_key_create);
    pthread_setspecific(exit_key, &group);
}

enum collet_result group_poison(enum collet_result result) {
    if (group.depth > 0 && result < 0 && group.error == COLLET_SUCCESS) {
        group.error = result;
        snprintf(group.error_text, sizeof(group.error_text), "%s", err_last());
    }
    return result;
}

/* Room for one more entry of an array of the group. */
static enum collet_result group_make_room(void *array_p, int used, int *room, size_t entry_bytes) {
    if (used == *room)
        free_at_thread_exit();
    if (grow(array_p, (size_t)used, 1, room, entry_bytes))
        return COLLET_SUCCESS;
    return group_poison(err_set(COLLET_ERR_NO_MEMORY, "no memory for a group of %d calls", used + 1));
}

/* ---- one call alone ---- */

static void set_running(struct collet_comm *comm, const struct exec_batch *batch) {
    __atomic_store_n(&comm->running, batch, __ATOMIC_RELEASE); /* pairs with collet_comm_dump() */
}

/* A call that cannot even be prepared here (no memory, no transport) would be waited for elsewhere: so all are told. */
static enum collet_result begin_call(struct collet_comm *comm, const struct exec_request *request, const void *in,
                                     void *out, void *stream, struct exec_call **call_p) {
    enum collet_result result = plan_get(comm->planner, request, call_p);
    if (result != COLLET_SUCCESS) {
        boot_fail(comm->boot, result, err_last());
        return result;
    }
    struct exec_call *call = *call_p;
    call->args.in = in;
    call->args.out = out;
    call->stream = stream;
    if (prog_is_p2p(request->collective))
        call->args.sequence = ++call->program->messages;
    else
        __atomic_store_n(&comm->sequence, call->args.sequence = comm->sequence + 1, __ATOMIC_RELAXED); /* dumps look */
    return COLLET_SUCCESS;
}

static enum collet_result run_alone(struct collet_comm *comm, const struct exec_request *request, const void *in,
                                    void *out, void *stream) {
    if (prog_is_p2p(request->collective) && request->root == comm->rank)
        return err_set(
            COLLET_ERR_INVALID_USAGE,
            "peer is %d, the calling rank itself: a message to oneself needs its send and its receive in one group",
            request->root);
    call_lock_acquire(&comm->lock, 0);
    enum collet_result result = comm_check_locked(comm); /* it may have been aborted while we waited for the lock */
    struct exec_call *call;
    if (result == COLLET_SUCCESS)
        result = begin_call(comm, request, in, out, stream, &call);
    if (result == COLLET_SUCCESS) {
        __atomic_store_n(&comm->single.calls, call, __ATOMIC_RELAXED); /* dumps look */
        set_running(comm, &comm->single);
        result = comm->gpu != NULL ? exec_gpu_run(call, 1) : exec_run(call, 1);
        set_running(comm, NULL);
    }
    if (comm_is_live(comm))
        comm_remember(comm, result);
    call_lock_release(&comm->lock);
    return result;
}

/* A child of fork() inherits what its parent's thread has collected: calls on communicators that are not the child's. */
static void forget_parents_group(void) {
    if (group.generation == process_generation())
        return;
    group.depth = group.ncalls = group.njoins = 0;
    group.error = COLLET_SUCCESS;
    group.generation = process_generation();
}

enum collet_result group_check_none_queued(const struct collet_comm *comm, const char *function) {
    forget_parents_group();
    for (int k = 0; group.depth > 0 && k < group.ncalls; k++) {
        const struct exec_request *r = &group.calls[k].request;
        if (group.calls[k].comm == comm)
            return err_set(COLLET_ERR_INVALID_USAGE,
                           "%s(): a call of this communicator (%s of %zu %s) waits for the collet_group_end() of this "
                           "thread's open group: call that first",
                           function, prog_collective_name(r->collective), r->count, type_name(r->type));
    }
    return COLLET_SUCCESS;
}

enum collet_result group_call(struct collet_comm *comm, const struct exec_request *request, const void *in, void *out,
                              void *stream) {
    forget_parents_group();
    if (group.depth == 0)
        return run_alone(comm, request, in, out, stream);
    COLLET_TRY(group_make_room(&group.calls, group.ncalls, &group.calls_room, sizeof(*group.calls)));
    group.calls[group.ncalls++] = (struct grouped_call){comm, *request, in, out, stream, false};
    return COLLET_SUCCESS;
}

enum collet_result group_join(struct collet_comm **comm_p) {
    forget_parents_group();
    if (group.depth == 0)
        return comm_join_all(&comm_p, 1);
    COLLET_TRY(group_make_room(&group.joins, group.njoins, &group.joins_room, sizeof(*group.joins)));
    group.joins[group.njoins++] = comm_p;
    return COLLET_SUCCESS;
}

/* ---- many calls together ---- */

/* Messages to oneself: the k-th send meets the k-th receive, and is a copy. */
static enum collet_result copy_to_self(struct grouped_call *send) {
    struct grouped_call *end = group.calls + group.ncalls;
    for (struct grouped_call *recv = group.calls; recv < end; recv++) {
        if (recv->done || recv->comm != send->comm || recv->request.collective != PROG_RECV ||
            recv->request.root != send->comm->rank)
            continue;
        if (recv->request.count != send->request.count)
            return err_set(COLLET_ERR_MISMATCH, "a message to oneself sends %zu bytes but receives %zu",
                           send->request.count, recv->request.count);
        if (send->request.count > 0 && send->comm->gpu != NULL)
            COLLET_TRY(
                gpu_rank_copy(send->comm->gpu, recv->out, send->in, send->request.count, send->stream, recv->stream));
        else if (send->request.count > 0)
            memmove(recv->out, send->in, send->request.count);
        send->done = recv->done = true;
        return COLLET_SUCCESS;
    }
    return err_set(COLLET_ERR_INVALID_USAGE, "a message to oneself (rank %d) has no receive in its group",
                   send->comm->rank);
}

static enum collet_result settle_self(void) {
    for (int pass = PROG_SEND; pass <= PROG_RECV; pass++)
        for (int k = 0; k < group.ncalls; k++) {
            struct grouped_call *call = &group.calls[k];
            if ((int)call->request.collective != pass || call->request.root != call->comm->rank || call->done)
                continue;
            if (pass == PROG_RECV)
                return err_set(COLLET_ERR_INVALID_USAGE, "a receive from oneself (rank %d) has no send in its group",
                               call->comm->rank);
            COLLET_TRY(copy_to_self(call));
        }
    return COLLET_SUCCESS;
}

static int by_address(const void *a, const void *b) {
    const struct collet_comm *x = *(struct collet_comm *const *)a, *y = *(struct collet_comm *const *)b;
    return (x > y) - (x < y);
}

/* The communicators of the group's calls, each once. Locked in order of address, so that threads with overlapping groups
 * do not lock each other out. Mostly they come in that order. */
static int list_comms(void) {
    int n = group.ncalls, unique = 0;
    bool sorted = true;
    for (int k = 0; k < n; k++) {
        group.comms[k] = group.calls[k].comm;
        sorted &= k == 0 || group.comms[k - 1] <= group.comms[k];
    }
    if (!sorted)
        qsort(group.comms, (size_t)n, sizeof(struct collet_comm *), by_address);
    for (int k = 0; k < n; k++)
        if (unique == 0 || group.comms[unique - 1] != group.comms[k])
            group.comms[unique++] = group.comms[k];
    return unique;
}

/* Chains a call behind the one it must follow. */
static void chain(struct collet_comm *comm, bool p2p, struct exec_call *call, int index) {
    int *last = p2p ? &call->program->last_call : &comm->last_collective;
    call->after = *last;
    *last = index;
}

static enum collet_result begin_calls(int *nexecs) {
    *nexecs = 0;
    for (int k = 0; k < group.ncalls; k++) {
        const struct grouped_call *c = &group.calls[k];
        if (c->done)
            continue;
        struct exec_call *begun, *call = &group.execs[*nexecs];
        COLLET_TRY(begin_call(c->comm, &c->request, c->in, c->out, c->stream, &begun));
        *call = *begun;
        chain(c->comm, prog_is_p2p(c->request.collective), call, (*nexecs)++);
    }
    return COLLET_SUCCESS;
}

static void unchain_all(int nexecs) {
    for (int k = 0; k < nexecs; k++)
        group.execs[k].program->last_call = -1;
    for (int k = 0; k < group.ncalls; k++)
        group.calls[k].comm->last_collective = -1;
}

/* A communicator may have been ended since its call was collected. */
static enum collet_result check_comms(int ncomms) {
    for (int k = 0; k < ncomms; k++)
        COLLET_TRY(comm_check_locked(group.comms[k]));
    return COLLET_SUCCESS;
}

/* A group that cannot begin leaves every communicator in it one call behind its other ranks. */
static void fail_all(int ncomms, enum collet_result result) {
    char text[ERR_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s", err_last());
    for (int k = 0; k < ncomms; k++)
        if (comm_is_live(group.comms[k]))
            boot_fail(group.comms[k]->boot, result, text);
}

/* Calls of GPU communicators go into streams, the others are done here and now. */
static enum collet_result run_calls(struct exec_call *calls, int ncalls) {
    COLLET_TRY(exec_gpu_run(calls, ncalls));
    return exec_run(calls, ncalls);
}

static enum collet_result run_locked(int ncomms) {
    int nexecs = 0;
    enum collet_result result = check_comms(ncomms);
    if (result == COLLET_SUCCESS)
        result = begin_calls(&nexecs);
    unchain_all(nexecs);
    if (result != COLLET_SUCCESS)
        fail_all(ncomms, result);
    if (result != COLLET_SUCCESS || nexecs == 0)
        return result;
    const struct exec_batch batch = {group.execs, nexecs};
    for (int k = 0; k < ncomms; k++)
        set_running(group.comms[k], &batch);
    result = run_calls(group.execs, nexecs);
    for (int k = 0; k < ncomms; k++) {
        set_running(group.comms[k], NULL);
        comm_wait_for_dumps(group.comms[k]); /* they may still look at the batch, which is ours */
        comm_remember(group.comms[k], result);
    }
    return result;
}

static enum collet_result room_for_run(void) {
    if (group.execs_room >= group.ncalls)
        return COLLET_SUCCESS;
    free(group.execs);
    free(group.comms);
    group.execs_room = group.calls_room;
    group.execs = calloc((size_t)group.execs_room, sizeof(*group.execs));
    group.comms = calloc((size_t)group.execs_room, sizeof(struct collet_comm *));
    if (group.execs != NULL && group.comms != NULL)
        return COLLET_SUCCESS;
    group.execs_room = 0;
    return err_set(COLLET_ERR_NO_MEMORY, "no memory to run a group of %d calls", group.ncalls);
}

static enum collet_result run_all(void) {
    COLLET_TRY(settle_self());
    COLLET_TRY(room_for_run());
    int ncomms = list_comms();
    for (int k = 0; k < ncomms; k++)
        call_lock_acquire(&group.comms[k]->lock, 0);
    enum collet_result result = run_locked(ncomms);
    for (int k = ncomms - 1; k >= 0; k--)
        call_lock_release(&group.comms[k]->lock);
    return result;
}

/* ---- the API ---- */

enum collet_result collet_group_start(void) {
    forget_parents_group();
    group.depth++;
    return COLLET_SUCCESS;
}

static enum collet_result group_run(void) {
    if (group.error != COLLET_SUCCESS)
        return err_adopt(group.error, group.error_text);
    if (group.njoins > 0)
        COLLET_TRY(comm_join_all(group.joins, group.njoins));
    return group.ncalls > 0 ? run_all() : COLLET_SUCCESS;
}

static void discard_joins(void) {
    for (int k = 0; k < group.njoins; k++)
        if (*group.joins[k] != NULL) {
            comm_discard(*group.joins[k]);
            *group.joins[k] = NULL;
        }
}

enum collet_result collet_group_end(void) {
    forget_parents_group();
    if (group.depth == 0)
        return err_set(COLLET_ERR_INVALID_USAGE,
                       "collet_group_end() without collet_group_start() in this thread of this process");
    if (--group.depth > 0)
        return COLLET_SUCCESS;
    enum collet_result result = group_run();
    if (group.error != COLLET_SUCCESS)
        discard_joins();
    group.error = COLLET_SUCCESS;
    group.ncalls = group.njoins = 0;
    return result;
}
