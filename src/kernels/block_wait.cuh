/* SPDX-License-Identifier: Apache-2.0
 *
 * How a block waits: one lane looks, backs off, and now and then asks whether it is to end.
 */
#ifndef COLLET_KERNELS_BLOCK_WAIT_CUH
#define COLLET_KERNELS_BLOCK_WAIT_CUH

#include "kernels/block_ops.cuh"
#include "kernels/operands.h"
#include "kernels/work.h"

/* The abort word is the host's memory: a look at it takes longer than one at a counter. */
#define BLOCK_LOOKS_AN_ABORT 256u

BLOCK_FN bool wait_must_end(const struct work_status *status, uint32_t looks) {
    return looks % BLOCK_LOOKS_AN_ABORT == BLOCK_LOOKS_AN_ABORT - 1 && port_word_load(&status->abort) != 0;
}

/* By one lane. */
BLOCK_FN enum work_failure wait_credit(struct interp_worker *w, const struct prog_step *step,
                                       const struct work_status *status) {
    for (uint32_t looks = 0; !worker_has_credit(w, step); looks++) {
        if (wait_must_end(status, looks))
            return WORK_ABORTED;
        port_pause(looks);
    }
    return WORK_FINE;
}

/* By one lane, in LL: over a wire the tail says that lines are there, and lines before that may be stale. */
BLOCK_FN enum work_failure wait_wires(struct interp_worker *w, const struct prog_step *step,
                                      const struct work_status *status) {
#pragma unroll 1
    for (int k = 0; k < step->recv_count; k++) {
        struct fifo_end *end = w->op->recv_ends[step->recv_first + k];
        for (uint32_t looks = 0; end->remote && !fifo_has_data(end); looks++) {
            if (wait_must_end(status, looks))
                return WORK_ABORTED;
            port_pause(looks);
        }
    }
    return WORK_FINE;
}

/* By one lane: until every operand is there and every place may be written. */
BLOCK_FN enum work_failure wait_simple(struct interp_worker *w, const struct prog_step *step, uint32_t bytes,
                                       const struct work_status *status) {
    for (uint32_t looks = 0;; looks++) {
        enum interp_result result = simple_ready(w, step, bytes);
        if (result != INTERP_BUSY)
            return result == INTERP_STEPPED ? WORK_FINE : WORK_MISMATCH;
        if (wait_must_end(status, looks))
            return WORK_ABORTED;
        port_pause(looks);
    }
}

#endif
