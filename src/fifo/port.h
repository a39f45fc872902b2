/* SPDX-License-Identifier: Apache-2.0
 *
 * The only ways in which memory that two ends share is touched, on a CPU and on a GPU. `volatile` is not synchronisation and
 * is not used.
 *
 *    access                    by             pairs with               what for
 *    port_load_acquire         reader of a    port_store_release       what the writer of a counter did before the store is
 *    port_store_release        counter, its   port_load_acquire        done once a reader has seen the counter: data before
 *                              writer                                  tail, reads of a slot before head
 *    port_fence, then          the same, of   port_load_acquire        the same for many counters. On a GPU a release waits until
 *    port_store_fenced         many counters                           its stores are everywhere; one fence waits once for all
 *    port_line_load            reader of a    port_line_store          8 bytes arrive whole, so a flag brings its data along;
 *    port_line_store           line, writer   port_line_load           no order among lines, and none is needed
 *    port_lines_load, _store   the same       each other               two neighbouring lines by one access, each whole
 *    port_word_load            a GPU          the host's own store     is it to end? Nothing else is read because of it
 *    port_word_claim           GPU blocks     port_word_claim          of all blocks that fail, one reports
 *    port_word_store_release   a GPU block    exec_gpu_check()         the report is complete once its last word is seen
 *    port_flag_swap            GPU blocks     port_flag_swap           a loan is read, or taken back: whoever comes first says
 *    port_flag_store, _load    GPU blocks     each other               a loan was not read. Nothing else is read because of it
 *    port_fence_team           a GPU block    fences, acquires, and    accesses by a team's address and by a GPU's own one
 *                              behind and     barriers on the same     (kernels/cuda/block_team.cuh): those before it, by either,
 *                              before those   way                      are done for those behind it, by the other
 */
#ifndef COLLET_FIFO_PORT_H
#define COLLET_FIFO_PORT_H

#include "base/port.h"

#include <stdint.h>

PORT_FN uint64_t port_load_acquire(const uint64_t *counter) {
#if defined(__CUDA_ARCH__)
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(counter) : "memory");
    return value;
#else
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
#endif
}

PORT_FN void port_store_release(uint64_t *counter, uint64_t value) {
#if defined(__CUDA_ARCH__)
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(counter), "l"(value) : "memory");
#else
    __atomic_store_n(counter, value, __ATOMIC_RELEASE);
#endif
}

/* What was done before the fence is done once a reader has seen a counter that is stored behind it. On a CPU a release costs
 * nothing, so each store is one, and the fence is empty. */
PORT_FN void port_fence(void) {
#if defined(__CUDA_ARCH__)
    asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
}

/* PTX calls two addresses of one memory aliases: not even what a fence orders is ordered between them, without this one. */
PORT_FN void port_fence_team(void) {
#if defined(__CUDA_ARCH__)
    asm volatile("fence.proxy.alias;" ::: "memory");
#endif
}

PORT_FN void port_store_fenced(uint64_t *counter, uint64_t value) {
#if defined(__CUDA_ARCH__)
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(counter), "l"(value) : "memory");
#else
    port_store_release(counter, value);
#endif
}

/* An LL line is 8 bytes: data in the low half, flag in the high half. 8-byte aligned accesses are single-copy atomic on
 * every machine that collet runs on, so a reader that sees the flag has the data. */
PORT_FN uint64_t port_line_load(const uint64_t *line) {
#if defined(__CUDA_ARCH__)
    uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(line) : "memory");
    return value;
#else
    return __atomic_load_n(line, __ATOMIC_RELAXED);
#endif
}

PORT_FN void port_line_store(uint64_t *line, uint64_t value) {
#if defined(__CUDA_ARCH__)
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(line), "l"(value) : "memory");
#else
    __atomic_store_n(line, value, __ATOMIC_RELAXED);
#endif
}

/* Two neighbouring lines by one access, 16-byte aligned. Each is whole by itself; nothing is said about the pair. */
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

#endif
