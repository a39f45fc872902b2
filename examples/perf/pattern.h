/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs, and the results that they must give. Host and GPU compile this one file, as C, as C++ and as CUDA, so filling and checking
 * a buffer use the same formulas. Any rank can compute every rank's inputs, so nothing is exchanged
 * and nothing is stored. Element i of rank r is a random number made from (seed, i, r), and chosen so that there is only one right result,
 * whatever the order in which a library reduces:
 *
 *   moved      any bits, NaNs included
 *   integers   any bits; sums and products wrap around, so every order gives the same bits. All factors of a product but one are
 *              odd numbers, because otherwise products would soon be 0
 *   sum, avg   of reals: small whole numbers. The sum of all magnitudes fits the fraction of the type, so no partial sum is
 *              ever rounded. (For types of 8 or 16 bits and many ranks, some ranks add 0)
 *   mulsum     as sum, but numbers are half as large, because the scalars are 1 and 2
 *   product    of reals: one rank gives a whole number of full precision, up to four give ±2 or ±½, the rest ±1
 *   min, max   of reals: any finite numbers but 0, which has two signs
 *
 * So the bits of the result show a rounding, a lost bit, and an operand that was used twice or not at all. Only an average
 * is rounded, once, when it is divided: it may differ by 2 units in the last place.
 *
 * A rank adds to a sum the difference of two random numbers. Its neighbour uses the second of these, too:
 *
 *   (d0 − d1) + (d1 − d2) + … + (dn-1 − dn)  =  d0 − dn          so a sum of many ranks is as cheap to check as one of two
 */
#ifndef COLLET_EXAMPLES_PERF_PATTERN_H
#define COLLET_EXAMPLES_PERF_PATTERN_H

#include "base/types.h"

enum { PATTERN_MOVED = -1 }; /* Stands for an operation if data is only moved */

/* All inputs of one operation. Passed to GPUs by value. */
struct perf_pattern {
    int32_t op; /* enum collet_op or PATTERN_MOVED */
    int32_t nranks;
    uint32_t seed;
    uint32_t bytes; /* Bytes of an element */
    int32_t is_signed;
    int32_t fraction_bits; /* 0: elements are integers */
    int32_t exponent_bits;
    int32_t contributors; /* Maximum number of ranks that add something to a sum of reals */
    /* They add differences of two numbers from −addend_limit to addend_limit − 1. A power of two. */
    int64_t addend_limit;
};

/* A real number: ±mantissa · 2^exponent. */
struct pattern_real {
    int negative;
    uint64_t mantissa;
    int exponent;
};

/* ------------------------------------------------------------------------------------------------- bits and numbers */

PORT_FN int pattern_is_integer(const struct perf_pattern *pattern) { return pattern->fraction_bits == 0; }

PORT_FN uint64_t pattern_mask(const struct perf_pattern *pattern) { return ~UINT64_C(0) >> (64 - 8 * pattern->bytes); }

PORT_FN uint64_t pattern_sign_bit(const struct perf_pattern *pattern) {
    return UINT64_C(1) << (8 * pattern->bytes - 1);
}

/* Whole numbers up to this limit are exact in the type. */
PORT_FN int64_t pattern_exact_limit(int fraction_bits) { return INT64_C(1) << (fraction_bits + 1); }

/* A mantissa without its lowest `drop` bits, rounded to nearest, ties to even. */
PORT_FN uint64_t pattern_rounded(uint64_t mantissa, int drop) {
    if (drop > 63)
        return 0;
    uint64_t is_odd = mantissa >> drop & 1;
    return (mantissa + (UINT64_C(1) << (drop - 1)) - 1 + is_odd) >> drop;
}

/* The bits of the element that is nearest to a number. The number must not be beyond the type's largest. Its mantissa has at most 63
 * bits. A carry out of the fraction adds 1 to the exponent, which is right. */
PORT_FN uint64_t pattern_real_bits(const struct perf_pattern *pattern, struct pattern_real real) {
    if (real.mantissa == 0)
        return 0;
    int bias = (1 << (pattern->exponent_bits - 1)) - 1;
    int top = 63 - __builtin_clzll(real.mantissa);
    int exponent = real.exponent + top + bias;
    int drop = top - pattern->fraction_bits;
    if (exponent < 1) { /* The number is subnormal: a multiple of the smallest number */
        drop += 1 - exponent;
        exponent = 1;
    }
    uint64_t fraction = drop > 0 ? pattern_rounded(real.mantissa, drop) : real.mantissa << -drop;
    uint64_t magnitude = fraction + ((uint64_t)(exponent - 1) << pattern->fraction_bits);
    return real.negative ? pattern_sign_bit(pattern) | magnitude : magnitude;
}

PORT_FN uint64_t pattern_whole_bits(const struct perf_pattern *pattern, int64_t whole) {
    struct pattern_real real = {whole < 0, whole < 0 ? 0 - (uint64_t)whole : (uint64_t)whole, 0};
    return pattern_real_bits(pattern, real);
}

/* The value of an integer of the type. */
PORT_FN int64_t pattern_signed(const struct perf_pattern *pattern, uint64_t bits) {
    int unused_bits = (int)(64 - 8 * pattern->bytes);
    return (int64_t)(bits << unused_bits) >> unused_bits;
}

/* Unsigned numbers in the order of the values. The numbers of two neighbouring values differ by 1. */
PORT_FN uint64_t pattern_order(const struct perf_pattern *pattern, uint64_t bits) {
    uint64_t sign = pattern_sign_bit(pattern);
    if (pattern_is_integer(pattern))
        return pattern->is_signed ? bits ^ sign : bits;
    return bits & sign ? 2 * sign - bits : sign + bits; /* Both zeros become `sign` */
}

/* ------------------------------------------------------------------------------------------------------------ draws */

/* A bijection of 32-bit numbers in which each bit of the result depends on each bit of x. */
PORT_FN uint32_t pattern_mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

PORT_FN uint32_t pattern_hash(const struct perf_pattern *pattern, uint64_t element) {
    uint32_t upper = pattern_mix((uint32_t)(element >> 32) + pattern->seed * 0x9e3779b9u + 1);
    return pattern_mix((uint32_t)element ^ upper);
}

/* Random bits, at least as many as the type has. Higher bits may be set or not. */
PORT_FN uint64_t pattern_draw(const struct perf_pattern *pattern, uint32_t hash, int place) {
    uint32_t lower = pattern_mix(hash + (uint32_t)place * 0x9e3779b9u);
    return pattern->bytes <= 4 ? lower : (uint64_t)pattern_mix(lower + 0x85ebca6bu) << 32 | lower;
}

/* The place of a rank for one element, from 0 to nranks − 1. The place decides the rank's role. Places go to the ranks in turn, and each
 * element begins with another rank. */
PORT_FN int pattern_place(const struct perf_pattern *pattern, uint32_t hash, int rank) {
    int place = rank + (int)((uint64_t)hash * (uint32_t)pattern->nranks >> 32);
    return place < pattern->nranks ? place : place - pattern->nranks;
}

/* A random number for sums: any integer, or for reals a whole number from −addend_limit to addend_limit − 1. */
PORT_FN int64_t pattern_addend(const struct perf_pattern *pattern, uint32_t hash, int place) {
    uint64_t draw = pattern_draw(pattern, hash, place);
    if (pattern_is_integer(pattern))
        return (int64_t)draw;
    return (int64_t)(draw & (uint64_t)(2 * pattern->addend_limit - 1)) - pattern->addend_limit;
}

PORT_FN int pattern_contributors(const struct perf_pattern *pattern) {
    return pattern_is_integer(pattern) ? pattern->nranks : pattern->contributors;
}

/* The number that a place adds to a sum. Integers wrap around, here and in the type. */
PORT_FN int64_t pattern_difference(const struct perf_pattern *pattern, uint32_t hash, int place) {
    if (place >= pattern_contributors(pattern))
        return 0;
    uint64_t own = (uint64_t)pattern_addend(pattern, hash, place);
    return (int64_t)(own - (uint64_t)pattern_addend(pattern, hash, place + 1));
}

PORT_FN struct pattern_real pattern_factor(const struct perf_pattern *pattern, uint32_t hash, int place) {
    uint64_t draw = pattern_draw(pattern, hash, place);
    struct pattern_real factor = {(int)(draw >> 31 & 1), 1, 0};
    if (place == 0)
        factor.mantissa = (draw & (uint64_t)(pattern_exact_limit(pattern->fraction_bits) - 1)) | 1;
    else if (place <= 4)
        factor.exponent = draw >> 30 & 1 ? 1 : -1;
    return factor;
}

/* An input for operations that compare, or combine bit by bit. For reals the lowest exponent bit is cleared, so the input is neither
 * infinite nor NaN, and the lowest fraction bit is set, so it is not 0. */
PORT_FN uint64_t pattern_bits(const struct perf_pattern *pattern, uint32_t hash, int place) {
    uint64_t bits = pattern_draw(pattern, hash, place) & pattern_mask(pattern);
    if (pattern->op == PATTERN_MOVED)
        return bits;
    if (pattern->op == COLLET_PROD)
        return bits | (place != 0);
    return pattern_is_integer(pattern) ? bits : (bits & ~(UINT64_C(1) << pattern->fraction_bits)) | 1;
}

/* ----------------------------------------------------------------------------------------------- inputs and results */

PORT_FN int pattern_sums(const struct perf_pattern *pattern) {
    return pattern->op == COLLET_SUM || pattern->op == COLLET_AVG || pattern->op == COLLET_PREMULSUM;
}

PORT_FN int pattern_is_product_of_reals(const struct perf_pattern *pattern) {
    return pattern->op == COLLET_PROD && !pattern_is_integer(pattern);
}

PORT_FN int64_t pattern_scalar(int rank) { return 1 + (rank & 1); } /* The rank's scalar for a pre-multiplied sum */

PORT_FN uint64_t pattern_sum_bits(const struct perf_pattern *pattern, int64_t sum) {
    return pattern_is_integer(pattern) ? (uint64_t)sum & pattern_mask(pattern) : pattern_whole_bits(pattern, sum);
}

PORT_FN uint64_t pattern_input(const struct perf_pattern *pattern, int rank, uint64_t element) {
    uint32_t hash = pattern_hash(pattern, element);
    int place = pattern_place(pattern, hash, rank);
    if (pattern_sums(pattern))
        return pattern_sum_bits(pattern, pattern_difference(pattern, hash, place));
    if (pattern_is_product_of_reals(pattern))
        return pattern_real_bits(pattern, pattern_factor(pattern, hash, place));
    return pattern_bits(pattern, hash, place);
}

PORT_FN int64_t pattern_sum(const struct perf_pattern *pattern, uint32_t hash) {
    int contributors = pattern_contributors(pattern);
    uint64_t sum = (uint64_t)pattern_addend(pattern, hash, 0) - (uint64_t)pattern_addend(pattern, hash, contributors);
    if (pattern->op == COLLET_PREMULSUM) /* Ranks whose scalar is 2 add their numbers once more */
        for (int rank = 1; rank < pattern->nranks; rank += 2)
            sum += (uint64_t)pattern_difference(pattern, hash, pattern_place(pattern, hash, rank));
    return (int64_t)sum;
}

/* sum ÷ nranks. If the sum is not 0, the mantissa has 63 bits, more than any type. */
PORT_FN struct pattern_real pattern_quotient(int64_t sum, uint32_t nranks) {
    struct pattern_real real = {sum < 0, sum < 0 ? 0 - (uint64_t)sum : (uint64_t)sum, 0};
    if (sum == 0)
        return real;
    int shift = __builtin_clzll(real.mantissa) - 1;
    uint64_t dividend = real.mantissa << shift;
    uint64_t quotient = dividend / nranks;
    int more = __builtin_clzll(quotient) - 1; /* At most 31, because nranks is below 2^31 */
    uint64_t rest = (dividend - quotient * nranks) << more;
    real.mantissa = (quotient << more) + rest / nranks;
    real.mantissa |= rest % nranks != 0; /* This is then no tie */
    real.exponent = -shift - more;
    return real;
}

PORT_FN uint64_t pattern_average(const struct perf_pattern *pattern, int64_t sum) {
    if (!pattern_is_integer(pattern))
        return pattern_real_bits(pattern, pattern_quotient(sum, (uint32_t)pattern->nranks));
    uint64_t bits = (uint64_t)sum & pattern_mask(pattern);
    if (pattern->is_signed)
        return (uint64_t)(pattern_signed(pattern, bits) / pattern->nranks) & pattern_mask(pattern);
    return bits / (uint32_t)pattern->nranks;
}

PORT_FN uint64_t pattern_product_of_reals(const struct perf_pattern *pattern, uint32_t hash) {
    struct pattern_real product = pattern_factor(pattern, hash, 0);
    for (int place = 1; place < pattern->nranks; place++) {
        struct pattern_real factor = pattern_factor(pattern, hash, place);
        product.negative ^= factor.negative;
        product.exponent += factor.exponent;
    }
    return pattern_real_bits(pattern, product);
}

PORT_FN uint64_t pattern_combined(const struct perf_pattern *pattern, uint64_t a, uint64_t b) {
    int is_less = pattern_order(pattern, a) < pattern_order(pattern, b);
    switch (pattern->op) {
    case COLLET_PROD: return a * b & pattern_mask(pattern);
    case COLLET_MIN: return is_less ? a : b;
    case COLLET_MAX: return is_less ? b : a;
    case COLLET_BAND: return a & b;
    case COLLET_BOR: return a | b;
    default: return a ^ b;
    }
}

/* The result of the operation over all ranks, for one element. */
PORT_FN uint64_t pattern_reduced(const struct perf_pattern *pattern, uint64_t element) {
    uint32_t hash = pattern_hash(pattern, element);
    if (pattern_sums(pattern)) {
        int64_t sum = pattern_sum(pattern, hash);
        return pattern->op == COLLET_AVG ? pattern_average(pattern, sum) : pattern_sum_bits(pattern, sum);
    }
    if (pattern_is_product_of_reals(pattern))
        return pattern_product_of_reals(pattern, hash);
    uint64_t result = pattern_bits(pattern, hash, 0);
    for (int place = 1; place < pattern->nranks; place++)
        result = pattern_combined(pattern, result, pattern_bits(pattern, hash, place));
    return result;
}

/* Is a result right? Its bits must be the expected ones. A floating-point average may be up to 2 representable numbers away. */
PORT_FN int pattern_accepts(const struct perf_pattern *pattern, uint64_t got, uint64_t expected) {
    if (got == expected)
        return 1;
    if (pattern->op != COLLET_AVG || pattern_is_integer(pattern))
        return 0;
    return pattern_order(pattern, got) + 2 - pattern_order(pattern, expected) <= 4;
}

/* op: enum collet_op or PATTERN_MOVED. */
PORT_FN struct perf_pattern pattern_make(const struct type_format *type, int op, int nranks, uint32_t seed) {
    int64_t sum_limit = pattern_exact_limit(type->fraction_bits) / (op == COLLET_PREMULSUM ? 2 : 1);
    int64_t contributors = nranks < sum_limit / 2 ? nranks : sum_limit / 2, addend_limit = 1;
    while (contributors > 0 && addend_limit * 2 * contributors * 2 <= sum_limit)
        addend_limit *= 2;
    struct perf_pattern pattern = {op,
                                   nranks,
                                   seed,
                                   (uint32_t)type->bytes,
                                   type->is_signed,
                                   type->fraction_bits,
                                   type->exponent_bits,
                                   (int32_t)contributors,
                                   addend_limit};
    return pattern;
}

#endif
