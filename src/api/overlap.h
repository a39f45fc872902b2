/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers that a call reads and writes at the same time.
 */
#ifndef COLLET_API_OVERLAP_H
#define COLLET_API_OVERLAP_H

#include "base/err.h"
#include "program/program.h"

/* INVALID_ARGUMENT, with both ranges, if buffers of blocks of block_bytes > 0 overlap and do not lie as the collective's calls in
 * place do. */
enum collet_result overlap_check(enum prog_collective collective, size_t block_bytes, int rank, int nranks,
                                 const void *sendbuff, const void *recvbuff);

#endif
