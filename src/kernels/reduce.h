/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of one element, shared by host and device: how a type is loaded into its accumulator, combined,
 * divided and stored again. The loops around it are not shared (reduce_variant.c on the host).
 *
 *    stored element ──reduce_load_<type>──▶ accumulator ──reduce_<op>_<type>──▶ … ──reduce_divide_<type>──▶
 *                                                                     ──reduce_store_<type>──▶ stored element
 *
 * For most types element and accumulator are the same; float16 and bfloat16 accumulate in float32. Integers wrap: their
 * sums and products are taken in an unsigned type. MIN and MAX pass a NaN on. Only when two NaNs meet in a sum or
 * product does the machine choose which of the two payloads survives.
 */
#ifndef COLLET_KERNELS_REDUCE_H
#define COLLET_KERNELS_REDUCE_H

#include "base/types.h"
#include "fifo/port.h"

#include <string.h>

PORT_FN uint32_t reduce_float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

PORT_FN float reduce_bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* condition ? yes : no without a branch, which would keep floating-point operations behind it and loops scalar. */
PORT_FN uint32_t reduce_select(int condition, uint32_t yes, uint32_t no) {
    uint32_t mask = 0u - (uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

/* ----------------------------------------------------------------------------------- 16-bit floats to float32 and back
 *
 *    float32    s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm     exponent bias 127
 *    float16    s    eeeee mmmmmmmmmm                  exponent bias 15
 *    bfloat16   s eeeeeeee mmmmmmm                     the upper half of a float32
 *
 * Written without branches, so that loops over them vectorise. Stores round to nearest, ties to even; a NaN keeps the
 * upper part of its payload and becomes quiet, exactly as the conversion instructions of x86 and Arm do it. */

#define REDUCE_HALF_INFINITY 0x7c00u
#define REDUCE_HALF_MIN_NORMAL 0x400u
#define REDUCE_FLOAT_INFINITY 0x7f800000u
#define REDUCE_FLOAT_QUIET 0x00400000u
#define REDUCE_BIAS_STEP (112u << 23) /* difference of the biases, at the place of float32's exponent */

PORT_FN float reduce_load_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = half & 0x7fffu;
    uint32_t normal = (magnitude << 13) + REDUCE_BIAS_STEP;
    uint32_t subnormal = reduce_float_bits((float)(int32_t)magnitude * 0x1p-24f); /* exact */
    uint32_t special = (magnitude << 13) | REDUCE_FLOAT_INFINITY;
    special |= reduce_select(magnitude > REDUCE_HALF_INFINITY, REDUCE_FLOAT_QUIET, 0);
    uint32_t finite = reduce_select(magnitude < REDUCE_HALF_MIN_NORMAL, subnormal, normal);
    return reduce_bits_float(sign | reduce_select(magnitude >= REDUCE_HALF_INFINITY, special, finite));
}

PORT_FN uint16_t reduce_store_half(float value) {
    const uint32_t min_normal = 0x38800000u; /* 2^-14 */
    const uint32_t overflow = 0x477ff000u;   /* 65520: from here on the nearest half is infinity */
    uint32_t bits = reduce_float_bits(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - REDUCE_BIAS_STEP + 0xfffu + ((magnitude >> 13) & 1)) >> 13;
    /* One unit in the last place of 0.5 is the smallest subnormal half: the addition rounds. */
    uint32_t subnormal = reduce_float_bits(reduce_bits_float(magnitude) + 0.5f) - reduce_float_bits(0.5f);
    uint32_t nan = REDUCE_HALF_INFINITY | 0x200u | ((magnitude >> 13) & 0x3ffu);
    uint32_t special = reduce_select(magnitude > REDUCE_FLOAT_INFINITY, nan, REDUCE_HALF_INFINITY);
    uint32_t finite = reduce_select(magnitude < min_normal, subnormal, normal);
    return (uint16_t)(sign | reduce_select(magnitude >= overflow, special, finite));
}

PORT_FN float reduce_load_bfloat16(uint16_t upper) { return reduce_bits_float((uint32_t)upper << 16); }

PORT_FN uint16_t reduce_store_bfloat16(float value) {
    uint32_t bits = reduce_float_bits(value);
    uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1);
    uint32_t nan = bits | REDUCE_FLOAT_QUIET;
    return (uint16_t)((value != value ? nan : rounded) >> 16);
}

/* ----------------------------------------------------------------------------------------------------------- operators
 *
 * Two properties of each type: the type in which its sums and products are taken, and what a divisor is converted to. */

#define REDUCE_WRAP_FLOAT32 float
#define REDUCE_WRAP_FLOAT64 double
#define REDUCE_WRAP_INT32 uint32_t
#define REDUCE_WRAP_INT64 uint64_t
#define REDUCE_WRAP_UINT8 uint32_t
#define REDUCE_WRAP_FLOAT16 float
#define REDUCE_WRAP_BFLOAT16 float

#define REDUCE_DIVISOR_FLOAT32 float
#define REDUCE_DIVISOR_FLOAT64 double
#define REDUCE_DIVISOR_INT32 int32_t
#define REDUCE_DIVISOR_INT64 int64_t
#define REDUCE_DIVISOR_UINT8 uint32_t
#define REDUCE_DIVISOR_FLOAT16 float
#define REDUCE_DIVISOR_BFLOAT16 float

#define REDUCE_DEFINE_SUM(TYPE, type, storage, accumulator)                                                            \
    PORT_FN accumulator reduce_sum_##type(accumulator a, accumulator b) {                                              \
        return (accumulator)((REDUCE_WRAP_##TYPE)a + (REDUCE_WRAP_##TYPE)b);                                           \
    }

#define REDUCE_DEFINE_PROD(TYPE, type, storage, accumulator)                                                           \
    PORT_FN accumulator reduce_prod_##type(accumulator a, accumulator b) {                                             \
        return (accumulator)((REDUCE_WRAP_##TYPE)a * (REDUCE_WRAP_##TYPE)b);                                           \
    }

/* a != a: a is a NaN. A NaN in b wins because no comparison with it is true. */
#define REDUCE_DEFINE_MIN(TYPE, type, storage, accumulator)                                                            \
    PORT_FN accumulator reduce_min_##type(accumulator a, accumulator b) { return ((a < b) | (a != a)) ? a : b; }

#define REDUCE_DEFINE_MAX(TYPE, type, storage, accumulator)                                                            \
    PORT_FN accumulator reduce_max_##type(accumulator a, accumulator b) { return ((a > b) | (a != a)) ? a : b; }

/* An average is a sum until reduce_divide_<type> ends it. */
#define REDUCE_DEFINE_AVG(TYPE, type, storage, accumulator)                                                            \
    PORT_FN accumulator reduce_divide_##type(accumulator sum, uint32_t divisor) {                                      \
        return (accumulator)(sum / (REDUCE_DIVISOR_##TYPE)divisor);                                                    \
    }

#define REDUCE_DEFINE(OP, op) COLLET_TYPES(REDUCE_DEFINE_##OP)
COLLET_OPS(REDUCE_DEFINE)

#endif
