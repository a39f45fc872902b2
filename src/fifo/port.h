/* SPDX-License-Identifier: Apache-2.0
 *
 * The only ways in which memory that two ends share is touched, on a CPU and on a GPU. `volatile` is not synchronisation and
 * is not used. What only blocks of GPUs do is in kernels/cuda/port.h.
 *
 *    access                    by             pairs with               what for
 *    port_load_acquire         reader of a    port_store_release       what the writer of a counter did before the store is
 *    port_store_release        counter, its   port_load_acquire        done once a reader has seen the counter: data before
 *                              writer                                  tail, reads of a slot before head
 *    port_fence, then          the same, of   port_load_acquire        the same for many counters. On a GPU a release waits until
 *    port_store_fenced         many counters                           its stores are everywhere; one fence waits once for all
 *    port_line_load            reader of a    port_line_store          8 bytes arrive whole, so a flag brings its data along;
 *    port_line_store           line, writer   port_line_load           no order among lines, and none is needed
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

/* Orders all earlier accesses before later stores by port_store_fenced(). A reader that has seen such a store also sees what came before
 * the fence. On a CPU this function is empty: there port_store_fenced() is a release store, which costs nothing extra. */
PORT_FN void port_fence(void) {
#if defined(__CUDA_ARCH__)
    asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
}

PORT_FN void port_store_fenced(uint64_t *counter, uint64_t value) {
#if defined(__CUDA_ARCH__)
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(counter), "l"(value) : "memory");
#else
    port_store_release(counter, value);
#endif
}

/* An LL line is 8 bytes: data in the low half, flag in the high half. An aligned access of 8 bytes is atomic on every machine that
 * collet runs on. So a reader that sees the flag has loaded the data with it. */
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
