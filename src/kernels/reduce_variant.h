/* SPDX-License-Identifier: Apache-2.0
 *
 * A variant: reduce_variant.c, compiled for one set of CPU instructions. reduce_host.h chooses among the variants.
 */
#ifndef COLLET_KERNELS_REDUCE_VARIANT_H
#define COLLET_KERNELS_REDUCE_VARIANT_H

#include "base/types.h"

/* For every i < count: v = src[0][i] op src[1][i] op … op src[nsrc−1][i], from left to right; v is divided by
 * reduce_rest_<type>(divisor) if divisor > 1; dst[k][i] = v for every k < ndst. nsrc ≥ 1, ndst ≥ 1. With nsrc == 1 and
 * divisor ≤ 1 the function copies bits. A dst may be the same pointer as a src; a dst that would be copied to itself is not
 * written. No other overlap is allowed. Pointers need the alignment of the element only. 16-bit floats are
 * accumulated in float32 and rounded once, to nearest even. The result has the same bits for every CPU, ndst, alignment and
 * stream_mask.
 * stream_mask: if bit k is set, dst[k] should be written past the caches (non-temporal stores, fenced before return). */
typedef void (*reduce_fn)(void *const *dst, int ndst, const void *const *src, int nsrc, size_t count, uint32_t divisor,
                          uint32_t stream_mask);

/* For every i < count: to[i] = from[i] · factor, rounded to the element's type. `factor` holds the bits of an element. `to` and `from` must
 * be different memory. */
typedef void (*multiply_fn)(void *to, const void *from, size_t count, uint64_t factor);

struct reduce_variant {
    const char *name;
    reduce_fn fn[COLLET_OP_COUNT][COLLET_TYPE_COUNT];
    multiply_fn multiply[COLLET_TYPE_COUNT];
};
extern const struct reduce_variant reduce_variant_plain, reduce_variant_avx2, reduce_variant_avx512;

#endif
