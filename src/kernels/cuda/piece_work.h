/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host hands to the kernel that moves many pieces (kernels/cuda/pieces.cuh).
 */
#ifndef COLLET_KERNELS_CUDA_PIECE_WORK_H
#define COLLET_KERNELS_CUDA_PIECE_WORK_H

#include <stdint.h>

struct piece_copy {
    char *to;
    const char *from;
    uint64_t bytes;
};

#define PIECE_LANES 32u /* lanes that move a piece: a warp */

/* The kernel's argument, by value. The list is in memory that the GPU reaches. */
struct piece_launch {
    const struct piece_copy *pieces;
    uint64_t npieces;
    uint64_t nblocks; /* number of blocks of the launch */
};

#endif
