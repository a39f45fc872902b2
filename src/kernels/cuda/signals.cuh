/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals between GPUs, by one lane:
 *
 *    GPU 0, behind its copy into the window of rank 1       memory of GPU 1         GPU 1
 *    sent += 1
 *    word := sent ─────────────── release ────────────────▶ word                    awaited += n
 *                                                             └──── acquire ──────▶ word ≥ awaited? Then the data is there
 *
 * A release orders all that came before it, and the copy came before it: the stream has ended the copy when this kernel begins.
 */
#ifndef COLLET_KERNELS_CUDA_SIGNALS_CUH
#define COLLET_KERNELS_CUDA_SIGNALS_CUH

#include "kernels/cuda/block_wait.cuh"
#include "kernels/cuda/signal_work.h"

/* Tells the host about the first failure of the rank, as block_report() does. */
BLOCK_SELDOM void signal_report(struct work_status *status, int32_t peer, enum work_failure failure) {
    if (failure == WORK_ABORTED || port_word_claim(&status->claimed))
        return;
    status->peer = peer;
    status->collective = WORK_IS_SIGNAL;
    port_word_store_release(&status->failure, failure); /* pairs with exec_gpu_check() */
}

BLOCK_FN enum work_failure signal_await(const struct signal_turn *turn, const struct work_status *status) {
    const uint64_t *word = (const uint64_t *)port_global(turn->word);
    uint64_t *count = (uint64_t *)port_global(turn->count);
    const uint64_t awaited = *count + turn->times;
    struct block_wait wait = {0, 0};
    while ((int64_t)(port_load_acquire(word) - awaited) < 0) {
        enum work_failure failure = block_pause(&wait, status);
        if (failure != WORK_FINE)
            return failure;
    }
    *count = awaited;
    return WORK_FINE;
}

BLOCK_FN void signal_send(const struct signal_turn *turn) {
    uint64_t *count = (uint64_t *)port_global(turn->count);
    port_store_release((uint64_t *)port_global(turn->word), *count += 1);
}

/* Called by one lane. Takes the turns one after the other. The first failure ends them. */
BLOCK_FN void signals_run(const struct signal_launch *launch) {
    struct work_status *status = (struct work_status *)port_global(launch->status);
#pragma unroll 1
    for (uint64_t k = 0; k < launch->nturns; k++) {
        const struct signal_turn *turn = &launch->turns[k];
        enum work_failure failure = WORK_FINE;
        if (turn->waits)
            failure = signal_await(turn, status);
        else
            signal_send(turn);
        if (failure == WORK_FINE)
            continue;
        signal_report(status, turn->peer, failure);
        return;
    }
}

#endif
