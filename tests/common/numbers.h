/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs and expected results. An element is a pure function of (seed, rank, index), so any rank can compute what all
 * others put in. The reference is computed in 64-bit integers or long double. It shares the
 * table of types with the library, and no code.
 *
 * Elements that are only moved have random bits. Of those that are reduced, integers have random bits too (sums wrap);
 * of floating-point ones half are small whole numbers, whose result must be exact, and half are random fractions, whose
 * result may differ from the reference by one rounding an operation.
 */
#ifndef COLLET_TESTS_NUMBERS_H
#define COLLET_TESTS_NUMBERS_H

#include "base/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t numbers_hash(uint64_t seed, uint64_t rank, uint64_t index);

/* Any bits: elements first … first+count−1 of a rank, to be moved. */
void numbers_fill(void *to, enum collet_type type, uint64_t seed, int rank, size_t first, size_t count);
/* The scalar of a rank, where op is COLLET_PREMULSUM: one element. */
void numbers_scalar(void *to, enum collet_type type, int rank);
/* Elements to be reduced by op. */
void numbers_fill_operands(void *to, enum collet_type type, enum collet_op op, uint64_t seed, int rank, size_t first,
                           size_t count);

/* Do `count` elements at `from` equal elements first … of a rank? If not, *why names the first that does not. */
#define NUMBERS_WHY_BYTES 256
bool numbers_moved(const void *from, enum collet_type type, uint64_t seed, int rank, size_t first, size_t count,
                   char why[NUMBERS_WHY_BYTES]);
/* Are they the reduction of all ranks' operands first …? */
bool numbers_reduced(const void *from, enum collet_type type, enum collet_op op, int nranks, uint64_t seed,
                     size_t first, size_t count, char why[NUMBERS_WHY_BYTES]);

/* For comparing results across ranks. */
uint64_t numbers_digest(const void *data, size_t bytes);

/* The value of a floating-point type's bits, and the bits nearest to a value: to even from a tie. */
long double numbers_decode(const struct type_format *format, uint64_t bits);
uint64_t numbers_encode(const struct type_format *format, long double value);

/* The value of an integer type's bits, and what an operator makes of two: wide enough for the product of any. */
__int128 numbers_integer(const struct type_format *format, uint64_t bits);
__int128 numbers_integer_op(enum collet_op op, __int128 a, __int128 b);

#endif
