/* SPDX-License-Identifier: Apache-2.0
 *
 * How to reach the parts of a worker. On a host the worker points to them. In a block of a GPU they lie at fixed places
 * (kernels/cuda/block_own.cuh).
 */
#ifndef COLLET_KERNELS_PORT_H
#define COLLET_KERNELS_PORT_H

#include "kernels/worker.h"

#if !PORT_IN_BLOCK

PORT_FN const struct interp_op *interp_op_of(const struct interp_worker *w) { return w->op; }
PORT_FN const void **interp_src(const struct interp_worker *w) { return w->src; }
PORT_FN void **interp_dst(const struct interp_worker *w) { return w->dst; }

/* The connection ends that belong to an entry of the peer table. */
PORT_FN struct fifo_end *interp_recv_end(const struct interp_op *op, int entry) { return op->recv_ends[entry]; }
PORT_FN struct fifo_end *interp_send_end(const struct interp_op *op, int entry) { return op->send_ends[entry]; }

#endif

#endif
