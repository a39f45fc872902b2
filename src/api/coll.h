/* SPDX-License-Identifier: Apache-2.0
 *
 * What the functions of collet.h that make calls have in common.
 */
#ifndef COLLET_API_COLL_H
#define COLLET_API_COLL_H

#include "api/comm.h"

/* Checks all of a request but its buffers; an operator that was created becomes what it is. *block_bytes: of a block. */
enum collet_result coll_check(struct collet_comm *comm, struct exec_request *request, const void *stream,
                              size_t *block_bytes);

/* The call of collet.h that the request says. */
enum collet_result coll_call(struct exec_request *request, const void *in, void *out, struct collet_comm *comm,
                             void *stream);

/* What a refused call leaves behind: its text in the communicator, and an open group that will not run. Returns result. */
enum collet_result coll_refuse(struct collet_comm *comm, enum collet_result result);

/* INVALID_ARGUMENT: no operator has this number. */
enum collet_result coll_err_no_op(enum collet_op op);

void coll_log(const struct collet_comm *comm, const struct exec_request *request);

#endif
