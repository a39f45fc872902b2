/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups: calls that a thread collects, and that begin together.
 */
#include "api/group.h"

#include "api/engine.h"
#include "api/join.h"
#include "base/grow.h"
#include "base/log.h"
#include "base/types.h"
#include "seams/gpu.h"
#include "seams/windows.h"

#include <stdlib.h>

/* Kinds of calls that need work before a group begins. */
enum call_kind { CALL_ON_GPU = 1, CALL_ON_STREAM = 2, CALL_TO_SELF = 4 };

/* The calls that this thread has collected. The arrays are reused by the next group. */
struct group {
    int depth;
    enum collet_result error; /* First error of the group. If there is one, no call of the group runs. */
    char error_text[ERR_TEXT_BYTES];
    struct post *calls;
    int ncalls, calls_room;
    unsigned kinds;       /* Kinds of its calls: bits of enum call_kind. */
    group_calls *instead; /* This function gets the calls, and they do not run. NULL: the calls run. */
    void *whom;
    struct collet_comm **joins;
    int njoins, joins_room;
    struct window_post *windows; /* Windows to register. */
    int nwindows, windows_room;
};

static _Thread_local struct group group;

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

/* A forked child has a copy of its parent's open group. The calls in that group are on communicators of the parent, so the child drops
 * them. This function only assigns: a thread of the parent may have held any lock during the fork. */
static void forget_parents_group(void) {
    group.depth = group.ncalls = group.njoins = group.nwindows = 0;
    group.kinds = 0;
    group.error = COLLET_SUCCESS;
}

__attribute__((constructor)) static void group_begin(void) { pthread_atfork(NULL, NULL, forget_parents_group); }

/* Warns that a thread ends with an open group: the calls of that group will never run. */
static void warn_of_open_group(const struct group *g) {
    if (g->depth > 0 && g->ncalls > 0)
        log_warn(ERR, "a thread ended before collet_group_end(): %d calls of its group, the first a %s, were not made",
                 g->ncalls, prog_collective_name(g->calls[0].request.collective));
}

static void warn_at_exit(void) { warn_of_open_group(&group); }

static void free_arrays(void *of_thread) {
    struct group *g = of_thread;
    warn_of_open_group(g);
    free(g->calls);
    free(g->joins);
    free(g->windows);
}

static void exit_key_create(void) {
    pthread_key_create(&exit_key, free_arrays);
    atexit(warn_at_exit); /* In the thread that ends the process, no key destructor runs */
}

/* Frees the arrays when this thread ends. */
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

/* Makes room for one more entry in an array of the group. */
static inline enum collet_result group_make_room(void *array_p, int used, int *room, size_t entry_bytes) {
    if (used < *room)
        return COLLET_SUCCESS;
    free_at_thread_exit();
    if (grow(array_p, (size_t)used, 1, room, entry_bytes))
        return COLLET_SUCCESS;
    return group_poison(err_set(COLLET_ERR_NO_MEMORY, "no memory for a group of %d calls", used + 1));
}

/* ---- collecting ---- */

/* Removes all calls. Each of them has run, or will never run. */
static void drop_calls(struct group *g) {
    for (int k = 0; k < g->ncalls; k++)
        if (g->calls[k].request.extents != NULL)
            free(g->calls[k].request.extents);
    g->ncalls = 0;
}

enum collet_result group_check_none_queued(const struct collet_comm *comm, const struct collet_stream *stream,
                                           const char *function) {
    for (int k = 0; group.depth > 0 && k < group.ncalls; k++) {
        const struct exec_request *r = &group.calls[k].request;
        if (group.calls[k].comm == comm || (stream != NULL && group.calls[k].stream == stream))
            return err_set(
                COLLET_ERR_INVALID_USAGE,
                "%s(): a call of this %s (%s of %zu %s) waits for the collet_group_end() of this thread's open "
                "group: call that first",
                function, stream != NULL ? "stream" : "communicator", prog_collective_name(r->collective), r->count,
                type_name(r->type));
    }
    return COLLET_SUCCESS;
}

enum collet_result group_check_closed(const char *function) {
    if (group.depth == 0)
        return COLLET_SUCCESS;
    return group_poison(
        err_set(COLLET_ERR_INVALID_USAGE, "%s(): a group is open in this thread: call it outside", function));
}

/* ---- messages to oneself ---- */

static bool is_to_self(const struct post *post) {
    return prog_is_p2p(post->request.collective) && post->request.root == post->comm->rank;
}

/* Finds the receive for a send to oneself. In a group, the k-th such send belongs to the k-th such receive. */
static enum collet_result find_partner(struct post *send, struct post *calls, int ncalls) {
    for (struct post *recv = calls; recv < calls + ncalls; recv++) {
        if (recv->is_partner || recv->comm != send->comm || recv->request.collective != PROG_RECV || !is_to_self(recv))
            continue;
        if (recv->request.count != send->request.count)
            return err_set(COLLET_ERR_MISMATCH, "a message to oneself sends %zu bytes but receives %zu",
                           send->request.count, recv->request.count);
        if (!comm_is_on_gpu(send->comm) && (send->stream == NULL) != (recv->stream == NULL))
            return err_set(COLLET_ERR_INVALID_USAGE,
                           "of a message to oneself (rank %d), one end has a stream: give both "
                           "ends one, or none",
                           send->comm->rank);
        send->partner = recv;
        recv->is_partner = true;
        return COLLET_SUCCESS;
    }
    return err_set(
        COLLET_ERR_INVALID_USAGE,
        "peer is %d, the calling rank itself, and its group has no receive for this send: make both in one group",
        send->comm->rank);
}

static enum collet_result pair_messages_to_self(struct post *calls, int ncalls) {
    for (int k = 0; k < ncalls; k++)
        if (calls[k].request.collective == PROG_SEND && is_to_self(&calls[k]))
            COLLET_TRY(find_partner(&calls[k], calls, ncalls));
    for (int k = 0; k < ncalls; k++)
        if (calls[k].request.collective == PROG_RECV && is_to_self(&calls[k]) && !calls[k].is_partner)
            return err_set(
                COLLET_ERR_INVALID_USAGE,
                "peer is %d, the calling rank itself, and its group has no send for this receive: make both in one group",
                calls[k].comm->rank);
    return COLLET_SUCCESS;
}

/* ---- calls ---- */

static unsigned kinds_of(const struct post *post) {
    unsigned where = comm_is_on_gpu(post->comm) ? CALL_ON_GPU : post->stream != NULL ? CALL_ON_STREAM : 0;
    return is_to_self(post) ? where | CALL_TO_SELF : where;
}

/* Runs calls that begin together. */
static enum collet_result run_calls(struct post *calls, int ncalls, unsigned kinds) {
    if (kinds & CALL_TO_SELF)
        COLLET_TRY(pair_messages_to_self(calls, ncalls));
    if (kinds & CALL_ON_GPU)
        COLLET_TRY(launch_run(calls, ncalls));
    return engine_run(calls, ncalls, kinds & CALL_ON_STREAM);
}

enum collet_result group_call(struct post *post) {
    enum collet_result result;
    if (group.depth == 0) { /* A call outside a group runs alone */
        result = run_calls(post, 1, kinds_of(post));
        free(post->request.extents);
        return result;
    }
    result = group_make_room(&group.calls, group.ncalls, &group.calls_room, sizeof(*group.calls));
    if (result != COLLET_SUCCESS) {
        comm_fail_without_memory(post->comm, result);
        free(post->request.extents);
        return result;
    }
    group.calls[group.ncalls++] = *post;
    group.kinds |= kinds_of(post);
    return COLLET_SUCCESS;
}

/* ---- other work of a group ---- */

enum collet_result group_join(struct collet_comm *comm) {
    if (group.depth == 0)
        return comm_join_all(&comm, 1);
    enum collet_result result =
        group_make_room(&group.joins, group.njoins, &group.joins_room, sizeof(struct collet_comm *));
    if (result == COLLET_SUCCESS)
        group.joins[group.njoins++] = comm;
    else
        comm_end_join(comm, result);
    return result;
}

enum collet_result group_window(const struct window_post *post) {
    if (group.depth == 0)
        return window_register_all(post, 1);
    COLLET_TRY(group_make_room(&group.windows, group.nwindows, &group.windows_room, sizeof(struct window_post)));
    group.windows[group.nwindows++] = *post;
    return COLLET_SUCCESS;
}

/* ---- the API ---- */

enum collet_result collet_group_start(void) {
    group.depth++;
    return COLLET_SUCCESS;
}

static enum collet_result group_run(void) {
    if (group.error != COLLET_SUCCESS)
        return err_adopt(group.error, group.error_text);
    if (group.njoins > 0)
        COLLET_TRY(comm_join_all(group.joins, group.njoins));
    if (group.nwindows > 0)
        COLLET_TRY(window_register_all(group.windows, group.nwindows));
    if (group.instead != NULL)
        return group.instead(group.calls, group.ncalls, group.whom);
    return group.ncalls > 0 ? run_calls(group.calls, group.ncalls, group.kinds) : COLLET_SUCCESS;
}

static void give_up_joins(void) {
    for (int k = 0; k < group.njoins; k++)
        comm_end_join(group.joins[k], group.error);
}

enum collet_result collet_group_end(void) {
    if (group.depth == 0)
        return err_set(COLLET_ERR_INVALID_USAGE,
                       "collet_group_end() without collet_group_start() in this thread of this process");
    if (--group.depth > 0)
        return COLLET_SUCCESS;
    enum collet_result result = group_run();
    if (group.error != COLLET_SUCCESS)
        give_up_joins();
    for (int k = 0; group.error != COLLET_SUCCESS && k < group.ncalls; k++) /* These calls will never be made */
        comm_fail_without_memory(group.calls[k].comm, group.error);
    group.error = COLLET_SUCCESS;
    drop_calls(&group);
    group.njoins = group.nwindows = 0;
    group.kinds = 0;
    return result;
}

enum collet_result group_end_instead(group_calls *instead, void *whom) {
    group.instead = group.depth == 1 ? instead : NULL;
    group.whom = whom;
    enum collet_result result = collet_group_end();
    group.instead = NULL;
    return result;
}
