/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host hands to the kernel of signals (kernels/cuda/signals.cuh): signals that this rank sends, and signals that it waits for.
 */
#ifndef COLLET_KERNELS_CUDA_SIGNAL_WORK_H
#define COLLET_KERNELS_CUDA_SIGNAL_WORK_H

#include <stdint.h>

struct work_status;

/* One rank's signals for another rank are counted in two places. Only the sender writes to `word`, so a store is enough: no atomic add has to
 * cross from GPU to GPU. */
struct signal_turn {
    uint64_t *word;  /* Memory of the receiver's GPU: the number of signals that have come */
    uint64_t *count; /* Memory of this rank's GPU: the number of signals that it has sent, or has waited for */
    uint64_t times;  /* Number of signals to be waited for. A turn that sends sends one */
    int32_t peer;
    int32_t waits; /* 1: waits for signals of the peer; 0: sends one to the peer */
};

/* Maximum number of turns in a launch. */
#define SIGNAL_TURNS_MOST 32
/* The kernel's argument, by value: a captured graph holds its own copy. Counts are in memory, so a graph can be replayed. */
struct signal_launch {
    struct work_status *status;
    uint64_t nturns;
    struct signal_turn turns[SIGNAL_TURNS_MOST];
};

/* The value of work_status.collective if a wait for a signal has failed. */
#define WORK_IS_SIGNAL UINT32_MAX

#endif
