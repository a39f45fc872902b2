/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers that a call reads and writes at the same time.
 */
#ifndef COLLET_API_OVERLAP_H
#define COLLET_API_OVERLAP_H

#include "base/err.h"
#include "exec/exec.h"

/* INVALID_ARGUMENT, with both ranges, if the buffers overlap and do not lie as the collective's calls in place do. A buffer
 * that this rank does not use is NULL. */
enum collet_result overlap_check(const struct exec_request *request, int rank, int nranks, const void *sendbuff,
                                 const void *recvbuff);

#endif
