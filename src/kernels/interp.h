/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter: runs one worker of a program, one step at a time.
 *
 *        ┌─ BUSY: some operand or credit is not there yet; nothing has happened, try again
 *   try ─┼─ STEPPED: one step is done
 *        └─ DONE: all steps of all rounds are
 *
 *   one step:  ready?  ──▶  gather operands  ──▶  reduce into places  ──▶  release what was read, publish what was sent
 *                                   ▲── the next piece ──╯
 *
 * A worker's whole state is (round, pc) and, for LL and LL128, how many operands have been unpacked; blocking, yielding and
 * single stepping are the caller's choice. Simple on the one hand, LL and LL128 on the other answer the same four questions
 * (proto_simple.h, proto_ll.h). Includers provide interp_reduce(); on the host it is exec_host.c.
 * A GPU's blocks run the same steps with waits inside: block.cuh.
 * Read next: operands.h, proto_simple.h, proto_ll.h, exec_host.c.
 */
#ifndef COLLET_KERNELS_INTERP_H
#define COLLET_KERNELS_INTERP_H

#include "kernels/operands.h"

/* Provided by the executor: reduces w->src[0 … nsrc−1] into w->dst[0 … ndst−1]. */
PORT_FN void interp_reduce(struct interp_worker *w, const struct prog_step *step, int ndst, int nsrc, uint64_t count);

PORT_FN enum interp_result interp_advance(struct interp_worker *w) {
    w->unpacked = 0;
    if (++w->pc < w->nsteps)
        return INTERP_STEPPED;
    w->pc = 0;
    return ++w->round < w->op->geometry.nrounds ? INTERP_STEPPED : INTERP_DONE;
}

/* The pieces of a run behind the first. */
PORT_FN void interp_other_pieces(struct interp_worker *w, const struct prog_step *step, int ndst, int nsrc,
                                 const struct interp_piece *first) {
    struct interp_piece piece = *first;
    for (int i = 1; i < step->count; i++) {
        uint32_t padded = interp_padded(w->op, &piece);
        piece = interp_piece_of(w->op, step, i, w->round);
        interp_next(w, step, i, padded, nsrc, ndst, &piece);
        if (piece.elems.count > 0 && ndst > 0)
            interp_reduce(w, step, ndst, nsrc, piece.elems.count);
    }
}

PORT_FN enum interp_result interp_try_step(struct interp_worker *w) {
    const struct interp_op *op = w->op;
    const struct prog_step *step = &op->steps[w->first_step + w->pc];
    struct interp_piece piece = interp_piece_of(op, step, 0, w->round);
    uint32_t bytes = interp_payload(op, step, w->round, &piece);
    if (bytes == 0 && !op->keep_empty)
        return interp_advance(w);

    enum interp_result ready =
        op->protocol == PROTOCOL_SIMPLE ? simple_ready(w, step, bytes) : ll_ready(w, step, bytes);
    if (ready != INTERP_STEPPED)
        return ready;

    int nsrc = interp_gather(w, step, bytes, &piece);
    int ndst = interp_scatter(w, step, bytes, nsrc, &piece);
    if (piece.elems.count > 0 && ndst > 0)
        interp_reduce(w, step, ndst, nsrc, piece.elems.count);
    if (step->count > 1)
        interp_other_pieces(w, step, ndst, nsrc, &piece);

    if (op->protocol == PROTOCOL_SIMPLE)
        simple_done(w, step, bytes);
    else
        ll_done(w, step, bytes);
    return interp_advance(w);
}

#endif
