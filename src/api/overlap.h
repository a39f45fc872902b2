/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers that a call reads and writes at the same time.
 */
#ifndef COLLET_API_OVERLAP_H
#define COLLET_API_OVERLAP_H

#include "base/err.h"
#include "program/program.h"

#include <stdint.h>

/* The addresses of a buffer. */
struct overlap_range {
    uintptr_t begin, end;
};

/* INVALID_ARGUMENT: the buffers overlap, but not as the collective's in-place rule says. The error text has both ranges. own_block: byte
 * offset of this rank's block in the buffer that has one block per rank. */
enum collet_result overlap_check(enum prog_collective collective, struct overlap_range in, struct overlap_range out,
                                 size_t own_block);

#endif
