/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions on host memory, vectorised: one function per type and operator, chosen once by what the CPU can do.
 */
#ifndef COLLET_KERNELS_REDUCE_HOST_H
#define COLLET_KERNELS_REDUCE_HOST_H

#include "base/types.h"
#include "kernels/operands.h"

#include <stddef.h>
#include <stdint.h>

/* For every i < count: v = src[0][i] op src[1][i] op … op src[nsrc−1][i], from left to right; v is divided by
 * reduce_rest_<type>(divisor) if divisor > 1; dst[k][i] = v for every k < ndst. nsrc ≥ 1, ndst ≥ 1. With nsrc == 1 and
 * divisor ≤ 1 it copies bits. A dst may be the same pointer as a src, and is then left alone if it would be written
 * with itself; other overlap is not allowed. Pointers need the alignment of the element only. 16-bit floats are
 * accumulated in float32 and rounded once, to nearest even. The same bits come out whatever the CPU, ndst, alignment or
 * stream_mask.
 * stream_mask: bit k set: dst[k] is better written past the caches (non-temporal stores, fenced before return). */
typedef void (*reduce_fn)(void *const *dst, int ndst, const void *const *src, int nsrc, size_t count, uint32_t divisor,
                          uint32_t stream_mask);

/* The function for (type, op); NULL: op does not allow the type. AVG has the function of SUM; the caller passes the divisor in
 * the step that finishes. */
reduce_fn reduce_host_get(enum collet_type type, enum collet_op op);

/* Like memcpy(), but with stores past the caches. */
void *reduce_host_copy_past_caches(void *to, const void *from, size_t bytes);

/* For every i < count: to[i] = from[i] · factor, rounded to the element's type. `factor` has the bits of an element. `to` is not `from`. */
typedef void (*multiply_fn)(void *to, const void *from, size_t count, uint64_t factor);
multiply_fn reduce_host_multiply(enum collet_type type);

/* Does reduce_host_step() for a step whose operand number `scaled` must be multiplied first. */
void reduce_host_scaled(struct interp_worker *w, int ndst, int nsrc, uint64_t count, uint32_t divisor,
                        uint32_t stream_mask, int scaled);

/* Reduces w->src[0 … nsrc−1] into w->dst[0 … ndst−1] for a step, with the functions in w->op. */
static inline void reduce_host_step(struct interp_worker *w, const struct prog_step *step, int ndst, int nsrc,
                                    uint64_t count, uint32_t stream_mask) {
    const struct interp_op *op = w->op;
    uint32_t divisor = step->finish ? op->args.divisor : 1;
    int scaled = interp_scaled(op, step);
    if (scaled >= 0)
        reduce_host_scaled(w, ndst, nsrc, count, divisor, stream_mask, scaled);
    else
        ((reduce_fn)op->reduce)(w->dst, ndst, w->src, nsrc, count, divisor, stream_mask);
}

/* The variant in use: "avx512", "avx2" or "plain". */
const char *reduce_host_variant(void);

/* One compilation of reduce_variant.c. */
struct reduce_variant {
    const char *name;
    reduce_fn fn[COLLET_OP_COUNT][COLLET_TYPE_COUNT];
    multiply_fn multiply[COLLET_TYPE_COUNT];
};
extern const struct reduce_variant reduce_variant_plain, reduce_variant_avx2, reduce_variant_avx512;

/* The n-th variant that this CPU can run; 0 is the best. NULL after the last one. */
const struct reduce_variant *reduce_host_nth(int n);

#endif
