/* SPDX-License-Identifier: Apache-2.0
 *
 * What lanes of a block ask of their machine, beside what hosts have too (fifo/port.h, fifo/lanes.h). First: how they touch
 * memory that others touch.
 *
 *    access                    by             pairs with               what for
 *    port_lines_load, _store   GPU blocks     each other               two neighbouring lines by one access, each whole
 *    port_word_load            a GPU          the host's own store     is it to end? Nothing else is read because of it
 *    port_word_claim           GPU blocks     port_word_claim          of all blocks that fail, one reports
 *    port_word_store_release   a GPU block    exec_gpu_check()         the report is complete once its last word is seen
 *    port_flag_swap            GPU blocks     port_flag_swap           a loan is read, or taken back: whoever comes first says
 *    port_flag_store, _load    GPU blocks     each other               a loan was not read. Nothing else is read because of it
 *    port_fence_team           a GPU block    fences, acquires, and    accesses by a team's address and by a GPU's own one
 *                              behind and     barriers on the same     (kernels/cuda/block_team.cuh): those before it, by either,
 *                              before those   way                      are done for those behind it, by the other
 *
 * And what lanes do together:
 *
 *    port_sync       every lane has come here, and each sees what any lane wrote before
 *    port_any        the same, and says whether any lane's condition holds
 *    port_pause      between two looks at something that is waited for; `looks` counts them
 *    port_clock_ns   nanoseconds since an arbitrary moment; the host returns 0, since it measures elsewhere
 */
#ifndef COLLET_KERNELS_CUDA_PORT_H
#define COLLET_KERNELS_CUDA_PORT_H

#include "fifo/lanes.h"

/* What a block has of its own is shared memory: tells that, as port_global() tells the other. */
PORT_FN const void *port_shared(const void *address) {
#if defined(__CUDA_ARCH__)
    __builtin_assume(__isShared(address));
#endif
    return address;
}

/* PTX calls two addresses of one memory aliases: not even what a fence orders is ordered between them, without this one. */
PORT_FN void port_fence_team(void) {
#if defined(__CUDA_ARCH__)
    asm volatile("fence.proxy.alias;" ::: "memory");
#endif
}

/* Two neighbouring lines of LL by one access, 16-byte aligned. Each is whole by itself; nothing is said about the pair. */
PORT_FN void port_lines_load(const uint64_t *lines, uint64_t *first, uint64_t *second) {
#if defined(__CUDA_ARCH__)
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(*first), "=l"(*second) : "l"(lines) : "memory");
#else
    *first = port_line_load(lines);
    *second = port_line_load(lines + 1);
#endif
}

PORT_FN void port_lines_store(uint64_t *lines, uint64_t first, uint64_t second) {
#if defined(__CUDA_ARCH__)
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(lines), "l"(first), "l"(second) : "memory");
#else
    port_line_store(lines, first);
    port_line_store(lines + 1, second);
#endif
}

/* A 32-bit word through which host and device tell each other that a launch is to end, and why. */
PORT_FN int32_t port_word_load(const int32_t *word) {
#if defined(__CUDA_ARCH__)
    int32_t value;
    asm volatile("ld.relaxed.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
#else
    return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

/* Has somebody claimed this word before? From now on somebody has. */
PORT_FN int port_word_claim(int32_t *word) {
#if defined(__CUDA_ARCH__)
    return atomicExch_system((int *)word, 1);
#else
    return __atomic_exchange_n(word, 1, __ATOMIC_ACQ_REL);
#endif
}

PORT_FN void port_word_store_release(int32_t *word, int32_t value) {
#if defined(__CUDA_ARCH__)
    asm volatile("st.release.sys.global.s32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
#else
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

/* A word of a loan between GPUs (kernels/cuda/block_loans.cuh): returns what it was. */
PORT_FN uint32_t port_flag_swap(uint32_t *flag, uint32_t value) {
#if defined(__CUDA_ARCH__)
    return atomicExch_system(flag, value);
#else
    return __atomic_exchange_n(flag, value, __ATOMIC_ACQ_REL);
#endif
}

PORT_FN uint32_t port_flag_load(const uint32_t *flag) {
    return (uint32_t)port_word_load((const int32_t *)(const void *)flag);
}

PORT_FN void port_flag_store(uint32_t *flag, uint32_t value) {
#if defined(__CUDA_ARCH__)
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
#else
    __atomic_store_n(flag, value, __ATOMIC_RELAXED);
#endif
}

/* The ends of how many peers a block has room for. On the host it has less, so that tests see what happens without. */
#if defined(PORT_EMULATED)
#define PORT_BLOCK_PEERS 20u
#else
#define PORT_BLOCK_PEERS 72u
#endif

/* ---- lanes ---- */

/* A group: 8 neighbouring lanes, which share a line of LL128, 16 bytes each. Groups are parts of a warp, whose lanes run
 * together. All lanes of a warp come to what is named after it, its groups or their lines, those too that have no line
 * (`present` is 0): a mask of some lanes alone would leave it to the compiler whether a line is stored by one instruction. */
#define PORT_GROUP 8u

#if defined(PORT_EMULATED)
#ifdef __cplusplus
extern "C" {
#endif
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

#endif
