/* SPDX-License-Identifier: Apache-2.0
 *
 * The ground under the shared kernel sources: what differs between C11, C++17 and CUDA, and the only ways in which
 * memory that two ends share is touched. `volatile` is not synchronisation and is not used.
 *
 * The four accesses, and what each pairs with:
 *   port_load_acquire   reads a counter    pairs with port_store_release of the other end: what the other end wrote
 *                                          before its store is visible after this load
 *   port_store_release  publishes a counter
 *   port_line_load      reads an LL line   data and flag of one line were stored together and arrive together; no
 *   port_line_store     writes an LL line  order among lines, none needed
 */
#ifndef COLLET_FIFO_PORT_H
#define COLLET_FIFO_PORT_H

#include "base/port.h"

#include <stdint.h>

/* Lanes: the threads that run one worker together, as block.cuh does it. A GPU has a block of them, the host executor one;
 * with PORT_EMULATED, what includes this runs lanes on the host (tests/common/lanes.h).
 *   port_sync   every lane has come here, and each sees what any wrote before
 *   port_any    the same, and says whether any lane's condition holds
 *   port_pause  between two looks at something that is waited for; `looks` counts them
 *   port_clock_ns   nanoseconds since some time; 0 in the host executor, which waits elsewhere */
#if defined(PORT_EMULATED)
#ifdef __cplusplus
extern "C" {
#endif
uint32_t port_emulated_lane(void);
uint32_t port_emulated_lanes(void);
int port_emulated_any(int condition);
void port_emulated_pause(void);
uint64_t port_emulated_clock_ns(void);
int port_emulated_group_any(int condition);
void port_emulated_line128_load(const char *line, uint64_t *first, uint64_t *second);
void port_emulated_line128_store(char *line, uint64_t first, uint64_t second);
#ifdef __cplusplus
}
#endif
#endif

PORT_FN uint32_t port_lane(void) {
#if defined(__CUDA_ARCH__)
    return threadIdx.x;
#elif defined(PORT_EMULATED)
    return port_emulated_lane();
#else
    return 0;
#endif
}

PORT_FN uint32_t port_lanes(void) {
#if defined(__CUDA_ARCH__)
    return blockDim.x;
#elif defined(PORT_EMULATED)
    return port_emulated_lanes();
#else
    return 1;
#endif
}

PORT_FN int port_any(int condition) {
#if defined(__CUDA_ARCH__)
    return __syncthreads_or(condition);
#elif defined(PORT_EMULATED)
    return port_emulated_any(condition);
#else
    return condition;
#endif
}

PORT_FN void port_sync(void) {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#else
    (void)port_any(0);
#endif
}

/* Backs off by and by: who waits for long leaves the memory system to those who work. */
PORT_FN void port_pause(uint32_t looks) {
#if defined(__CUDA_ARCH__)
    if (looks > 64)
        __nanosleep(looks > 4096 ? 1000 : 20);
#elif defined(PORT_EMULATED)
    (void)looks;
    port_emulated_pause();
#else
    (void)looks;
#endif
}

PORT_FN uint64_t port_clock_ns(void) {
#if defined(__CUDA_ARCH__)
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
#elif defined(PORT_EMULATED)
    return port_emulated_clock_ns();
#else
    return 0;
#endif
}

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

/* An LL line is 8 bytes: data in the low half, flag in the high half. 8-byte aligned accesses are single-copy atomic on
 * every machine that collet runs on, so who sees the flag has the data. */
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

/* A group: 8 neighbouring lanes, which run together and share a line of LL128 (block_ll128.cuh), 16 bytes each. All of a
 * group come to these. */
#define PORT_GROUP 8u

PORT_FN int port_group_any(int condition) {
#if defined(__CUDA_ARCH__)
    return __any_sync(0xffu << (threadIdx.x & 24), condition);
#elif defined(PORT_EMULATED)
    return port_emulated_group_any(condition);
#else
    return condition;
#endif
}

PORT_FN void port_line128_load(const char *line, uint64_t *first, uint64_t *second) {
#if defined(__CUDA_ARCH__)
    __syncwarp(0xffu << (threadIdx.x & 24));
    port_lines_load((const uint64_t *)(const void *)line + 2 * (threadIdx.x & 7), first, second);
#elif defined(PORT_EMULATED)
    port_emulated_line128_load(line, first, second);
#else
    port_lines_load((const uint64_t *)(const void *)line, first, second);
#endif
}

PORT_FN void port_line128_store(char *line, uint64_t first, uint64_t second) {
#if defined(__CUDA_ARCH__)
    __syncwarp(0xffu << (threadIdx.x & 24));
    port_lines_store((uint64_t *)(void *)line + 2 * (threadIdx.x & 7), first, second);
#elif defined(PORT_EMULATED)
    port_emulated_line128_store(line, first, second);
#else
    port_lines_store((uint64_t *)(void *)line, first, second);
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

#endif
