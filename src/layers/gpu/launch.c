/* SPDX-License-Identifier: Apache-2.0
 *
 * See launch.h. Ranks of one GPU are launched together, so the locks of all communicators of a group are held at once. A
 * thread that does not get one of the locks gives all of them back and begins again. So threads with overlapping groups cannot deadlock.
 */
#include "layers/gpu/launch.h"

#include "api/engine.h"
#include "base/memory.h"
#include "layers/gpu/exec_copies.h"
#include "layers/gpu/exec_gpu.h"
#include "seams/gpu_plan.h"

#include <stdio.h>

static bool on_gpu(const struct post *post) { return comm_is_on_gpu(post->comm); }

static bool try_all(const struct post *posts, int nposts, struct driver *driver) {
    for (int k = 0; k < nposts; k++) {
        if (!on_gpu(&posts[k]) || driver_take(driver, posts[k].comm))
            continue;
        driver_leave(driver);
        return false;
    }
    return true;
}

/* A message from this rank to itself is a copy in its streams. */
static enum collet_result copy_in_streams(const struct post *send) {
    const struct post *recv = send->partner;
    if (send->request.count == 0)
        return COLLET_SUCCESS;
    return gpu_rank_copy(send->comm->gpu, recv->out, send->in, send->request.count, send->stream, recv->stream);
}

static enum collet_result call_begin(const struct post *post, struct exec_call *call) {
    struct lane *lane = engine_lane(post);
    struct exec_request request = post->request;
    struct gpu_window_place place = {.window = NULL};
    request.by_copies = exec_copies_take(post->comm->chan, &request, post->out, &place);
    gpu_mark(post->comm->chan, &request);
    COLLET_TRY(lane_begin(lane, post, &request, call));
    if (request.by_copies)
        call->place = place;
    call->nth = lane->begun - lane->launched - 1;
    lane->call = *call; /* for other threads that look at the call */
    call->shown = &lane->call;
    return COLLET_SUCCESS;
}

static enum collet_result begin_all(const struct post *posts, int nposts, struct exec_call *calls, int *ncalls) {
    *ncalls = 0;
    for (int k = 0; k < nposts; k++)
        if (on_gpu(&posts[k]))
            COLLET_TRY(comm_check_locked(posts[k].comm));
    for (int k = 0; k < nposts; k++) {
        if (!on_gpu(&posts[k]) || posts[k].is_partner)
            continue;
        if (posts[k].partner != NULL)
            COLLET_TRY(copy_in_streams(&posts[k]));
        else
            COLLET_TRY(call_begin(&posts[k], &calls[(*ncalls)++]));
    }
    return COLLET_SUCCESS;
}

static void end_all(struct post *posts, int nposts) {
    for (int k = 0; k < nposts; k++) {
        if (on_gpu(&posts[k]) && posts[k].comm->engine.lanes != NULL) {
            struct lane *lane = engine_lane(&posts[k]);
            lane->launched = lane->begun;
            lane->call.state = EXEC_IDLE;
        }
        posts[k].done = on_gpu(&posts[k]);
    }
}

static void fail_all(const struct post *posts, int nposts, enum collet_result result) {
    char text[ERR_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s", err_last());
    for (int k = 0; k < nposts; k++)
        if (comm_is_live(posts[k].comm))
            comm_keep_error(posts[k].comm);
    engine_fail_posts(posts, nposts, result, text);
}

enum collet_result launch_run(struct post *posts, int nposts) {
    SCOPED_FREE struct exec_call *calls = NULL;
    struct driver driver = {.comms = NULL};
    int ncalls;
    enum collet_result result =
        memory_get(&calls, (size_t)nposts, sizeof(*calls), "no memory for a group of %d calls", nposts);
    if (result != COLLET_SUCCESS) {
        fail_all(posts, nposts, result);
        return result;
    }
    while (!try_all(posts, nposts, &driver))
        wait_pause(&driver.waiter);
    result = begin_all(posts, nposts, calls, &ncalls);
    if (result == COLLET_SUCCESS && ncalls > 0)
        result = exec_gpu_run(calls, ncalls);
    if (result != COLLET_SUCCESS)
        fail_all(posts, nposts, result);
    end_all(posts, nposts);
    driver_leave(&driver);
    return result;
}
