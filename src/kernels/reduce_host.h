/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions on host memory, vectorised: one function per type and operator, chosen once by what the CPU can do.
 */
#ifndef COLLET_KERNELS_REDUCE_HOST_H
#define COLLET_KERNELS_REDUCE_HOST_H

#include "kernels/operands.h"
#include "kernels/reduce_variant.h"

/* The function for (type, op); NULL: op does not allow the type. AVG has the function of SUM, and the caller passes the divisor only in
 * steps with `finish`. */
reduce_fn reduce_host_get(enum collet_type type, enum collet_op op);

/* Like memcpy(), but with stores past the caches. */
void *reduce_host_copy_past_caches(void *to, const void *from, size_t bytes);

multiply_fn reduce_host_multiply(enum collet_type type);

/* Like reduce_host_step(), for a step whose operand number `scaled` must be multiplied first. */
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

/* The name of the variant in use: "avx512", "avx2" or "plain". */
const char *reduce_host_variant(void);

#endif
