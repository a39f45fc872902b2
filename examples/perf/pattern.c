/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs, and the results that they must give. Any rank can compute both for any element, so nothing is exchanged and
 * nothing is stored: element i of rank r is a hash of (seed, r, i), shaped so that there is only one right result,
 * whatever the order in which a library reduces:
 *
 *   moved      any bits, NaNs included
 *   integers   any bits; sums and products wrap, which is associative. Products use odd numbers, all but one, or they
 *              would soon be 0
 *   sum, avg   small whole numbers, so small that the largest possible sum still fits the fraction of the type (types of
 *              8 or 16 bits and many ranks: the others add 0). No partial sum is ever rounded
 *   mulsum     the same, and half as large: the scalars are 1 and 2
 *   product    one rank gives a whole number of full precision, up to four give ±2 or ±½, the rest ±1
 *   min, max   any finite numbers but 0, which has two signs
 *
 * So a rounding, a dropped bit, an operand taken twice or not at all shows in the bits of the result. Only an average
 * is rounded, once, when it is divided; it may differ by 2 units in the last place.
 */
#include "perf.h"

#include <math.h>
#include <string.h>

/* What an input is drawn from. */
struct perf_draw {
    const struct perf_pattern *pattern;
    int place;       /* 0 … nranks−1: a role that each element gives to the ranks in turn */
    uint64_t random; /* 64 bits, all of them random */
};

/* ------------------------------------------------------------------------------------------------- bits and numbers */

static bool is_integer(const struct type_format *type) { return type->fraction_bits == 0; }

static uint64_t type_mask(const struct type_format *type) { return ~UINT64_C(0) >> (64 - 8 * type->bytes); }

static uint64_t sign_bit(const struct type_format *type) { return UINT64_C(1) << (8 * type->bytes - 1); }

uint64_t pattern_real_bits(const struct type_format *type, double value) {
    enum { DOUBLE_BIAS = 1023, DOUBLE_FRACTION_BITS = 52 };
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    uint64_t sign = bits >> 63 ? sign_bit(type) : 0;
    uint64_t magnitude = bits & ~(UINT64_C(1) << 63);
    int bias = (1 << (type->exponent_bits - 1)) - 1;
    if (fabs(value) < ldexp(1, 1 - bias)) /* 0 or subnormal: so many times the smallest number */
        return sign | (uint64_t)nearbyint(ldexp(fabs(value), bias - 1 + type->fraction_bits));
    magnitude -= (uint64_t)(DOUBLE_BIAS - bias) << DOUBLE_FRACTION_BITS;
    int dropped_bits = DOUBLE_FRACTION_BITS - type->fraction_bits;
    if (dropped_bits > 0) { /* to nearest, ties to even; a carry out of the fraction rightly counts up the exponent */
        uint64_t is_odd = magnitude >> dropped_bits & 1;
        magnitude = (magnitude + (UINT64_C(1) << (dropped_bits - 1)) - 1 + is_odd) >> dropped_bits;
    }
    return sign | magnitude;
}

/* A number that orders the values of a type as they order themselves: of an integer its value, of a floating-point
 * number its place among all those that can be represented. */
static perf_ordinal ordinal_of(const struct type_format *type, uint64_t bits) {
    if (!is_integer(type))
        return bits & sign_bit(type) ? -(int64_t)(bits ^ sign_bit(type)) : (int64_t)bits;
    int unused_bits = (int)(64 - 8 * type->bytes);
    return type->is_signed ? (int64_t)(bits << unused_bits) >> unused_bits : (perf_ordinal)bits;
}

static uint64_t bits_of_ordinal(const struct type_format *type, perf_ordinal ordinal) {
    if (!is_integer(type))
        return ordinal < 0 ? sign_bit(type) | (uint64_t)-ordinal : (uint64_t)ordinal;
    return (uint64_t)ordinal & type_mask(type);
}

/* ------------------------------------------------------------------------------------------------------- operations */

/* A number from 0 to range − 1, out of 64 random bits, without a division. */
static uint64_t pick(uint64_t random, uint64_t range) { return (uint64_t)((unsigned __int128)random * range >> 64); }

static double draw_addend(const struct perf_draw *draw) {
    const struct perf_pattern *pattern = draw->pattern;
    if (draw->place >= pattern->contributors)
        return 0;
    int64_t largest = pattern->largest_addend;
    return (double)((int64_t)pick(draw->random, (uint64_t)(2 * largest + 1)) - largest);
}

static double draw_factor(const struct perf_draw *draw) {
    double factor = 1;
    if (draw->place == 0)
        factor = (double)(1 + pick(draw->random, (uint64_t)(draw->pattern->exact_limit - 1)));
    else if (draw->place <= 4)
        factor = draw->random & 2 ? 2 : 0.5;
    return draw->random & 1 ? -factor : factor;
}

static uint64_t draw_any(const struct perf_draw *draw) { return draw->random & type_mask(draw->pattern->type); }

static uint64_t draw_odd(const struct perf_draw *draw) { return draw_any(draw) | (draw->place != 0); }

static uint64_t draw_ordered(const struct perf_draw *draw) {
    const struct type_format *type = draw->pattern->type;
    if (is_integer(type))
        return draw_any(draw);
    /* The lowest exponent bit cleared: neither infinite nor NaN. The lowest fraction bit set: not 0. */
    return (draw_any(draw) & ~(UINT64_C(1) << type->fraction_bits)) | 1;
}

static double real_sum(double a, double b) { return a + b; }
static double real_product(double a, double b) { return a * b; }
static perf_ordinal integer_sum(perf_ordinal a, perf_ordinal b) { return (uint64_t)a + (uint64_t)b; }
static perf_ordinal integer_product(perf_ordinal a, perf_ordinal b) { return (uint64_t)a * (uint64_t)b; }
static perf_ordinal ordinal_min(perf_ordinal a, perf_ordinal b) { return a < b ? a : b; }
static perf_ordinal ordinal_max(perf_ordinal a, perf_ordinal b) { return a > b ? a : b; }
static perf_ordinal ordinal_and(perf_ordinal a, perf_ordinal b) { return a & b; }
static perf_ordinal ordinal_or(perf_ordinal a, perf_ordinal b) { return a | b; }
static perf_ordinal ordinal_xor(perf_ordinal a, perf_ordinal b) { return a ^ b; }

bool perf_op_takes(const struct perf_op *op, const struct type_format *type) {
    return is_integer(type) || op->reduce_real || op->draw_bits == draw_ordered;
}

const struct type_format perf_types[] = {TYPE_FORMATS{.name = NULL}};

const struct perf_op perf_ops[] = {
    {"sum", COLLET_SUM, draw_any, integer_sum, draw_addend, real_sum},
    {"prod", COLLET_PROD, draw_odd, integer_product, draw_factor, real_product},
    {"max", COLLET_MAX, draw_ordered, ordinal_max, NULL, NULL},
    {"min", COLLET_MIN, draw_ordered, ordinal_min, NULL, NULL},
    {"avg", COLLET_AVG, draw_any, integer_sum, draw_addend, real_sum},
    {"band", COLLET_BAND, draw_any, ordinal_and, NULL, NULL},
    {"bor", COLLET_BOR, draw_any, ordinal_or, NULL, NULL},
    {"bxor", COLLET_BXOR, draw_any, ordinal_xor, NULL, NULL},
    {"mulsum", COLLET_PREMULSUM, draw_any, integer_sum, draw_addend, real_sum},
    {.name = NULL},
};

/* ----------------------------------------------------------------------------------------------- inputs and results */

static int scalar_of(const struct perf_pattern *pattern, int rank) {
    return pattern->op->op == COLLET_PREMULSUM ? 1 + rank % 2 : 1;
}

uint64_t pattern_scalar_bits(const struct type_format *type, int rank) {
    return is_integer(type) ? 1 + (uint64_t)rank % 2 : pattern_real_bits(type, 1 + rank % 2);
}

struct perf_pattern pattern_make(const struct type_format *type, const struct perf_op *op, int nranks, uint64_t seed) {
    int64_t exact_limit = INT64_C(1) << (type->fraction_bits + 1);
    int64_t sum_limit = op && op->op == COLLET_PREMULSUM ? exact_limit / 2 : exact_limit; /* before it is doubled */
    int64_t contributors = nranks < sum_limit ? nranks : sum_limit;
    return (struct perf_pattern){
        .type = type,
        .op = op,
        .nranks = nranks,
        .seed = seed,
        .in_reals = op && op->draw_real && !is_integer(type),
        .exact_limit = exact_limit,
        .contributors = (int)contributors,
        .largest_addend = sum_limit / contributors,
    };
}

/* A bijection of 64-bit numbers in which each bit of the result depends on each bit of x. */
static uint64_t scramble(uint64_t x) {
    x = (x ^ x >> 32) * UINT64_C(0x9fb21c651e98df25);
    x = (x ^ x >> 29) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static uint64_t element_hash(const struct perf_pattern *pattern, size_t element) {
    return scramble(element + (pattern->seed << 44) + 1);
}

static struct perf_draw draw_of(const struct perf_pattern *pattern, int rank, uint64_t hash) {
    int place = rank + (int)pick(hash, (uint64_t)pattern->nranks);
    return (struct perf_draw){
        .pattern = pattern,
        .place = place < pattern->nranks ? place : place - pattern->nranks,
        .random = scramble(hash + (uint64_t)rank),
    };
}

uint64_t pattern_input(const struct perf_pattern *pattern, int rank, size_t element) {
    struct perf_draw draw = draw_of(pattern, rank, element_hash(pattern, element));
    if (!pattern->op)
        return draw_any(&draw);
    if (pattern->in_reals)
        return pattern_real_bits(pattern->type, pattern->op->draw_real(&draw));
    return pattern->op->draw_bits(&draw);
}

static uint64_t reduce_reals(const struct perf_pattern *pattern, uint64_t hash) {
    struct perf_draw draw = draw_of(pattern, 0, hash);
    double result = pattern->op->draw_real(&draw) * scalar_of(pattern, 0);
    for (int rank = 1; rank < pattern->nranks; rank++) {
        draw = draw_of(pattern, rank, hash);
        result = pattern->op->reduce_real(result, pattern->op->draw_real(&draw) * scalar_of(pattern, rank));
    }
    if (pattern->op->op == COLLET_AVG)
        result /= pattern->nranks;
    return pattern_real_bits(pattern->type, result);
}

static uint64_t reduce_ordinals(const struct perf_pattern *pattern, uint64_t hash) {
    struct perf_draw draw = draw_of(pattern, 0, hash);
    perf_ordinal result = ordinal_of(pattern->type, pattern->op->draw_bits(&draw)) * scalar_of(pattern, 0);
    for (int rank = 1; rank < pattern->nranks; rank++) {
        draw = draw_of(pattern, rank, hash);
        result = pattern->op->reduce_ordinal(result, ordinal_of(pattern->type, pattern->op->draw_bits(&draw)) *
                                                         scalar_of(pattern, rank));
    }
    uint64_t bits = bits_of_ordinal(pattern->type, result); /* wraps at the width of the type */
    if (pattern->op->op == COLLET_AVG)
        bits = bits_of_ordinal(pattern->type, ordinal_of(pattern->type, bits) / pattern->nranks);
    return bits;
}

uint64_t pattern_reduced(const struct perf_pattern *pattern, size_t element) {
    uint64_t hash = element_hash(pattern, element);
    return pattern->in_reals ? reduce_reals(pattern, hash) : reduce_ordinals(pattern, hash);
}

bool pattern_accepts(const struct perf_pattern *pattern, uint64_t got, uint64_t expected) {
    if (got == expected)
        return true;
    if (!pattern->in_reals || pattern->op->op != COLLET_AVG)
        return false;
    perf_ordinal distance = ordinal_of(pattern->type, got) - ordinal_of(pattern->type, expected);
    return distance >= -2 && distance <= 2;
}
