/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes: the threads that run one worker together, as block.cuh does it. A GPU has a block of them, the host executor has
 * one. With PORT_EMULATED the file that includes this runs lanes on the host (tests/common/lanes.h). What lanes of a block do
 * together is in kernels/cuda/port.h.
 *
 * A lane moves data in words of 8 bytes, at any address. If the last word of a piece is incomplete, its missing bytes are 0.
 */
#ifndef COLLET_FIFO_LANES_H
#define COLLET_FIFO_LANES_H

#include "fifo/port.h"

#if defined(PORT_EMULATED)
#ifdef __cplusplus
extern "C" {
#endif
uint32_t port_lane(void);
uint32_t port_lanes(void);
#ifdef __cplusplus
}
#endif
#else

PORT_FN uint32_t port_lane(void) {
#if defined(__CUDA_ARCH__)
    return threadIdx.x;
#else
    return 0;
#endif
}

PORT_FN uint32_t port_lanes(void) {
#if defined(__CUDA_ARCH__)
    return blockDim.x;
#else
    return 1;
#endif
}

#endif

/* PORT_ROLLED: not unrolled, for loops with few rounds. PORT_SELDOM: not inlined, for functions that are rarely called. */
#if defined(__CUDACC__)
#define PORT_ROLLED _Pragma("unroll 1")
#define PORT_SELDOM static __host__ __device__ __noinline__
#else
#define PORT_ROLLED
#define PORT_SELDOM static inline
#endif

#define LANE_WORD_BYTES 8u

/* Loads a word byte by byte: for a piece's last, incomplete word, and for words that are not aligned. */
PORT_SELDOM uint64_t lane_load_bytes(const char *from, uint32_t bytes) {
    uint64_t word = 0;
    from = (const char *)port_global(from);
    PORT_ROLLED
    for (uint32_t i = 0; i < bytes; i++)
        word |= (uint64_t)(uint8_t)from[i] << (8 * i);
    return word;
}

PORT_FN uint64_t lane_load(const char *from, uint32_t bytes) {
    from = (const char *)port_global(from);
    if (bytes == LANE_WORD_BYTES && (uintptr_t)from % LANE_WORD_BYTES == 0)
        return *(const uint64_t *)(const void *)from;
    return lane_load_bytes(from, bytes);
}

#endif
