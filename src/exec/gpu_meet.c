/* SPDX-License-Identifier: Apache-2.0
 *
 * All ranks of a communicator on GPUs meet before the first launch of a program: rank 0 waits for a word from each, and then
 * sends one to each.
 */
#include "exec/exec_gpu.h"

#include "base/err.h"
static enum collet_result meet_as_root(struct exec_call *call, uint64_t key, bool *moved) {
    struct boot *boot = call->chan->owner.boot;
    struct exec_program *program = call->program;
    char nothing[1];
    size_t bytes;
    while (program->arrived + 1 < call->chan->owner.nranks) {
        COLLET_TRY(boot_try_recv(boot, program->arrived + 1, key, nothing, sizeof(nothing), &bytes));
        program->arrived++;
        *moved = true;
    }
    for (int rank = 1; rank < call->chan->owner.nranks; rank++)
        COLLET_TRY(boot_send(boot, rank, key, "", 1));
    return COLLET_SUCCESS;
}

static enum collet_result meet_as_other(struct exec_call *call, uint64_t key) {
    char nothing[1];
    size_t bytes;
    if (call->program->met == MEET_NOT_YET) {
        COLLET_TRY(boot_send(call->chan->owner.boot, 0, key, "", 1));
        call->program->met = MEET_ANNOUNCED;
    }
    return boot_try_recv(call->chan->owner.boot, 0, key, nothing, sizeof(nothing), &bytes);
}

/* All ranks come to the programs of collectives in the same order, so they number them alike. Of a message only two ranks
 * know, and making their one connection is over when both have it. */
enum collet_result exec_gpu_meet(struct exec_call *call, bool *moved) {
    struct exec_program *program = call->program;
    if (program->met == MEET_DONE || prog_is_p2p(call->request.collective) || call->chan->owner.nranks == 1)
        return COLLET_SUCCESS;
    if (program->meeting == 0)
        program->meeting = ++call->chan->owner.gpu->meetings;
    uint64_t key = boot_key(BOOT_GPU_MEETING, program->meeting);
    COLLET_TRY(call->chan->owner.rank == 0 ? meet_as_root(call, key, moved) : meet_as_other(call, key));
    program->met = MEET_DONE;
    *moved = true;
    return COLLET_SUCCESS;
}
