/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of the variants of reduce_variant.c, best first; the choice of a variant that this CPU can run; and the reduction of a
 * step with the functions of that variant.
 */
#include "kernels/reduce_host.h"
#include "kernels/operands.h"

struct candidate {
    const struct reduce_variant *variant;
    int (*runs_here)(void);
};

static int always(void) { return 1; }

#if defined(__x86_64__)
/* Every CPU with AVX2 and FMA has F16C too. */
static int has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

static int has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

static const struct candidate candidates[] = {
    {&reduce_variant_avx512, has_avx512}, {&reduce_variant_avx2, has_avx2}, {&reduce_variant_plain, always}};
#else
static const struct candidate candidates[] = {{&reduce_variant_plain, always}};
#endif

/* The n-th variant that this CPU can run; 0 is the best. NULL after the last one. */
static const struct reduce_variant *reduce_host_nth(int n) {
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++)
        if (candidates[i].runs_here() && n-- == 0)
            return candidates[i].variant;
    return NULL;
}

reduce_fn reduce_host_get(enum collet_type type, enum collet_op op) { return reduce_host_nth(0)->fn[op][type]; }

void *reduce_host_copy_past_caches(void *to, const void *from, size_t bytes) {
    reduce_host_get(COLLET_UINT8, COLLET_SUM)(&to, 1, &from, 1, bytes, 1, 1);
    return to;
}

multiply_fn reduce_host_multiply(enum collet_type type) { return reduce_host_nth(0)->multiply[type]; }

const char *reduce_host_variant(void) { return reduce_host_nth(0)->name; }

/* ---- a step ---- */

/* An operand is multiplied in blocks of this size. In the list of operands the block of products replaces the operand. */
#define SCALED_BLOCK_BYTES 4096u

static void move_lists(struct interp_worker *w, int ndst, int nsrc, ptrdiff_t bytes) {
    for (int k = 0; k < nsrc; k++)
        w->src[k] = (const char *)w->src[k] + bytes;
    for (int k = 0; k < ndst; k++)
        w->dst[k] = (char *)w->dst[k] + bytes;
}

void reduce_host_scaled(struct interp_worker *w, int ndst, int nsrc, uint64_t count, uint32_t divisor,
                        uint32_t stream_mask, int scaled) {
    _Alignas(64) char product[SCALED_BLOCK_BYTES];
    const struct interp_op *op = w->op;
    uint64_t bytes = count * op->args.elem_bytes, n;
    for (uint64_t at = 0; at < bytes; at += n) {
        n = bytes - at < SCALED_BLOCK_BYTES ? bytes - at : SCALED_BLOCK_BYTES;
        uint64_t elems = n / op->args.elem_bytes;
        const void *in = w->src[scaled];
        ((multiply_fn)op->multiply)(product, in, elems, op->args.factor);
        w->src[scaled] = product;
        ((reduce_fn)op->reduce)(w->dst, ndst, w->src, nsrc, elems, divisor, stream_mask);
        w->src[scaled] = in;
        move_lists(w, ndst, nsrc, (ptrdiff_t)n);
    }
    move_lists(w, ndst, nsrc, -(ptrdiff_t)bytes);
}
