/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that share a kernel.
 */
#ifndef COLLET_LAYERS_GPU_MIRROR_H
#define COLLET_LAYERS_GPU_MIRROR_H

#include "base/types.h"

/* Kernels take minutes to compile, so a kernel serves several operators and types. It turns some bits of each operand, and
 * turns them back in the result:
 *
 *    a | b = ~(~a & ~b)        max(a, b) = ~min(~a, ~b)        of reals: max(a, b) = −min(−a, −b)
 *
 * Signed integers, with the highest bit turned, have the order of unsigned ones. Returns the bits that a GPU turns
 * in elements of this type, repeated to fill 8 bytes. The operator and the type are valid. */
uint64_t type_mirror(enum collet_op op, enum collet_type type);

#endif
