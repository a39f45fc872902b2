/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers that a call reads and writes at the same time.
 */
#ifndef COLLET_API_OVERLAP_H
#define COLLET_API_OVERLAP_H

#include "base/err.h"
#include "program/program.h"

#include <stdint.h>

struct overlap_range {
    uintptr_t begin, end;
};

/* The addresses of a buffer whose blocks have block_bytes. */
static inline struct overlap_range overlap_range_of(const void *buffer, enum prog_layout layout, size_t block_bytes,
                                                    int nranks) {
    const uintptr_t begin = (uintptr_t)buffer;
    const size_t blocks = layout == PROG_PER_RANK ? (size_t)nranks : 1;
    return (struct overlap_range){begin, begin + blocks * block_bytes};
}

/* INVALID_ARGUMENT, with both ranges: they overlap, but not as the collective's in-place rule says. own_block: offset of this rank's
 * block in the buffer with one block per rank. */
enum collet_result overlap_check(enum prog_collective collective, struct overlap_range in, struct overlap_range out,
                                 size_t own_block);

#endif
