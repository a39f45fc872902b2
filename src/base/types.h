/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of element types and reduction operators. Everything that depends on them is generated from these lists:
 * a new type or operator is one line here and its arithmetic in kernels/reduce.h.
 */
#ifndef COLLET_BASE_TYPES_H
#define COLLET_BASE_TYPES_H

#include "collet.h"

/* X(ENUM suffix, name in tools and logs, storage type, accumulator type) */
#define COLLET_TYPES(X)                                                                                                \
    X(FLOAT32, float, float, float)                                                                                    \
    X(FLOAT64, double, double, double)                                                                                 \
    X(INT32, int32, int32_t, int32_t)                                                                                  \
    X(INT64, int64, int64_t, int64_t)                                                                                  \
    X(UINT8, uint8, uint8_t, uint8_t)                                                                                  \
    X(FLOAT16, half, uint16_t, float)                                                                                  \
    X(BFLOAT16, bfloat16, uint16_t, float)

/* X(ENUM suffix, name) */
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

#endif
