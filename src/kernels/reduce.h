/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of one element, shared by host and device. The loops around it are not shared (reduce_variant.c on the
 * host, block_reduce.cuh on GPUs).
 *
 *    stored element ──type_load_<type>──▶ accumulator ──reduce_<op>_<type>──▶ … ──reduce_divide_<type>──▶
 *                                                                 ──type_store_<type>──▶ stored element
 *
 * For most types element and accumulator are the same type, and loading or storing changes nothing (base/types.h). Integers wrap
 * around: their sums and products are computed in an unsigned type. MIN and MAX prefer a number to a NaN, and −0 is below +0. So
 * their results, too, have the same bits whichever operand comes first. Only if both operands are NaNs, the machine chooses which
 * of the two the result is.
 */
#ifndef COLLET_KERNELS_REDUCE_H
#define COLLET_KERNELS_REDUCE_H

#include "base/types.h"
#include "fifo/port.h"

/* Does MIN or MAX choose its first operand a? b != b is true if b is a NaN; comparisons with a NaN are false. sign: for two equal zeros,
 * does the sign of a win? The code has no branches, so loops vectorise. */
PORT_FN int reduce_takes(int better, int b_is_nan, int equal, int sign) { return better | b_is_nan | (equal & sign); }

#define REDUCE_SUM(a, b, wrap, is_real) ((wrap)(a) + (wrap)(b))
#define REDUCE_PROD(a, b, wrap, is_real) ((wrap)(a) * (wrap)(b))
#define REDUCE_MIN(a, b, wrap, is_real)                                                                                \
    (reduce_takes((a) < (b), (b) != (b), (a) == (b), is_real && reduce_negative(a)) ? (a) : (b))
#define REDUCE_MAX(a, b, wrap, is_real)                                                                                \
    (reduce_takes((a) > (b), (b) != (b), (a) == (b), is_real && !reduce_negative(a)) ? (a) : (b))
#define REDUCE_BAND(a, b, wrap, is_real) ((wrap)(a) & (wrap)(b))
#define REDUCE_BOR(a, b, wrap, is_real) ((wrap)(a) | (wrap)(b))
#define REDUCE_BXOR(a, b, wrap, is_real) ((wrap)(a) ^ (wrap)(b))
#define REDUCE_AVG REDUCE_SUM       /* reduce_divide_<type> divides at the end */
#define REDUCE_PREMULSUM REDUCE_SUM /* reduce_multiply_<type> has multiplied the operands before */

/* Is the sign bit set? (Conversion to float keeps the sign of every accumulator type.) */
PORT_FN int reduce_negative(float value) { return (int32_t)type_float_bits(value) < 0; }

#define REDUCE_DEFINE(ENUM, type, kind, element, accumulator, wrap, divisor, alike, fraction_bits, largest,            \
                      conversion, OP, op, types)                                                                       \
    TYPE_IF_##types##_##kind(REDUCE_FUNCTION, TYPE_NOTHING)(type, accumulator, wrap, (fraction_bits) > 0, OP, op)
#define REDUCE_FUNCTION(type, accumulator, wrap, is_real, OP, op)                                                      \
    PORT_FN accumulator reduce_##op##_##type(accumulator a, accumulator b) {                                           \
        return (accumulator)REDUCE_##OP(a, b, wrap, is_real);                                                          \
    }
#define REDUCE_DEFINE_FOR_TYPES(OP, op, runs, kernel, types, sign) COLLET_TYPES(REDUCE_DEFINE, OP, op, types)
COLLET_OPS(REDUCE_DEFINE_FOR_TYPES)

/* An average multiplies its elements by 2^-shift when they are read, and divides at the end. reduce_rest: the divisor that remains for the
 * end. reduce_divide: the final division. */
#define REDUCE_DEFINE_DIVIDE(ENUM, type, kind, element, accumulator, wrap, divisor_type, alike, fraction_bits, ...)    \
    PORT_FN divisor_type reduce_rest_##type(uint32_t nranks) {                                                         \
        uint32_t shift = type_average_shift(TYPE_EXPONENT_BITS(element, fraction_bits), nranks);                       \
        return (divisor_type)nranks / (divisor_type)(1u << shift);                                                     \
    }                                                                                                                  \
    PORT_FN accumulator reduce_divide_##type(accumulator sum, divisor_type rest) { return (accumulator)(sum / rest); }
COLLET_TYPES(REDUCE_DEFINE_DIVIDE, )

/* Multiplies an element by a factor. The product is rounded to the element's type, so every rank gets the same bits. */
#define REDUCE_DEFINE_MULTIPLY(ENUM, type, kind, element, accumulator, wrap, divisor, alike, fraction_bits, largest,   \
                               conversion, ...)                                                                        \
    PORT_FN element reduce_multiply_##type(element e, element factor) {                                                \
        accumulator product =                                                                                          \
            reduce_prod_##type(TYPE_LOAD_##conversion(type, e), TYPE_LOAD_##conversion(type, factor));                 \
        return TYPE_STORE_##conversion(type, product);                                                                 \
    }
COLLET_TYPES(REDUCE_DEFINE_MULTIPLY, )

#endif
