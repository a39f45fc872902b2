/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators of calls: those of enum collet_op, and those that were created on a communicator.
 */
#ifndef COLLET_LAYERS_VECTORS_OP_H
#define COLLET_LAYERS_VECTORS_OP_H

#include "api/comm.h"

/* Checks the operator of a request whose type is valid. One that was created is replaced by COLLET_PREMULSUM and its factor;
 * an average gets a factor if its type needs one. INVALID_ARGUMENT names what is wrong. */
enum collet_result op_resolve_rare(const struct collet_comm *comm, struct exec_request *request);
static inline enum collet_result op_resolve(const struct collet_comm *comm, struct exec_request *request) {
    return (unsigned)request->op < COLLET_AVG ? COLLET_SUCCESS
                                              : op_resolve_rare(comm, request); /* any type has these */
}

/* The end of a communicator ends its operators. */
void op_destroy_all(struct collet_comm *comm);

#endif
