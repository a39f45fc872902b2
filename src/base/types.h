/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of element types and of reduction operators. Loops on the host, kernels on GPUs, the perf programs' -d and -o
 * and the tests' numbers are generated from these tables. A new type needs an enumerator in collet.h and, in this file, a row and
 * perhaps two conversions. A new operator needs an enumerator, a row, and a formula in kernels/reduce.h.
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

/* X(ENUM, name, kind, element, accumulator, wrap, divisor, alike, fraction_bits, largest, conversion, …), in the order of
 * enum collet_type
 *   ENUM           the type is COLLET_<ENUM>
 *   name           the type's name in tools and logs, as nccl-tests has it
 *   kind           WHOLE numbers or REAL numbers
 *   element        the C type that has the bits of an element in memory
 *   accumulator    the C type to which elements are converted before they are combined
 *   wrap           the C type in which sums and products are computed. For integers it is unsigned, because they wrap around
 *   divisor        the C type to which the number of ranks is converted before a sum is divided by it
 *   alike          name of the type whose code is used if the sign of integers makes no difference
 *   fraction_bits  number of fraction bits of a floating-point type; 0: an integer. One bit is the sign, the rest is the exponent
 *   largest        bits of the largest finite number of a floating-point type. The next magnitude is infinity if its
 *                  fraction is 0, and the type's only NaN otherwise
 *   conversion     how an element becomes an accumulator, and back. Loops over two sources depend on it (reduce_variant.c):
 *                    SAME   element and accumulator are one type
 *                    UPPER  an element is the upper half of an accumulator
 *                    CHIP   CPUs and GPUs have instructions for the conversion (reduce_avx2.h, block_ops.cuh)
 *                    SMALL  only the functions below convert
 *                  All but SAME have type_load_<name>() and type_store_<name>() below.
 *   …              further arguments of COLLET_TYPES, for example an operator */
#define COLLET_TYPES(X, ...)                                                                                           \
    X(FLOAT32, float, REAL, float, float, float, float, float, 23, 0x7f7fffffu, SAME, __VA_ARGS__)                     \
    X(FLOAT64, double, REAL, double, double, double, double, double, 52, 0x7fefffffffffffffu, SAME, __VA_ARGS__)       \
    X(INT32, int32, WHOLE, int32_t, int32_t, uint32_t, int32_t, uint32, 0, 0, SAME, __VA_ARGS__)                       \
    X(INT64, int64, WHOLE, int64_t, int64_t, uint64_t, int64_t, uint64, 0, 0, SAME, __VA_ARGS__)                       \
    X(UINT8, uint8, WHOLE, uint8_t, uint8_t, uint32_t, uint32_t, uint8, 0, 0, SAME, __VA_ARGS__)                       \
    X(FLOAT16, half, REAL, uint16_t, float, float, float, half, 10, 0x7bffu, CHIP, __VA_ARGS__)                        \
    X(BFLOAT16, bfloat16, REAL, uint16_t, float, float, float, bfloat16, 7, 0x7f7fu, UPPER, __VA_ARGS__)               \
    X(INT8, int8, WHOLE, int8_t, int8_t, uint32_t, int32_t, uint8, 0, 0, SAME, __VA_ARGS__)                            \
    X(INT16, int16, WHOLE, int16_t, int16_t, uint32_t, int32_t, uint16, 0, 0, SAME, __VA_ARGS__)                       \
    X(UINT16, uint16, WHOLE, uint16_t, uint16_t, uint32_t, uint32_t, uint16, 0, 0, SAME, __VA_ARGS__)                  \
    X(UINT32, uint32, WHOLE, uint32_t, uint32_t, uint32_t, uint32_t, uint32, 0, 0, SAME, __VA_ARGS__)                  \
    X(UINT64, uint64, WHOLE, uint64_t, uint64_t, uint64_t, uint64_t, uint64, 0, 0, SAME, __VA_ARGS__)                  \
    X(FLOAT8_E4M3, f8e4m3, REAL, uint8_t, float, float, float, f8e4m3, 3, 0x7eu, SMALL, __VA_ARGS__)                   \
    X(FLOAT8_E5M2, f8e5m2, REAL, uint8_t, float, float, float, f8e5m2, 2, 0x7bu, SMALL, __VA_ARGS__)

/* X(ENUM, name, runs, kernel, types, sign), in the order of enum collet_op
 *   runs    name of the operator whose code a CPU runs: an average is a sum that is divided at the end, and a pre-multiplied sum
 *           is a sum whose operands are multiplied first
 *   kernel  name of the operator whose code a GPU runs: the operator `runs`, or its mirror (type_mirror)
 *   types   ANY type, or WHOLE numbers only
 *   sign    do signed and unsigned integers of one width share their code? FREE: yes. BOUND: no, because they may be divided.
 *           ORDER: not on CPUs, because they are compared; but on GPUs they are mirrored first, and share it */
#define COLLET_OPS(X)                                                                                                  \
    X(SUM, sum, sum, sum, ANY, BOUND)                                                                                  \
    X(PROD, prod, prod, prod, ANY, FREE)                                                                               \
    X(MIN, min, min, min, ANY, ORDER)                                                                                  \
    X(MAX, max, max, min, ANY, ORDER)                                                                                  \
    X(AVG, avg, sum, sum, ANY, BOUND)                                                                                  \
    X(BAND, band, band, band, WHOLE, FREE)                                                                             \
    X(BOR, bor, bor, band, WHOLE, FREE)                                                                                \
    X(BXOR, bxor, bxor, bxor, WHOLE, FREE)                                                                             \
    X(PREMULSUM, mulsum, sum, sum, ANY, BOUND)

/* TYPE_IF_<types>_<kind>(X, Y)(…): X(…) for types that an operator takes, Y(…) for the others. */
#define TYPE_IF_ANY_WHOLE(X, Y) X
#define TYPE_IF_ANY_REAL(X, Y) X
#define TYPE_IF_WHOLE_WHOLE(X, Y) X
#define TYPE_IF_WHOLE_REAL(X, Y) Y
#define TYPE_NOTHING(...)

/* The enumerators by type name: TYPE_float is COLLET_FLOAT32, OP_sum is COLLET_SUM. */
#define TYPE_NAMED(ENUM, name, ...) TYPE_##name = COLLET_##ENUM,
#define OP_NAMED(ENUM, name, ...) OP_##name = COLLET_##ENUM,
enum { COLLET_TYPES(TYPE_NAMED, ) COLLET_OPS(OP_NAMED) };

const char *type_name(enum collet_type type); /* "float" …; "?": there is no such type */
const char *op_name(enum collet_op op);

/* Callers of the public API may pass any integer as an enum. */
static inline int type_valid(enum collet_type type) { return (unsigned)type < COLLET_TYPE_COUNT; }
static inline int op_valid(enum collet_op op) { return (unsigned)op < COLLET_OP_COUNT; }
extern const uint8_t type_bytes[COLLET_TYPE_COUNT];
static inline size_t type_size(enum collet_type type) { return type_bytes[type]; } /* The type must be valid */
int op_takes(enum collet_op op, enum collet_type type);                            /* Both must be valid */

/* The format of an element's bits, for code that makes or compares elements one by one. */
struct type_format {
    const char *name;
    enum collet_type type;
    size_t bytes;
    int is_signed;
    int fraction_bits; /* 0: the type is an integer */
    int exponent_bits;
    uint64_t largest;
};
const struct type_format *type_format(enum collet_type type); /* The type must be valid */

/* Number of exponent bits of a type; 0: an integer. */
#define TYPE_EXPONENT_BITS(element, fraction_bits)                                                                     \
    ((fraction_bits) > 0 ? 8 * (int)sizeof(element) - 1 - (fraction_bits) : 0)

/* TYPE_FORMATS initialises an array of these. A type without fraction bits is a signed integer if −1 < 0 in it. */
#define TYPE_FORMAT(ENUM, name, kind, element, accumulator, wrap, divisor, alike, fraction_bits, largest, ...)         \
    {#name,           COLLET_##ENUM,                                                                                   \
     sizeof(element), (fraction_bits) > 0 || (element)-1 < (element)1,                                                 \
     fraction_bits,   TYPE_EXPONENT_BITS(element, fraction_bits),                                                      \
     largest},
#define TYPE_FORMATS COLLET_TYPES(TYPE_FORMAT, )

/* The sum of a few large numbers may overflow a type with a short exponent, although their average does not. So an average first
 * multiplies its elements by 2^-shift, which is about 1/nranks. This is exact for normal numbers. */
PORT_FN uint32_t type_average_shift(int exponent_bits, uint32_t nranks) {
    uint32_t most =
        exponent_bits > 0 && exponent_bits < 8 ? (1u << (exponent_bits - 1)) - 2 : 0; /* 2^-most is a normal number */
    uint32_t shift = 0;
    while (shift < most && 1u << shift < nranks)
        shift++;
    return shift;
}

/* The bits of 2^-shift as an element; 0: shift is 0. */
uint64_t type_average_factor(enum collet_type type, uint32_t nranks);

/* ---------------------------------------------------------------------------------------------------- conversions
 *
 *    float32    s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm     exponent bias 127
 *    bfloat16   s eeeeeeee mmmmmmm                     the upper half of a float32
 *    float16    s    eeeee mmmmmmmmmm                  exponent bias 15
 *    e5m2       s    eeeee mm                          the upper half of a float16
 *    e4m3       s     eeee mmm                         exponent bias 7; no infinity, one NaN
 *
 * The conversions have no branches, so loops over them vectorise. Stores round to nearest, ties to even. A NaN keeps the upper part of
 * its payload and becomes quiet, as with the conversion instructions of x86 and Arm. A number that is too large for a type of 16 bits
 * becomes infinity. In a type of 8 bits it becomes the largest finite number, and so does infinity, as with CUDA's types. */

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

#define TYPE_FLOAT_INFINITY 0x7f800000u
#define TYPE_FLOAT_QUIET 0x00400000u

/* Always inlined: every loop calls these functions with other constants. */
#define TYPE_INLINE PORT_FN __attribute__((always_inline))

/* A small type has fewer exponent bits than float32. If (width, fraction bits, largest) are constants, the compiler computes all that
 * follows from them. */
PORT_FN uint32_t type_small_bias(uint32_t width, uint32_t fraction) { return (1u << (width - fraction - 2)) - 1; }

TYPE_INLINE float type_load_small(uint32_t bits, uint32_t width, uint32_t fraction, uint32_t largest) {
    uint32_t bias = type_small_bias(width, fraction), drop = 23 - fraction, min_normal = 1u << fraction;
    uint32_t sign = bits >> (width - 1) << 31;
    uint32_t magnitude = bits & ((1u << (width - 1)) - 1);
    uint32_t normal = (magnitude << drop) + ((127 - bias) << 23);
    float least = type_bits_float((128 - bias - fraction) << 23);            /* The smallest subnormal number */
    uint32_t subnormal = type_float_bits((float)(int32_t)magnitude * least); /* This product is exact */
    uint32_t special = (magnitude << drop) | TYPE_FLOAT_INFINITY;
    special |= type_select(special != TYPE_FLOAT_INFINITY, TYPE_FLOAT_QUIET, 0);
    uint32_t finite = type_select(magnitude < min_normal, subnormal, normal);
    return type_bits_float(sign | type_select(magnitude > largest, special, finite));
}

/* over: the bits that a number beyond the largest one becomes. */
TYPE_INLINE uint32_t type_store_small(float value, uint32_t width, uint32_t fraction, uint32_t largest, uint32_t over) {
    uint32_t bias = type_small_bias(width, fraction), drop = 23 - fraction, min_normal = (128 - bias) << 23;
    uint32_t bits = type_float_bits(value);
    uint32_t sign = bits >> 31 << (width - 1);
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t half_unit = (1u << (drop - 1)) - 1 + ((magnitude >> drop) & 1); /* Rounds ties to even */
    uint32_t normal = (magnitude - ((127 - bias) << 23) + half_unit) >> drop;
    /* The last place of `unit` is worth the smallest subnormal number. So the addition below rounds to it. */
    uint32_t unit = (151 - bias - fraction) << 23;
    uint32_t subnormal = type_float_bits(type_bits_float(magnitude) + type_bits_float(unit)) - unit;
    uint32_t quiet = (largest + 1) | (1u << (fraction - 1));
    uint32_t nan = quiet | ((magnitude >> drop) & ((1u << fraction) - 1));
    uint32_t rounded = type_select(magnitude < min_normal, subnormal, normal);
    uint32_t number = type_select(rounded > largest, over, rounded);
    return sign | type_select(magnitude > TYPE_FLOAT_INFINITY, nan, number);
}

/* TYPE_LOAD_<conversion> and TYPE_STORE_<conversion> convert a single element. The table names each type's conversion. */
#define TYPE_LOAD_SAME(type, e) (e)
#define TYPE_LOAD_UPPER(type, e) type_load_##type(e)
#define TYPE_LOAD_CHIP TYPE_LOAD_UPPER
#define TYPE_LOAD_SMALL TYPE_LOAD_UPPER
#define TYPE_STORE_SAME(type, e) (e)
#define TYPE_STORE_UPPER(type, e) type_store_##type(e)
#define TYPE_STORE_CHIP TYPE_STORE_UPPER
#define TYPE_STORE_SMALL TYPE_STORE_UPPER

PORT_FN float type_load_half(uint16_t half) { return type_load_small(half, 16, 10, 0x7bff); }
PORT_FN uint16_t type_store_half(float value) { return (uint16_t)type_store_small(value, 16, 10, 0x7bff, 0x7c00); }

PORT_FN float type_load_f8e4m3(uint8_t bits) { return type_load_small(bits, 8, 3, 0x7e); }
PORT_FN uint8_t type_store_f8e4m3(float value) { return (uint8_t)type_store_small(value, 8, 3, 0x7e, 0x7e); }

PORT_FN float type_load_f8e5m2(uint8_t bits) { return type_load_small(bits, 8, 2, 0x7b); }
PORT_FN uint8_t type_store_f8e5m2(float value) { return (uint8_t)type_store_small(value, 8, 2, 0x7b, 0x7b); }

PORT_FN float type_load_bfloat16(uint16_t upper) { return type_bits_float((uint32_t)upper << 16); }

PORT_FN uint16_t type_store_bfloat16(float value) {
    uint32_t bits = type_float_bits(value);
    uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1);
    uint32_t nan = bits | TYPE_FLOAT_QUIET;
    return (uint16_t)((value != value ? nan : rounded) >> 16);
}

#endif
