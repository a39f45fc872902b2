/* SPDX-License-Identifier: Apache-2.0
 *
 * A call before it runs: its connections are made, and, if its rank is on a GPU, its program is put there and all
 * ranks meet.
 */
#include "exec/exec_gpu.h"

#include "base/err.h"
#include "proxy/proxy.h"

static enum collet_result program_connect(struct exec_program *program, bool *moved) {
    for (int k = program->nready; k < program->nconns; k++)
        if (program->conns[k]->state != CONN_READY) {
            enum collet_result result = conn_try(program->conns[k]);
            if (result < 0)
                return result;
            *moved |= result == COLLET_SUCCESS;
        }
    while (program->nready < program->nconns && program->conns[program->nready]->state == CONN_READY)
        program->nready++;
    return exec_is_connected(program) ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}

enum collet_result exec_connect_call(struct exec_call *call, bool *moved) {
    if (exec_is_connected(call->program))
        return COLLET_SUCCESS;
    proxy_pause(call->chan);
    enum collet_result result = program_connect(call->program, moved);
    proxy_resume(call->chan);
    return result;
}

/* ---- calls of GPUs ---- */

static enum collet_result connect_all(struct exec_call *calls, int ncalls, bool *moved, int *left) {
    *left = 0;
    for (int k = 0; k < ncalls; k++) {
        struct exec_call *call = &calls[k];
        if (call->chan->owner.gpu == NULL || call->state == EXEC_RUNNING)
            continue;
        call->state = EXEC_CONNECTING;
        enum collet_result result = exec_connect_call(call, moved);
        if (result == COLLET_SUCCESS)
            result = exec_gpu_load(call);
        if (result == COLLET_SUCCESS)
            result = exec_gpu_meet(call, moved);
        if (result < 0)
            return exec_fail_unfinished(calls, ncalls, exec_explain(call, result));
        if (result == COLLET_SUCCESS)
            call->state = EXEC_RUNNING;
        *left += result != COLLET_SUCCESS;
    }
    return COLLET_SUCCESS;
}

enum collet_result exec_connect(struct exec_call *calls, int ncalls) {
    struct waiter waiter = {.spin = calls[0].chan->spin};
    for (int left = 1; left > 0;) {
        bool moved = false;
        COLLET_TRY(connect_all(calls, ncalls, &moved, &left));
        if (moved)
            wait_progressed(&waiter);
        enum collet_result result = moved || left == 0 ? COLLET_SUCCESS : exec_idle(calls, ncalls, &waiter);
        if (result != COLLET_SUCCESS)
            return exec_fail_unfinished(calls, ncalls, result);
    }
    return COLLET_SUCCESS;
}
