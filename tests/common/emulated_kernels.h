/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of kernel.cuh as the host runs them: the same source, by lanes (lanes.h) instead of a GPU's threads.
 */
#ifndef COLLET_TESTS_EMULATED_KERNELS_H
#define COLLET_TESTS_EMULATED_KERNELS_H

#include "collet.h"
#include "kernels/cuda/piece_work.h"
#include "kernels/cuda/signal_work.h"
#include "kernels/work.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One grid. reduces: the kernel of type and op, else the one that copies. */
void emulated_launch(const struct work_launch *launch, int reduces, enum collet_type type, enum collet_op op,
                     uint32_t lanes, uint64_t seed);

/* The kernel of signals. */
void emulated_signals(const struct signal_launch *launch);

/* The kernel that moves many pieces. */
void emulated_pieces(const struct piece_launch *launch, uint32_t lanes);

/* The loop of a step alone. */
void emulated_reduce(int reduces, enum collet_type type, enum collet_op op, void *const *dst, uint32_t ndst,
                     const void *const *src, uint32_t nsrc, uint64_t count, uint32_t divisor, uint64_t mirror,
                     uint32_t lanes, uint64_t seed);

#ifdef __cplusplus
}
#endif

#endif
