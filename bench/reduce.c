/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast two buffers in a cache are reduced into a third, per type and operator, in each variant that this CPU runs: once
 * in the first-level cache, once in the second. The table has bytes per second as a share of float's sum in the same
 * variant and cache; 1.00 is as fast. Each number is the best of some turns, which alternate with turns of float's, so that
 * a busy machine disturbs both alike.
 */
#include "base/os.h"
#include "kernels/reduce_host.c"

#include <stdio.h>

enum { LEVELS = 2, LARGEST = 128 << 10, BYTES_OF_TURN = 16 << 20, TURNS = 15 };
static const size_t buffer_bytes[LEVELS] = {8 << 10, LARGEST};

static char a[LARGEST], b[LARGEST], out[LARGEST];

static double turn_ns(reduce_fn reduce, enum collet_type type, size_t bytes) {
    const void *src[2] = {a, b};
    void *dst[1] = {out};
    uint64_t began = os_now_ns();
    for (size_t done = 0; done < BYTES_OF_TURN; done += bytes)
        reduce(dst, 1, src, 2, bytes / collet_type_size(type), 1, 0);
    return (double)(os_now_ns() - began);
}

static double share_of(const struct reduce_variant *variant, enum collet_type type, enum collet_op op, size_t bytes) {
    double best = 1e18, best_of_float = 1e18;
    for (int turn = 0; turn < TURNS; turn++) {
        double ns = turn_ns(variant->fn[op][type], type, bytes);
        double float_ns = turn_ns(variant->fn[COLLET_SUM][COLLET_FLOAT32], COLLET_FLOAT32, bytes);
        best = ns < best ? ns : best;
        best_of_float = float_ns < best_of_float ? float_ns : best_of_float;
    }
    return best_of_float / best;
}

static void print_variant(const struct reduce_variant *variant, size_t bytes) {
    printf("# %s, buffers of %zu KB: float sum %.1f GB/s\n%-10s", variant->name, bytes >> 10,
           BYTES_OF_TURN / turn_ns(variant->fn[COLLET_SUM][COLLET_FLOAT32], COLLET_FLOAT32, bytes), "#");
    for (int op = 0; op < COLLET_OP_COUNT; op++)
        printf("%8s", op_name((enum collet_op)op));
    for (int type = 0; type < COLLET_TYPE_COUNT; type++) {
        printf("\n%-10s", type_name((enum collet_type)type));
        for (int op = 0; op < COLLET_OP_COUNT; op++)
            if (op_takes((enum collet_op)op, (enum collet_type)type))
                printf("%8.2f", share_of(variant, (enum collet_type)type, (enum collet_op)op, bytes));
            else
                printf("%8s", "-");
    }
    printf("\n\n");
}

int main(void) {
    for (int n = 0; reduce_host_nth(n) != NULL; n++)
        for (int level = 0; level < LEVELS; level++)
            print_variant(reduce_host_nth(n), buffer_bytes[level]);
    return 0;
}
