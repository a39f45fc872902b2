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
#include "seams/memory.h"

#include <stdlib.h>

/* Kinds of calls that need work before a group begins. */
enum call_kind { CALL_ON_GPU = 1, CALL_ON_STREAM = 2, CALL_TO_SELF = 4 };

/* The calls that this thread has collected. The arrays are reused by the next group. */
struct group {
    int depth;
    unsigned generation;      /* number of the process that opened it */
    enum collet_result error; /* the first error: then nothing runs */
    char error_text[ERR_TEXT_BYTES];
    struct post *calls;
    int ncalls, calls_room;
    unsigned kinds;       /* kinds of its calls: bits of enum call_kind */
    group_calls *instead; /* gets the calls, which then do not run; NULL: they run */
    void *whom;
    struct collet_comm **joins;
    int njoins, joins_room;
    struct window_post *windows; /* windows to register */
    int nwindows, windows_room;
};

static _Thread_local struct group group;

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

/* Warns of an open group at the end of its thread: its calls will never run. */
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
    free(g->windows);
}

static void exit_key_create(void) {
    pthread_key_create(&exit_key, free_arrays);
    atexit(warn_at_exit); /* the thread that ends the process has no key destructor */
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

/* Removes all calls: they have run, or will never run. */
static void drop_calls(struct group *g) {
    for (int k = 0; k < g->ncalls; k++)
        if (g->calls[k].request.extents != NULL)
            free(g->calls[k].request.extents);
    g->ncalls = 0;
}

/* After fork(), a child has a copy of its parent's open group. Its calls are on communicators of the parent, so they are dropped. */
static void forget_parents_group(void) {
    if (group.generation == process_generation())
        return;
    drop_calls(&group);
    group.depth = group.njoins = group.nwindows = 0;
    group.kinds = 0;
    group.error = COLLET_SUCCESS;
    group.generation = process_generation();
}

enum collet_result group_check_none_queued(const struct collet_comm *comm, const struct collet_stream *stream,
                                           const char *function) {
    forget_parents_group();
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
    forget_parents_group();
    if (group.depth == 0)
        return COLLET_SUCCESS;
    return group_poison(
        err_set(COLLET_ERR_INVALID_USAGE, "%s(): a group is open in this thread: call it outside", function));
}

static bool is_to_self(const struct post *post) {
    return prog_is_p2p(post->request.collective) && post->request.root == post->comm->rank;
}

static unsigned kinds_of(const struct post *post) {
    unsigned where = comm_is_on_gpu(post->comm) ? CALL_ON_GPU : post->stream != NULL ? CALL_ON_STREAM : 0;
    return is_to_self(post) ? where | CALL_TO_SELF : where;
}

/* Fills in a post field by field: with a compound literal, compilers need twice as many instructions. */
static inline void post_make(struct post *restrict post, struct collet_comm *comm,
                             const struct exec_request *restrict request, const void *in, void *out, void *stream) {
    post->request = *request;
    post->comm = comm;
    post->in = in;
    post->out = out;
    post->stream = stream;
    post->place = 0;
    post->partner = NULL;
    post->is_partner = post->is_copy = post->waits_outside = post->done = false;
}

static enum collet_result run_alone(struct post *post) {
    if (is_to_self(post))
        return err_set(
            COLLET_ERR_INVALID_USAGE,
            "peer is %d, the calling rank itself: a message to oneself needs its send and its receive in one group",
            post->request.root);
    return comm_is_on_gpu(post->comm) ? launch_run(post, 1) : engine_run(post, 1, post->stream != NULL);
}

enum collet_result group_call(struct collet_comm *comm, const struct exec_request *request, const void *in, void *out,
                              void *stream) {
    struct post alone, *post = &alone;
    forget_parents_group();
    enum collet_result result = COLLET_SUCCESS;
    if (group.depth > 0) {
        result = group_make_room(&group.calls, group.ncalls, &group.calls_room, sizeof(*group.calls));
        post = result == COLLET_SUCCESS ? &group.calls[group.ncalls++] : post;
        comm_fail_without_memory(comm, result);
    }
    post_make(post, comm, request, in, out, stream);
    if (group.depth == 0)
        result = run_alone(post);
    if (post == &alone) {
        free(post->request.extents);
        return result;
    }
    group.kinds |= kinds_of(post);
    return COLLET_SUCCESS;
}

enum collet_result group_join(struct collet_comm *comm) {
    forget_parents_group();
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
    forget_parents_group();
    if (group.depth == 0)
        return window_register_all(post, 1);
    COLLET_TRY(group_make_room(&group.windows, group.nwindows, &group.windows_room, sizeof(struct window_post)));
    group.windows[group.nwindows++] = *post;
    return COLLET_SUCCESS;
}

/* ---- messages to oneself ---- */

/* Finds the receive for a send to oneself: the k-th receive belongs to the k-th send. */
static enum collet_result find_partner(struct post *send) {
    for (struct post *recv = group.calls; recv < group.calls + group.ncalls; recv++) {
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
    return err_set(COLLET_ERR_INVALID_USAGE, "a message to oneself (rank %d) has no receive in its group",
                   send->comm->rank);
}

static enum collet_result pair_messages_to_self(void) {
    for (int k = 0; k < group.ncalls; k++)
        if (group.calls[k].request.collective == PROG_SEND && is_to_self(&group.calls[k]))
            COLLET_TRY(find_partner(&group.calls[k]));
    for (int k = 0; k < group.ncalls; k++)
        if (group.calls[k].request.collective == PROG_RECV && is_to_self(&group.calls[k]) && !group.calls[k].is_partner)
            return err_set(COLLET_ERR_INVALID_USAGE, "a receive from oneself (rank %d) has no send in its group",
                           group.calls[k].comm->rank);
    return COLLET_SUCCESS;
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
    if (group.nwindows > 0)
        COLLET_TRY(window_register_all(group.windows, group.nwindows));
    if (group.instead != NULL)
        return group.instead(group.calls, group.ncalls, group.whom);
    if (group.kinds & CALL_TO_SELF)
        COLLET_TRY(pair_messages_to_self());
    if (group.kinds & CALL_ON_GPU)
        COLLET_TRY(launch_run(group.calls, group.ncalls));
    return group.ncalls > 0 ? engine_run(group.calls, group.ncalls, group.kinds & CALL_ON_STREAM) : COLLET_SUCCESS;
}

static void give_up_joins(void) {
    for (int k = 0; k < group.njoins; k++)
        comm_end_join(group.joins[k], group.error);
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
        give_up_joins();
    for (int k = 0; group.error != COLLET_SUCCESS && k < group.ncalls; k++) /* collected, and never made */
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
