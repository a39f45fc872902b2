/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of types and operations that -d and -o choose from.
 */
#include "perf.h"

const struct type_format perf_types[] = {TYPE_FORMATS{.name = NULL}};

const struct perf_op perf_ops[] = {
    {"sum", COLLET_SUM, false},          {"prod", COLLET_PROD, false},
    {"max", COLLET_MAX, false},          {"min", COLLET_MIN, false},
    {"avg", COLLET_AVG, false},          {"band", COLLET_BAND, true},
    {"bor", COLLET_BOR, true},           {"bxor", COLLET_BXOR, true},
    {"mulsum", COLLET_PREMULSUM, false}, {.name = NULL},
};

bool perf_op_takes(const struct perf_op *op, const struct type_format *type) {
    return type->fraction_bits == 0 || !op->for_integers_only;
}

uint64_t pattern_scalar_bits(const struct type_format *type, int rank) {
    struct perf_pattern pattern = pattern_make(type, COLLET_PREMULSUM, 1, 0);
    return pattern_sum_bits(&pattern, pattern_scalar(rank));
}
