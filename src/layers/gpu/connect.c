/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of GPUs before they run: their connections are made, their programs are put on the GPU, and all ranks meet.
 */
#include "layers/gpu/exec_copies.h"
#include "layers/gpu/connect.h"
#include "layers/gpu/gpu_meet.h"
#include "layers/gpu/gpu_program.h"

#include "base/err.h"
#include "base/os.h"

/* Only two ranks know of a message. So these two do not meet with the others: they go on when both have their connection. */
static enum collet_result gpu_connect(struct exec_call *call, bool *moved) {
    if (call->request.by_copies)
        return exec_copies_prepare(call);
    if (call->program->nready < call->program->nconns)
        COLLET_TRY(exec_connect_call(call, moved));
    COLLET_TRY(exec_gpu_load(call));
    return prog_is_p2p(call->request.collective) ? COLLET_SUCCESS
                                                 : exec_gpu_meet(call->chan, &call->program->meeting, moved);
}

/* Other threads look at the copy in the call's lane. The lane may already have the next call of a group. */
static void show(const struct exec_call *call) {
    if (call->shown != NULL && call->shown->args.sequence == call->args.sequence)
        *call->shown = *call;
}

static enum collet_result connect_all(struct exec_call *calls, int ncalls, bool *moved, int *left) {
    *left = 0;
    for (int k = 0; k < ncalls; k++) {
        struct exec_call *call = &calls[k];
        bool call_moved = false;
        if (call->state == EXEC_RUNNING)
            continue;
        enum collet_result result = gpu_connect(call, &call_moved);
        if (result < 0)
            return exec_explain(call, result);
        if (result == COLLET_SUCCESS)
            call->state = EXEC_RUNNING;
        if (call_moved)
            call->idle_since_ns = 0;
        if (result == COLLET_SUCCESS)
            show(call);
        *moved |= call_moved;
        *left += result != COLLET_SUCCESS;
    }
    return COLLET_SUCCESS;
}

static enum collet_result look_at_all(struct exec_call *calls, int ncalls, uint64_t idle_ns) {
    uint64_t now_ns = os_now_ns();
    for (int k = 0; k < ncalls; k++) {
        chan_attend(calls[k].chan, idle_ns, now_ns);
        if (calls[k].state == EXEC_CONNECTING) {
            COLLET_TRY(exec_look(&calls[k], now_ns));
            show(&calls[k]);
        }
    }
    return COLLET_SUCCESS;
}

enum collet_result exec_connect(struct exec_call *calls, int ncalls) {
    struct waiter waiter = calls[0].chan->patience;
    for (int left = 1; left > 0;) {
        bool moved = false;
        COLLET_TRY(connect_all(calls, ncalls, &moved, &left));
        if (moved)
            wait_progressed(&waiter);
        else if (left > 0 && wait_pause(&waiter))
            COLLET_TRY(look_at_all(calls, ncalls, wait_idle_ns(&waiter)));
    }
    return COLLET_SUCCESS;
}
