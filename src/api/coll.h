/* SPDX-License-Identifier: Apache-2.0
 *
 * What the functions of collet.h that make calls have in common.
 */
#ifndef COLLET_API_COLL_H
#define COLLET_API_COLL_H

#include "api/comm.h"

/* Checks everything in a request but its buffers. Replaces an operator that the program created. *block_bytes: bytes of one block. */
enum collet_result coll_check(struct collet_comm *comm, struct exec_request *request, const void *stream,
                              size_t *block_bytes);

/* The call of collet.h that the request describes. */
enum collet_result coll_call(struct exec_request *request, const void *in, void *out, struct collet_comm *comm,
                             void *stream);

/* After a refused call: keeps the error text in the communicator, and makes an open group fail. Returns result. */
enum collet_result coll_refuse(struct collet_comm *comm, enum collet_result result);

/* Sets INVALID_ARGUMENT: no operator has this number. */
enum collet_result coll_err_no_op(enum collet_op op);

void coll_log(const struct collet_comm *comm, const struct exec_request *request);

/* The plan that this call would get. Blocks while another thread is in a call on comm. */
enum collet_result comm_choose(struct collet_comm *comm, const struct exec_request *request,
                               struct plan_choice *choice);

#endif
