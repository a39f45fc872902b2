/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of reduce_avx2.h, written for any CPU.
 */
#ifndef COLLET_KERNELS_REDUCE_PLAIN_H
#define COLLET_KERNELS_REDUCE_PLAIN_H

static void cpu_load_half(float *to, const uint16_t *from, size_t n) {
    EACH_ELEMENT(i, n) to[i] = type_load_half(from[i]);
}

static void cpu_store_half(uint16_t *to, const float *from, size_t n) {
    EACH_ELEMENT(i, n) to[i] = type_store_half(from[i]);
}

enum { CPU_STREAMS = 0 }; /* Stores always go through the caches */

static void cpu_stream_line(char *to, const char *from) { memcpy(to, from, CPU_LINE_BYTES); }

static void cpu_stream_fence(void) {}

#endif
