/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of reduce_avx2.h, written with AVX-512 and F16C.
 */
#ifndef COLLET_KERNELS_REDUCE_AVX512_H
#define COLLET_KERNELS_REDUCE_AVX512_H

#include <immintrin.h>

/* The last n % 16 elements are converted one by one: a masked store would delay the next load of its bytes. */
static void cpu_load_half(float *to, const uint16_t *from, size_t n) {
    size_t i = 0, whole = n - n % 16;
    for (; i < whole; i += 16)
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from + i))));
    for (; i < n; i++)
        to[i] = _cvtsh_ss(from[i]);
}

static void cpu_store_half(uint16_t *to, const float *from, size_t n) {
    size_t i = 0, whole = n - n % 16;
    for (; i < whole; i += 16)
        _mm256_storeu_si256((__m256i *)(to + i), _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        to[i] = _cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
}

enum { CPU_STREAMS = 1 };

static void cpu_stream_line(char *to, const char *from) {
    _mm512_stream_si512((__m512i *)to, _mm512_loadu_si512(from));
}

/* Orders streamed stores before later stores: a release store alone does not. */
static void cpu_stream_fence(void) { _mm_sfence(); }

#endif
