/* SPDX-License-Identifier: Apache-2.0
 *
 * How a block waits: a lane looks, backs off, and now and then asks whether it is to end, or has waited too long.
 */
#ifndef COLLET_KERNELS_CUDA_BLOCK_WAIT_CUH
#define COLLET_KERNELS_CUDA_BLOCK_WAIT_CUH

#include "kernels/cuda/block_ops.cuh"
#include "kernels/cuda/block_own.cuh" /* before interp.h */
#include "kernels/interp.h"

/* The abort word is in host memory: reading it takes longer than reading a counter, so it is read once in this many polls. */
#define BLOCK_LOOKS_AN_ABORT 256u

/* The state of one wait. It begins as all zero. */
struct block_wait {
    uint32_t looks;
    uint64_t since_ns; /* time of the first check of the clock; 0: none yet */
};

BLOCK_FN bool block_asks(const struct block_wait *wait) {
    return wait->looks % BLOCK_LOOKS_AN_ABORT == BLOCK_LOOKS_AN_ABORT - 1;
}

/* A pause between two polls. If the result is not FINE, the wait is over without success. */
BLOCK_FN enum work_failure block_pause(struct block_wait *wait, const struct work_status *status) {
    if (block_asks(wait)) {
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

/* Called by all lanes. Returns the worst failure of any lane. */
BLOCK_FN enum work_failure failure_of_any(enum work_failure failure) {
    if (!port_any(failure != WORK_FINE))
        return WORK_FINE;
    if (port_any(failure == WORK_FOREIGN))
        return WORK_FOREIGN;
    if (port_any(failure == WORK_MISMATCH))
        return WORK_MISMATCH;
    return port_any(failure == WORK_TIMEOUT) ? WORK_TIMEOUT : WORK_ABORTED;
}

#endif
