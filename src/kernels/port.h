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
#ifndef COLLET_KERNELS_PORT_H
#define COLLET_KERNELS_PORT_H

#include <stdint.h>

#if defined(__CUDACC__)
#define PORT_FN static __host__ __device__ inline
#else
#define PORT_FN static inline
#endif

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

#endif
