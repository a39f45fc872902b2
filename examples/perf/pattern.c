/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs, and the results that they must give. Any rank can compute both for any element, so nothing is exchanged and
 * nothing is stored: element i of rank r is a hash of (seed, r, i), shaped so that there is only one right result,
 * whatever the order in which a library reduces:
 *
 *   moved      any bits, NaNs included
 *   integers   any bits; sums and products wrap, which is associative. Products use odd numbers, all but one, or they
 *              would soon be 0
 *   sum, avg   small whole numbers, so small that the largest possible sum still fits the fraction of the type (16-bit
 *              types and very many ranks: the others add 0). No partial sum is ever rounded
 *   product    one rank gives a whole number of full precision, up to four give ±2 or ±½, the rest ±1
 *   min, max   any finite numbers but 0, which has two signs
 *
 * So a rounding, a dropped bit, an operand taken twice or not at all shows in the bits of the result. Only an average is
 * rounded, once, when it is divided; it may differ by 2 units in the last place.
 */
#include "perf.h"

#include <math.h>
#include <string.h>

/* What an input is drawn from. */
struct perf_draw {
    const struct perf_type *type;
    int nranks;
    int place;     /* 0 … nranks−1: a role that each element gives to the ranks in turn */
    uint64_t bits; /* random */
};

/* ---------------------------------------------------------------------------------------------------- bits and numbers */

static uint64_t type_mask(const struct perf_type *type) { return ~UINT64_C(0) >> (64 - 8 * type->size); }

static int exponent_bias(const struct perf_type *type) { return (1 << (type->exponent_bits - 1)) - 1; }

double pattern_real_value(const struct perf_type *type, uint64_t bits) {
    uint64_t hidden_bit = UINT64_C(1) << type->fraction_bits;
    uint64_t fraction = bits & (hidden_bit - 1);
    int exponent = (int)(bits >> type->fraction_bits) & ((1 << type->exponent_bits) - 1);
    bool is_negative = bits >> (type->exponent_bits + type->fraction_bits) & 1;
    if (exponent == 0)
        exponent = 1; /* subnormal: no hidden bit */
    else
        fraction |= hidden_bit;
    double magnitude = ldexp((double)fraction, exponent - exponent_bias(type) - type->fraction_bits);
    return is_negative ? -magnitude : magnitude;
}

uint64_t pattern_real_bits(const struct perf_type *type, double value) {
    uint64_t sign = (uint64_t)(signbit(value) != 0) << (type->exponent_bits + type->fraction_bits);
    if (value == 0)
        return sign;
    int exponent;
    frexp(value, &exponent);
    /* The value is a multiple of 2^unit once rounded; subnormals share the unit of the smallest normal numbers. */
    int smallest_unit = 1 - exponent_bias(type) - type->fraction_bits;
    int unit = exponent - 1 - type->fraction_bits;
    if (unit < smallest_unit)
        unit = smallest_unit;
    uint64_t multiple = (uint64_t)nearbyint(ldexp(fabs(value), -unit));
    /* A multiple with its hidden bit set carries into the exponent field, as does one that was rounded up to the next
     * power of two: both are what is wanted. */
    return sign | (((uint64_t)(unit - smallest_unit) << type->fraction_bits) + multiple);
}

static int64_t integer_value(const struct perf_type *type, uint64_t bits) {
    int unused = (int)(64 - 8 * type->size);
    return type->is_signed ? (int64_t)(bits << unused) >> unused : (int64_t)(bits & type_mask(type));
}

/* ---------------------------------------------------------------------------------------------------------- operations */

static bool is_integer(const struct perf_type *type) { return type->fraction_bits == 0; }

/* Whole numbers up to this have an exact representation. */
static int64_t exact_limit(const struct perf_type *type) { return INT64_C(1) << (type->fraction_bits + 1); }

static uint64_t draw_addend(const struct perf_draw *draw) {
    if (is_integer(draw->type))
        return draw->bits;
    int64_t limit = exact_limit(draw->type);
    int64_t contributors = draw->nranks < limit ? draw->nranks : limit;
    if (draw->place >= contributors)
        return 0;
    int64_t largest = limit / contributors;
    int64_t addend = (int64_t)(draw->bits % (uint64_t)(2 * largest + 1)) - largest;
    return pattern_real_bits(draw->type, (double)addend);
}

static uint64_t draw_factor(const struct perf_draw *draw) {
    if (is_integer(draw->type))
        return draw->bits | (draw->place != 0);
    uint64_t random = draw->bits >> 2;
    double factor = 1;
    if (draw->place == 0)
        factor = (double)(1 + random % (uint64_t)(exact_limit(draw->type) - 1));
    else if (draw->place <= 4)
        factor = random & 1 ? 2 : 0.5;
    return pattern_real_bits(draw->type, draw->bits & 1 ? -factor : factor);
}

static uint64_t draw_ordered(const struct perf_draw *draw) {
    if (is_integer(draw->type))
        return draw->bits;
    /* The lowest exponent bit cleared: neither infinite nor NaN. The lowest fraction bit set: not 0. */
    return (draw->bits & ~(UINT64_C(1) << draw->type->fraction_bits)) | 1;
}

static double real_sum(double a, double b) { return a + b; }
static double real_product(double a, double b) { return a * b; }
static int64_t integer_sum(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t integer_product(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t integer_min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t integer_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* In the order of nccl-tests. */
const struct perf_type perf_types[] = {
    {"uint8", COLLET_UINT8, 1, 0, 0, false},      {"int32", COLLET_INT32, 4, 0, 0, true},
    {"int64", COLLET_INT64, 8, 0, 0, true},       {"half", COLLET_FLOAT16, 2, 5, 10, true},
    {"float", COLLET_FLOAT32, 4, 8, 23, true},    {"double", COLLET_FLOAT64, 8, 11, 52, true},
    {"bfloat16", COLLET_BFLOAT16, 2, 8, 7, true}, {.name = NULL},
};

const struct perf_op perf_ops[] = {
    {"sum", COLLET_SUM, draw_addend, real_sum, integer_sum},
    {"prod", COLLET_PROD, draw_factor, real_product, integer_product},
    {"max", COLLET_MAX, draw_ordered, fmax, integer_max},
    {"min", COLLET_MIN, draw_ordered, fmin, integer_min},
    {"avg", COLLET_AVG, draw_addend, real_sum, integer_sum},
    {.name = NULL},
};

/* ------------------------------------------------------------------------------------------------- inputs and results */

/* A bijection of 64-bit numbers in which each bit of the result depends on each bit of x. */
static uint64_t scramble(uint64_t x) {
    x = (x ^ x >> 32) * UINT64_C(0x9fb21c651e98df25);
    x = (x ^ x >> 29) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static uint64_t element_hash(const struct perf_pattern *pattern, size_t element) {
    return scramble(element + (pattern->seed << 44) + 1);
}

static uint64_t input_of(const struct perf_pattern *pattern, int rank, uint64_t hash) {
    struct perf_draw draw = {
        .type = pattern->type,
        .nranks = pattern->nranks,
        .bits = scramble(hash + (uint64_t)rank) & type_mask(pattern->type),
    };
    if (!pattern->op)
        return draw.bits;
    draw.place = (int)(((uint32_t)hash % (uint32_t)draw.nranks + (uint32_t)rank) % (uint32_t)draw.nranks);
    return pattern->op->input(&draw);
}

uint64_t pattern_input(const struct perf_pattern *pattern, int rank, size_t element) {
    return input_of(pattern, rank, element_hash(pattern, element));
}

static uint64_t reduce_reals(const struct perf_pattern *pattern, uint64_t hash) {
    double result = pattern_real_value(pattern->type, input_of(pattern, 0, hash));
    for (int rank = 1; rank < pattern->nranks; rank++) {
        double operand = pattern_real_value(pattern->type, input_of(pattern, rank, hash));
        result = pattern->op->reduce_real(result, operand);
    }
    if (pattern->op->op == COLLET_AVG)
        result /= pattern->nranks;
    return pattern_real_bits(pattern->type, result);
}

static uint64_t reduce_integers(const struct perf_pattern *pattern, uint64_t hash) {
    int64_t result = integer_value(pattern->type, input_of(pattern, 0, hash));
    for (int rank = 1; rank < pattern->nranks; rank++) {
        int64_t operand = integer_value(pattern->type, input_of(pattern, rank, hash));
        result = pattern->op->reduce_integer(result, operand);
    }
    if (pattern->op->op == COLLET_AVG) /* of the sum as it wrapped at the width of the type */
        result = integer_value(pattern->type, (uint64_t)result) / pattern->nranks;
    return (uint64_t)result & type_mask(pattern->type);
}

uint64_t pattern_reduced(const struct perf_pattern *pattern, size_t element) {
    uint64_t hash = element_hash(pattern, element);
    return is_integer(pattern->type) ? reduce_integers(pattern, hash) : reduce_reals(pattern, hash);
}

/* Numbers the representable values of a floating-point type in their order. */
static int64_t ordinal(const struct perf_type *type, uint64_t bits) {
    uint64_t sign = UINT64_C(1) << (type->exponent_bits + type->fraction_bits);
    return bits & sign ? -(int64_t)(bits ^ sign) : (int64_t)bits;
}

bool pattern_accepts(const struct perf_pattern *pattern, uint64_t got, uint64_t expected) {
    if (got == expected)
        return true;
    if (!pattern->op || pattern->op->op != COLLET_AVG || is_integer(pattern->type))
        return false;
    int64_t distance = ordinal(pattern->type, got) - ordinal(pattern->type, expected);
    return distance >= -2 && distance <= 2;
}
