/* SPDX-License-Identifier: Apache-2.0
 *
 * All ranks of a communicator on GPUs meet: rank 0 waits for a message from each rank, and then sends a message to each.
 */
#include "layers/gpu/gpu_meet.h"

#include "base/err.h"
#include "layers/gpu/gpu.h"

static enum collet_result meet_as_root(struct chan *chan, struct exec_meeting *meeting, uint64_t key, bool *moved) {
    struct boot *boot = chan->owner.boot;
    char nothing[1];
    size_t bytes;
    while (meeting->arrived + 1 < chan->owner.nranks) {
        COLLET_TRY(boot_try_recv(boot, meeting->arrived + 1, key, nothing, sizeof(nothing), &bytes));
        meeting->arrived++;
        *moved = true;
    }
    for (int rank = 1; rank < chan->owner.nranks; rank++)
        COLLET_TRY(boot_send(boot, rank, key, "", 1));
    return COLLET_SUCCESS;
}

static enum collet_result meet_as_other(struct chan *chan, struct exec_meeting *meeting, uint64_t key) {
    char nothing[1];
    size_t bytes;
    if (meeting->met == MEET_NOT_YET) {
        COLLET_TRY(boot_send(chan->owner.boot, 0, key, "", 1));
        meeting->met = MEET_ANNOUNCED;
    }
    return boot_try_recv(chan->owner.boot, 0, key, nothing, sizeof(nothing), &bytes);
}

/* All ranks come to meetings in the same order, so each meeting has the same number on all ranks. */
enum collet_result exec_gpu_meet(struct chan *chan, struct exec_meeting *meeting, bool *moved) {
    if (meeting->met == MEET_DONE || chan->owner.nranks == 1)
        return COLLET_SUCCESS;
    if (meeting->number == 0)
        meeting->number = ++chan->owner.gpu->meetings;
    uint64_t key = boot_key(BOOT_GPU_MEETING, meeting->number);
    COLLET_TRY(chan->owner.rank == 0 ? meet_as_root(chan, meeting, key, moved) : meet_as_other(chan, meeting, key));
    meeting->met = MEET_DONE;
    *moved = true;
    return COLLET_SUCCESS;
}
