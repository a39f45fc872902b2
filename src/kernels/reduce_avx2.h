/* SPDX-License-Identifier: Apache-2.0
 *
 * What reduce_variant.c needs of a CPU and a compiler does not make from plain loops: here with AVX2 and F16C.
 */
#ifndef COLLET_KERNELS_REDUCE_AVX2_H
#define COLLET_KERNELS_REDUCE_AVX2_H

#include <immintrin.h>

static void cpu_load_half(float *to, const uint16_t *from, size_t n) {
    size_t i = 0, whole = n - n % 8;
    for (; i < whole; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
    for (; i < n; i++)
        to[i] = _cvtsh_ss(from[i]);
}

static void cpu_store_half(uint16_t *to, const float *from, size_t n) {
    size_t i = 0, whole = n - n % 8;
    for (; i < whole; i += 8)
        _mm_storeu_si128((__m128i *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        to[i] = _cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
}

enum { CPU_STREAMS = 1 };

static void cpu_stream_line(char *to, const char *from) {
    __m256i low = _mm256_loadu_si256((const __m256i *)from);
    __m256i high = _mm256_loadu_si256((const __m256i *)(from + 32));
    _mm256_stream_si256((__m256i *)to, low);
    _mm256_stream_si256((__m256i *)(to + 32), high);
}

/* Orders streaming stores before later stores. A release store alone does not do that. */
static void cpu_stream_fence(void) { _mm_sfence(); }

#endif
