/* SPDX-License-Identifier: Apache-2.0
 *
 * How a block waits: a lane looks, backs off, and now and then asks whether it is to end, or has waited too long.
 */
#ifndef COLLET_KERNELS_BLOCK_WAIT_CUH
#define COLLET_KERNELS_BLOCK_WAIT_CUH

#include "kernels/block_ops.cuh"
#include "kernels/operands.h"
#include "kernels/work.h"

/* The abort word is the host's memory: a look at it takes longer than one at a counter. */
#define BLOCK_LOOKS_AN_ABORT 256u

/* One wait. All zero at first. */
struct block_wait {
    uint32_t looks;
    uint64_t since_ns; /* 0: it has not looked often enough to ask */
};

BLOCK_FN bool wait_asks(const struct block_wait *wait) {
    return wait->looks % BLOCK_LOOKS_AN_ABORT == BLOCK_LOOKS_AN_ABORT - 1;
}

/* A pause between two looks. Not FINE: the wait is over, although what it is for has not come. */
BLOCK_FN enum work_failure wait_pause(struct block_wait *wait, const struct work_status *status) {
    if (wait_asks(wait)) {
        uint64_t now_ns = port_clock_ns();
        if (port_word_load(&status->abort) != 0)
            return WORK_ABORTED;
        if (wait->since_ns == 0)
            wait->since_ns = now_ns;
        if (now_ns - wait->since_ns > status->timeout_ns)
            return WORK_TIMEOUT;
    }
    port_pause(wait->looks++);
    return WORK_FINE;
}

/* By one lane. */
BLOCK_FN enum work_failure wait_credit(struct interp_worker *w, const struct prog_step *step,
                                       const struct work_status *status) {
    struct block_wait wait = {0, 0};
    enum work_failure failure = WORK_FINE;
    while (failure == WORK_FINE && !worker_has_credit(w, step))
        failure = wait_pause(&wait, status);
    return failure;
}

/* By one lane, in LL and LL128: over a wire the tail says that the payload is there. */
BLOCK_FN enum work_failure wait_wires(struct interp_worker *w, const struct prog_step *step, uint32_t bytes,
                                      const struct work_status *status) {
    enum work_failure failure = WORK_FINE;
#pragma unroll 1
    for (int k = 0; k < step->recv_count; k++) {
        struct fifo_end *end = w->op->recv_ends[step->recv_first + k];
        struct block_wait wait = {0, 0};
        enum interp_result ready = INTERP_BUSY;
        w->blocked_on = (uint32_t)(step->recv_first + k);
        while (failure == WORK_FINE && end->remote && (ready = ll_plain_ready(w->op, end, bytes)) == INTERP_BUSY)
            failure = wait_pause(&wait, status);
        if (failure == WORK_FINE && ready == INTERP_MISMATCH)
            failure = WORK_MISMATCH;
        if (failure != WORK_FINE)
            break;
    }
    return failure;
}

/* By one lane: until every operand is there and every place may be written. */
BLOCK_FN enum work_failure wait_simple(struct interp_worker *w, const struct prog_step *step, uint32_t bytes,
                                       const struct work_status *status) {
    struct block_wait wait = {0, 0};
    for (;;) {
        enum interp_result result = simple_ready(w, step, bytes);
        if (result != INTERP_BUSY)
            return result == INTERP_STEPPED ? WORK_FINE : WORK_MISMATCH;
        enum work_failure failure = wait_pause(&wait, status);
        if (failure != WORK_FINE)
            return failure;
    }
}

#endif
