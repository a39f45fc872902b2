/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes: the threads that run one worker together, as block.cuh does it. A GPU has a block of them, the host executor has
 * one. With PORT_EMULATED the file that includes this runs lanes on the host (tests/common/lanes.h).
 *
 *    port_sync       every lane has come here, and each sees what any lane wrote before
 *    port_any        the same, and says whether any lane's condition holds
 *    port_pause      between two looks at something that is waited for; `looks` counts them
 *    port_clock_ns   nanoseconds since some time; 0 in the host executor, which waits elsewhere
 *
 * A lane moves data in words of 8 bytes, at any address. Bytes of a word that are not there are 0.
 */
#ifndef COLLET_FIFO_LANES_H
#define COLLET_FIFO_LANES_H

#include "fifo/port.h"

/* A group: 8 neighbouring lanes, which share a line of LL128, 16 bytes each. Groups are parts of a warp, whose lanes run
 * together. All lanes of a warp come to what is named after it, its groups or their lines, those too that have no line
 * (`present` is 0): a mask of some lanes alone would leave it to the compiler whether a line is stored by one instruction. */
#define PORT_GROUP 8u

#if defined(PORT_EMULATED)
#ifdef __cplusplus
extern "C" {
#endif
uint32_t port_lane(void);
uint32_t port_lanes(void);
int port_any(int condition);
void port_sync(void);
void port_pause(uint32_t looks);
uint64_t port_clock_ns(void);
int port_warp_any(int condition);
void port_line128_load(int present, const char *line, uint64_t *first, uint64_t *second);
void port_line128_store(int present, char *line, uint64_t first, uint64_t second);
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

PORT_FN int port_any(int condition) {
#if defined(__CUDA_ARCH__)
    return __syncthreads_or(condition);
#else
    return condition;
#endif
}

PORT_FN void port_sync(void) {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
}

/* Backs off by and by: a lane that waits for long leaves the memory system to those that work. */
PORT_FN void port_pause(uint32_t looks) {
#if defined(__CUDA_ARCH__)
    if (looks > 64)
        __nanosleep(looks > 4096 ? 1000 : 20);
#else
    (void)looks;
#endif
}

PORT_FN uint64_t port_clock_ns(void) {
    uint64_t ns = 0;
#if defined(__CUDA_ARCH__)
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
#endif
    return ns;
}

PORT_FN int port_warp_any(int condition) {
#if defined(__CUDA_ARCH__)
    return __any_sync(0xffffffffu, condition);
#else
    return condition;
#endif
}

/* A branch between the barrier and the access could part the warp again: the access itself has a condition. */
PORT_FN void port_line128_load(int present, const char *line, uint64_t *first, uint64_t *second) {
    const uint64_t *words = (const uint64_t *)(const void *)line + 2 * (port_lane() & 7);
#if defined(__CUDA_ARCH__)
    uint64_t a = 0, b = 0;
    __syncwarp(0xffffffffu);
    asm volatile("{\n\t.reg .pred here;\n\tsetp.ne.s32 here, %3, 0;\n\t"
                 "@here ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];\n\t}"
                 : "+l"(a), "+l"(b)
                 : "l"(words), "r"(present)
                 : "memory");
    *first = a;
    *second = b;
#else
    if (present)
        port_lines_load(words, first, second);
#endif
}

PORT_FN void port_line128_store(int present, char *line, uint64_t first, uint64_t second) {
    uint64_t *words = (uint64_t *)(void *)line + 2 * (port_lane() & 7);
#if defined(__CUDA_ARCH__)
    __syncwarp(0xffffffffu);
    asm volatile("{\n\t.reg .pred here;\n\tsetp.ne.s32 here, %3, 0;\n\t"
                 "@here st.relaxed.sys.global.v2.u64 [%0], {%1, %2};\n\t}" ::"l"(words),
                 "l"(first), "l"(second), "r"(present)
                 : "memory");
#else
    if (present)
        port_lines_store(words, first, second);
#endif
}

#endif

/* Loops that run a few times only are not worth more code, nor are functions that few calls need. */
#if defined(__CUDACC__)
#define PORT_ROLLED _Pragma("unroll 1")
#define PORT_SELDOM static __host__ __device__ __noinline__
#else
#define PORT_ROLLED
#define PORT_SELDOM static inline
#endif

#define LANE_WORD_BYTES 8u

/* The end of a piece, and words that are not aligned. */
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

PORT_SELDOM void lane_store_bytes(char *to, uint64_t word, uint32_t bytes) {
    to = (char *)port_global(to);
    PORT_ROLLED
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = (char)(word >> (8 * i));
}

PORT_FN void lane_store(char *to, uint64_t word, uint32_t bytes) {
    to = (char *)port_global(to);
    if (bytes == LANE_WORD_BYTES && (uintptr_t)to % LANE_WORD_BYTES == 0)
        *(uint64_t *)(void *)to = word;
    else
        lane_store_bytes(to, word, bytes);
}

/* A lane's part of a line: where it begins in the slot's payload, and the lengths of its words. */
#define LANE_WORDS_MAX 2u
struct lane_part {
    uint32_t at, lengths[LANE_WORDS_MAX];
    int present; /* 0: the lane only keeps the others of its warp company */
};

/* What a lane finds of a line that it has waited for. */
enum lane_finding { LANE_HERE, LANE_MISSING, LANE_FOREIGN /* a line of another call */ };

#endif
