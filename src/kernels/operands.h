/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step reads and writes, as addresses: its operands in their order, its places. Host and device executors ask here.
 */
#ifndef COLLET_KERNELS_OPERANDS_H
#define COLLET_KERNELS_OPERANDS_H

#include "kernels/proto_ll.h"
#include "kernels/proto_simple.h"
#include "kernels/worker.h"

PORT_FN const char *interp_local(const struct interp_op *op, const struct prog_step *step, uint64_t round) {
    const struct prog_local *local = &op->locals[step->locals_first];
    const char *region = local->region == STEP_IN ? op->in : op->out;
    return region + geometry_piece(&op->geometry, (uint32_t)local->run.first, round).first * op->elem_bytes;
}

PORT_FN char *interp_store(const struct interp_op *op, const struct prog_step *step, uint64_t round) {
    return op->out + geometry_piece(&op->geometry, (uint32_t)step->store.first, round).first * op->elem_bytes;
}

/* The length of a step: that of the block it is about. The other end has the same. */
PORT_FN uint64_t interp_count(const struct interp_op *op, const struct prog_step *step, uint64_t round) {
    return geometry_piece(&op->geometry, (uint32_t)step->about.first, round).count;
}

/* Lists the operands of a step of so many bytes in their order; returns how many. */
PORT_FN int interp_gather(struct interp_worker *w, const struct prog_step *step, uint32_t bytes) {
    const struct interp_op *op = w->op;
    int n = 0;
    for (int k = 0; k <= step->recv_count; k++) {
        if (step->locals_count > 0 && k == op->locals[step->locals_first].at)
            w->src[n++] = interp_local(op, step, w->round);
        if (k < step->recv_count)
            w->src[n++] = op->protocol == PROTOCOL_SIMPLE ? simple_operand(op->recv_ends[step->recv_first + k], bytes)
                                                          : ll_operand(w, k);
    }
    return n;
}

/* Lists the places to reduce so many bytes into; returns how many. The local store comes first. LL and LL128 pack their
 * lines from a result that is somewhere: stored, in scratch, or, where an operand is passed on as it is, that operand. */
PORT_FN int interp_scatter(struct interp_worker *w, const struct prog_step *step, uint32_t bytes, int nsrc) {
    const struct interp_op *op = w->op;
    int n = 0;
    if (step->store_region != STEP_NONE)
        w->dst[n++] = interp_store(op, step, w->round);
    if (op->protocol == PROTOCOL_SIMPLE) {
        for (int k = 0; k < step->send_count; k++)
            w->dst[n++] = simple_place(op->send_ends[step->send_first + k], bytes);
        return n;
    }
    int changed = nsrc > 1 || (step->finish && op->divisor > 1);
    if (n == 0 && changed)
        w->dst[n++] = ll_result(w, step);
    w->result = n > 0 ? w->dst[0] : w->src[0];
    return n;
}

#endif
