/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of element types and of reduction operators. Loops on the host, kernels on GPUs, the perf programs' -d and -o
 * and the tests' numbers are generated from them. A new type is its enumerator in collet.h and, in this file, its row and
 * its two conversions, if it has any. An operator has its arithmetic in kernels/reduce.h.
 *
 * This header is compiled as C, as C++ and for GPUs.
 */
#ifndef COLLET_BASE_TYPES_H
#define COLLET_BASE_TYPES_H

#include "base/port.h"
#include "collet.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* X(ENUM, name, element, accumulator, wrap, divisor, fraction_bits, largest, conversion), in the order of enum collet_type
 *   ENUM           the type is COLLET_<ENUM>
 *   name           what tools and logs call it, as nccl-tests does
 *   element        the C type that has its bits in memory
 *   accumulator    elements are loaded into it, combined in it and stored from it
 *   wrap           the type in which sums and products are taken: integers wrap, so theirs is unsigned
 *   divisor        the type to which the number of ranks is converted before it divides an average
 *   fraction_bits  of a floating-point type; 0: an integer. One bit is the sign, the rest is the exponent
 *   largest        bits of the largest finite number of a floating-point type. The next magnitude is infinity if its
 *                  fraction is 0, and the type's only NaN otherwise
 *   conversion     from element to accumulator and back:
 *                    SAME   none: the two are one type
 *                    CODED  type_load_<name>() and type_store_<name>() below
 *                    CHIP   the same two; CPUs and GPUs also have instructions for it (reduce_avx2.h, block_ops.cuh) */
#define COLLET_TYPES(X)                                                                                                \
    X(FLOAT32, float, float, float, float, float, 23, 0x7f7fffffu, SAME)                                               \
    X(FLOAT64, double, double, double, double, double, 52, 0x7fefffffffffffffu, SAME)                                  \
    X(INT32, int32, int32_t, int32_t, uint32_t, int32_t, 0, 0, SAME)                                                   \
    X(INT64, int64, int64_t, int64_t, uint64_t, int64_t, 0, 0, SAME)                                                   \
    X(UINT8, uint8, uint8_t, uint8_t, uint32_t, uint32_t, 0, 0, SAME)                                                  \
    X(FLOAT16, half, uint16_t, float, float, float, 10, 0x7bffu, CHIP)                                                 \
    X(BFLOAT16, bfloat16, uint16_t, float, float, float, 7, 0x7f7fu, CODED)

/* X(ENUM, name) */
#define COLLET_OPS(X)                                                                                                  \
    X(SUM, sum)                                                                                                        \
    X(PROD, prod)                                                                                                      \
    X(MIN, min)                                                                                                        \
    X(MAX, max)                                                                                                        \
    X(AVG, avg)

const char *type_name(enum collet_type type); /* "float" …; "?" if none */
const char *op_name(enum collet_op op);

/* Callers of the public API pass any integer where an enum is declared. */
static inline int type_valid(enum collet_type type) { return (unsigned)type < COLLET_TYPE_COUNT; }
static inline int op_valid(enum collet_op op) { return (unsigned)op < COLLET_OP_COUNT; }

/* How to read the bits of an element, for whoever makes or compares elements one by one. */
struct type_format {
    const char *name;
    enum collet_type type;
    size_t bytes;
    int is_signed;
    int fraction_bits; /* 0: integer */
    int exponent_bits;
    uint64_t largest;
};
const struct type_format *type_format(enum collet_type type); /* of a valid type */

/* TYPE_FORMATS: the initialiser of an array of them. An element without fraction is a signed integer if −1 is below 0. */
#define TYPE_FORMAT(ENUM, name, element, accumulator, wrap, divisor, fraction_bits, largest, conversion)               \
    {#name,           COLLET_##ENUM,                                                                                   \
     sizeof(element), (fraction_bits) > 0 || (element)-1 < (element)1,                                                 \
     fraction_bits,   (fraction_bits) > 0 ? 8 * (int)sizeof(element) - 1 - (fraction_bits) : 0,                        \
     largest},
#define TYPE_FORMATS COLLET_TYPES(TYPE_FORMAT)

/* ---------------------------------------------------------------------------------------------------- conversions
 *
 *    float32    s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm     exponent bias 127
 *    float16    s    eeeee mmmmmmmmmm                  exponent bias 15
 *    bfloat16   s eeeeeeee mmmmmmm                     the upper half of a float32
 *
 * They have no branches, so loops over them vectorise. Stores round to nearest, ties to even. A NaN keeps the upper part of
 * its payload and becomes quiet, exactly as the conversion instructions of x86 and Arm do it. */

PORT_FN uint32_t type_float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

PORT_FN float type_bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* condition ? yes : no, without a branch. */
PORT_FN uint32_t type_select(int condition, uint32_t yes, uint32_t no) {
    uint32_t mask = 0u - (uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

#define TYPE_HALF_INFINITY 0x7c00u
#define TYPE_HALF_MIN_NORMAL 0x400u
#define TYPE_FLOAT_INFINITY 0x7f800000u
#define TYPE_FLOAT_QUIET 0x00400000u
#define TYPE_HALF_BIAS_STEP (112u << 23) /* difference of the biases, at the place of float32's exponent */

PORT_FN float type_load_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = half & 0x7fffu;
    uint32_t normal = (magnitude << 13) + TYPE_HALF_BIAS_STEP;
    uint32_t subnormal = type_float_bits((float)(int32_t)magnitude * 0x1p-24f); /* exact */
    uint32_t special = (magnitude << 13) | TYPE_FLOAT_INFINITY;
    special |= type_select(magnitude > TYPE_HALF_INFINITY, TYPE_FLOAT_QUIET, 0);
    uint32_t finite = type_select(magnitude < TYPE_HALF_MIN_NORMAL, subnormal, normal);
    return type_bits_float(sign | type_select(magnitude >= TYPE_HALF_INFINITY, special, finite));
}

PORT_FN uint16_t type_store_half(float value) {
    const uint32_t min_normal = 0x38800000u; /* 2^-14 */
    const uint32_t overflow = 0x477ff000u;   /* 65520: from here on the nearest half is infinity */
    uint32_t bits = type_float_bits(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - TYPE_HALF_BIAS_STEP + 0xfffu + ((magnitude >> 13) & 1)) >> 13;
    /* One unit in the last place of 0.5 is the smallest subnormal half: the addition rounds. */
    uint32_t subnormal = type_float_bits(type_bits_float(magnitude) + 0.5f) - type_float_bits(0.5f);
    uint32_t nan = TYPE_HALF_INFINITY | 0x200u | ((magnitude >> 13) & 0x3ffu);
    uint32_t special = type_select(magnitude > TYPE_FLOAT_INFINITY, nan, TYPE_HALF_INFINITY);
    uint32_t finite = type_select(magnitude < min_normal, subnormal, normal);
    return (uint16_t)(sign | type_select(magnitude >= overflow, special, finite));
}

PORT_FN float type_load_bfloat16(uint16_t upper) { return type_bits_float((uint32_t)upper << 16); }

PORT_FN uint16_t type_store_bfloat16(float value) {
    uint32_t bits = type_float_bits(value);
    uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1);
    uint32_t nan = bits | TYPE_FLOAT_QUIET;
    return (uint16_t)((value != value ? nan : rounded) >> 16);
}

#endif
