/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the connections of a call, before the call runs.
 */
#include "exec/exec.h"
#include "seams/proxy.h"

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
    return program->nready == program->nconns ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}

enum collet_result exec_connect_call(struct exec_call *call, bool *moved) {
    proxy_pause(call->chan);
    enum collet_result result = program_connect(call->program, moved);
    proxy_resume(call->chan);
    return result;
}
