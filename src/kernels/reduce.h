/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of one element, shared by host and device. The loops around it are not shared (reduce_variant.c on the
 * host, block_reduce.cuh on GPUs).
 *
 *    stored element ──type_load_<type>──▶ accumulator ──reduce_<op>_<type>──▶ … ──reduce_divide_<type>──▶
 *                                                                 ──type_store_<type>──▶ stored element
 *
 * For most types element and accumulator are the same, and there is nothing to load or store (base/types.h). Integers wrap: their
 * sums and products are taken in an unsigned type. MIN and MAX pass a NaN on. Only when two NaNs meet in a sum or
 * product does the machine choose which of the two payloads survives.
 */
#ifndef COLLET_KERNELS_REDUCE_H
#define COLLET_KERNELS_REDUCE_H

#include "base/types.h"
#include "fifo/port.h"

#define REDUCE_DEFINE_SUM(ENUM, type, element, accumulator, wrap, ...)                                                 \
    PORT_FN accumulator reduce_sum_##type(accumulator a, accumulator b) { return (accumulator)((wrap)a + (wrap)b); }

#define REDUCE_DEFINE_PROD(ENUM, type, element, accumulator, wrap, ...)                                                \
    PORT_FN accumulator reduce_prod_##type(accumulator a, accumulator b) { return (accumulator)((wrap)a * (wrap)b); }

/* a != a: a is a NaN. A NaN in b wins because no comparison with it is true. */
#define REDUCE_DEFINE_MIN(ENUM, type, element, accumulator, ...)                                                       \
    PORT_FN accumulator reduce_min_##type(accumulator a, accumulator b) { return ((a < b) | (a != a)) ? a : b; }

#define REDUCE_DEFINE_MAX(ENUM, type, element, accumulator, ...)                                                       \
    PORT_FN accumulator reduce_max_##type(accumulator a, accumulator b) { return ((a > b) | (a != a)) ? a : b; }

/* An average is a sum until reduce_divide_<type> ends it. */
#define REDUCE_DEFINE_AVG(ENUM, type, element, accumulator, wrap, divisor_type, ...)                                   \
    PORT_FN accumulator reduce_divide_##type(accumulator sum, uint32_t divisor) {                                      \
        return (accumulator)(sum / (divisor_type)divisor);                                                             \
    }

#define REDUCE_DEFINE(OP, op) COLLET_TYPES(REDUCE_DEFINE_##OP)
COLLET_OPS(REDUCE_DEFINE)

#endif
