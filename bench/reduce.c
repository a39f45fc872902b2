/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast two buffers in the first-level cache are reduced into a third, per type and operator, in each variant that this
 * CPU runs. The table has bytes per second as a share of float's sum in the same variant; 1.00 is as fast. Each number is
 * the best of some turns, which alternate with turns of float's, so that a busy machine disturbs both alike.
 */
#include "base/os.h"
#include "kernels/reduce_host.h"

#include <stdio.h>

enum { BYTES = 8192, CALLS = 2000, TURNS = 15 };

static char a[BYTES], b[BYTES], out[BYTES];

static double turn_ns(reduce_fn reduce, enum collet_type type) {
    const void *src[2] = {a, b};
    void *dst[1] = {out};
    uint64_t began = os_now_ns();
    for (int k = 0; k < CALLS; k++)
        reduce(dst, 1, src, 2, BYTES / collet_type_size(type), 1, 0);
    return (double)(os_now_ns() - began);
}

static double share_of(const struct reduce_variant *variant, enum collet_type type, enum collet_op op) {
    double best = 1e18, best_of_float = 1e18;
    for (int turn = 0; turn < TURNS; turn++) {
        double ns = turn_ns(variant->fn[op][type], type);
        double float_ns = turn_ns(variant->fn[COLLET_SUM][COLLET_FLOAT32], COLLET_FLOAT32);
        best = ns < best ? ns : best;
        best_of_float = float_ns < best_of_float ? float_ns : best_of_float;
    }
    return best_of_float / best;
}

static void print_variant(const struct reduce_variant *variant) {
    printf("# %s: float sum %.1f GB/s\n%-10s", variant->name,
           (double)BYTES * CALLS / turn_ns(variant->fn[COLLET_SUM][COLLET_FLOAT32], COLLET_FLOAT32), "#");
    for (int op = 0; op < COLLET_OP_COUNT; op++)
        printf("%8s", op_name((enum collet_op)op));
    for (int type = 0; type < COLLET_TYPE_COUNT; type++) {
        printf("\n%-10s", type_name((enum collet_type)type));
        for (int op = 0; op < COLLET_OP_COUNT; op++)
            if (op_takes((enum collet_op)op, (enum collet_type)type))
                printf("%8.2f", share_of(variant, (enum collet_type)type, (enum collet_op)op));
            else
                printf("%8s", "-");
    }
    printf("\n\n");
}

int main(void) {
    for (int n = 0; reduce_host_nth(n) != NULL; n++)
        print_variant(reduce_host_nth(n));
    return 0;
}
