/* SPDX-License-Identifier: Apache-2.0
 *
 * Common parts of the functions of collet.h that make calls.
 */
#ifndef COLLET_API_COLL_H
#define COLLET_API_COLL_H

#include "api/comm.h"

/* Checks all of a request except its buffers. If the request names an operator that the program created, the request gets
 * COLLET_PREMULSUM and the operator's factor instead. *block_bytes becomes the number of bytes of one block. */
enum collet_result coll_check(struct collet_comm *comm, struct exec_request *request, const void *stream,
                              size_t *block_bytes);

/* Makes the call of collet.h that the request describes: checks the request and the buffers, then runs the call, or adds it to the open
 * group. */
enum collet_result coll_call(const struct exec_request *request, const void *in, void *out, struct collet_comm *comm,
                             void *stream);

/* Every call of collet.h that is refused ends here: the communicator keeps the error text, and an open group fails. Returns result. */
enum collet_result coll_refuse(struct collet_comm *comm, enum collet_result result);

/* Returns INVALID_ARGUMENT. The error text says that no operator of the communicator has this number. */
enum collet_result coll_err_no_op(enum collet_op op);

void coll_log(const struct collet_comm *comm, const struct exec_request *request);

/* The plan that this call would get. Blocks while another thread is in a call on comm. */
enum collet_result comm_choose(struct collet_comm *comm, const struct exec_request *request,
                               struct plan_choice *choice);

#endif
