/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter: runs one worker of a program, one step at a time.
 *
 *        ┌─ BUSY: some operand or credit is not there yet; nothing has happened, try again
 *   try ─┼─ STEPPED: one step is done
 *        └─ DONE: all steps of all rounds are
 *
 *   one step:  ready?  ──▶  gather operands  ──▶  reduce into places  ──▶  release what was read, publish what was sent
 *
 * A worker's whole state is (round, pc) and, for LL, how many operands have been unpacked; blocking, yielding and single
 * stepping are the caller's choice. The two protocols answer the same four questions (proto_simple.h, proto_ll.h).
 * Includers provide interp_reduce(); on the host it is exec_host.c.
 * Read next: proto_simple.h, proto_ll.h, exec_host.c.
 */
#ifndef COLLET_KERNELS_INTERP_H
#define COLLET_KERNELS_INTERP_H

#include "kernels/proto_ll.h"
#include "kernels/proto_simple.h"
#include "kernels/worker.h"

/* Provided by the executor: reduces w->src[0 … nsrc−1] into w->dst[0 … ndst−1]. */
PORT_FN void interp_reduce(struct interp_worker *w, const struct prog_step *step, int ndst, int nsrc, uint64_t count);

PORT_FN const char *interp_local(const struct interp_op *op, const struct prog_step *step, uint64_t round) {
    const char *region = step->local_region == STEP_IN ? op->in : op->out;
    return region + geometry_piece(&op->geometry, (uint32_t)step->local_chunk, round).first * op->elem_bytes;
}

PORT_FN char *interp_store(const struct interp_op *op, const struct prog_step *step, uint64_t round) {
    return op->out + geometry_piece(&op->geometry, (uint32_t)step->store_chunk, round).first * op->elem_bytes;
}

/* The length of a step: that of the block it stores, else of its local operand. The other end has the same. */
PORT_FN uint64_t interp_count(const struct interp_op *op, const struct prog_step *step, uint64_t round) {
    int32_t chunk = step->store_region != STEP_NONE ? step->store_chunk : step->local_chunk;
    return geometry_piece(&op->geometry, (uint32_t)chunk, round).count;
}

/* Lists the operands in their order; returns how many. */
PORT_FN int interp_gather(struct interp_worker *w, const struct prog_step *step) {
    const struct interp_op *op = w->op;
    int n = 0;
    for (int k = 0; k <= step->recv_count; k++) {
        if (step->local_region != STEP_NONE && k == step->local_at)
            w->src[n++] = interp_local(op, step, w->round);
        if (k < step->recv_count)
            w->src[n++] = op->protocol == INTERP_SIMPLE ? simple_operand(op->recv_ends[step->recv_first + k])
                                                        : ll_operand(w, k);
    }
    return n;
}

/* Lists the places to reduce into; returns how many. The local store comes first. LL and LL128 pack their
 * lines from a result that is somewhere: stored, in scratch, or, where an operand is passed on as it is, that operand. */
PORT_FN int interp_scatter(struct interp_worker *w, const struct prog_step *step, int nsrc) {
    const struct interp_op *op = w->op;
    int n = 0;
    if (step->store_region != STEP_NONE)
        w->dst[n++] = interp_store(op, step, w->round);
    if (op->protocol == INTERP_SIMPLE) {
        for (int k = 0; k < step->send_count; k++)
            w->dst[n++] = simple_place(op->send_ends[step->send_first + k]);
        return n;
    }
    int changed = nsrc > 1 || (step->finish && op->divisor > 1);
    if (n == 0 && changed)
        w->dst[n++] = ll_result(w, step);
    w->result = n > 0 ? w->dst[0] : w->src[0];
    return n;
}

PORT_FN enum interp_result interp_advance(struct interp_worker *w) {
    w->unpacked = 0;
    if (++w->pc < w->nsteps)
        return INTERP_STEPPED;
    w->pc = 0;
    return ++w->round < w->op->geometry.nrounds ? INTERP_STEPPED : INTERP_DONE;
}

PORT_FN enum interp_result interp_try_step(struct interp_worker *w) {
    const struct interp_op *op = w->op;
    const struct prog_step *step = &op->steps[w->first_step + w->pc];
    uint64_t count = interp_count(op, step, w->round);
    uint32_t bytes = (uint32_t)(count * op->elem_bytes);
    if (count == 0 && !op->keep_empty)
        return interp_advance(w);

    enum interp_result ready =
        op->protocol == INTERP_SIMPLE ? simple_ready(w, step, bytes) : ll_ready(w, step, bytes);
    if (ready != INTERP_STEPPED)
        return ready;

    int nsrc = interp_gather(w, step);
    int ndst = interp_scatter(w, step, nsrc);
    if (count > 0 && ndst > 0)
        interp_reduce(w, step, ndst, nsrc, count);

    if (op->protocol == INTERP_SIMPLE)
        simple_done(w, step, bytes);
    else
        ll_done(w, step, bytes);
    return interp_advance(w);
}

#endif
