/* SPDX-License-Identifier: Apache-2.0
 *
 * The ends of a step are shared out to the lanes, so a step takes no longer if it has many:
 *
 *    warp 0    lane k looks at the k-th end that receives
 *    warp 1    lane k looks at the k-th end that sends
 */
#ifndef COLLET_KERNELS_CUDA_BLOCK_ENDS_CUH
#define COLLET_KERNELS_CUDA_BLOCK_ENDS_CUH

#include "kernels/cuda/block_memory.cuh"

#define BLOCK_WARP 32u

/* This lane's first index in one of three parts of the work. If there are three warps, each part begins with a warp of its own. */
BLOCK_FN uint32_t turn_in(uint32_t part) {
    uint32_t first = port_lanes() >= 3 * BLOCK_WARP ? part * BLOCK_WARP : 0, lane = port_lane();
    return lane >= first ? lane - first : lane + port_lanes() - first;
}

BLOCK_FN struct fifo_end *operand_end(struct block_memory *m, const struct prog_step *step, uint32_t k) {
    return interp_recv_end(&m->op, step->recv_first + (int)k);
}

BLOCK_FN struct fifo_end *place_end(struct block_memory *m, const struct prog_step *step, uint32_t k) {
    return interp_send_end(&m->op, step->send_first + (int)k);
}

/* Waits until the end has a slot, or another lane has found a reason to end the call. */
BLOCK_FN enum work_failure end_await(struct block_memory *m, struct fifo_end *end, bool receives,
                                     const struct work_status *status) {
    struct block_wait wait = {0, 0};
    enum work_failure failure = WORK_FINE;
    while (failure == WORK_FINE && !(receives ? fifo_has_data(end) : fifo_has_credit(end))) {
        bool asks = block_asks(&wait);
        failure = block_pause(&wait, status);
        if (asks && m->stops)
            return WORK_ABORTED;
    }
    return failure;
}

/* This lane has found a reason to end the call, at an entry of the peer table. The others stop waiting. */
BLOCK_FN void ends_stop(struct block_memory *m, uint32_t at, enum work_failure failure) {
    if (failure != WORK_MISMATCH && failure != WORK_TIMEOUT)
        return;
    m->worker.blocked_on = at;
    m->stops = 1;
}

#endif
