/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter: runs one worker of a program, one step at a time.
 *
 *        ┌─ BUSY: an operand or a credit is missing; nothing has happened; try again
 *   try ─┼─ STEPPED: one step is done
 *        └─ DONE: all steps of all rounds are done
 *
 *   one step:  ready?  ──▶  gather operands  ──▶  reduce into places  ──▶  publish what was sent, return what was read
 *                                   ▲── the next piece ──╯
 *
 * A worker's whole state is (round, pc), and how many operands of the current step have arrived. If a step is BUSY, the caller chooses
 * whether to wait, to yield the CPU, or to try other workers. The parts of a step are written here once. A GPU's blocks use these
 * parts too, with waits in between (block.cuh), because on a GPU no caller tries again.
 * Read next: operands.h, proto.h, proto_simple.h, exec_host.c.
 */
#ifndef COLLET_KERNELS_INTERP_H
#define COLLET_KERNELS_INTERP_H

#include "kernels/operands.h"

/* ---- parts of a step ---- */

/* Do both ends leave out the messages of a step whose slots carry this many bytes? */
PORT_FN int interp_skips(const struct interp_op *op, uint32_t bytes) { return bytes == 0 && !op->args.keep_empty; }

/* Is every peer's slot free for writing? A step checks this after its operands. */
PORT_FN int interp_has_credit(struct interp_worker *w, const struct prog_step *step) {
    for (int k = 0; k < step->send_count; k++) {
        struct fifo_end *end = interp_send_end(interp_op_of(w), step->send_first + k);
        if (fifo_has_credit(end))
            continue;
        w->blocked_on = (uint32_t)(step->send_first + k) + (PORT_IN_BLOCK ? 0 : end->slowest);
        w->blocked_sending = 1;
        return 0;
    }
    return 1;
}

/* STEPPED: every operand has arrived and is of this call, and every peer's slot is free for writing. MISMATCH: an operand is of another
 * call. */
PORT_FN enum interp_result interp_ready(struct interp_worker *w, const struct prog_step *step, uint32_t bytes,
                                        uint32_t everywhere) {
    const struct work_args *args = &interp_op_of(w)->args;
    for (uint32_t k = w->arrived; k < (uint32_t)step->recv_count; k++) {
        struct fifo_end *end = interp_recv_end(interp_op_of(w), step->recv_first + k);
        uint32_t kind = proto_at(everywhere, args->protocol, end);
        enum interp_result ready = PROTO_CALL(kind, ready, args, end, bytes, interp_scratch(w, k));
        if (ready != INTERP_STEPPED) {
            w->arrived = k;
            w->blocked_on = (uint32_t)step->recv_first + k;
            w->blocked_sending = 0;
            return ready;
        }
    }
    w->arrived = (uint32_t)step->recv_count;
    return interp_has_credit(w, step) ? INTERP_STEPPED : INTERP_BUSY;
}

/* Has any slot of the step a plain payload? Then a fence must come after the step has written and read payloads, and before it stores
 * counters. Slots with lines need no fence, because lines have flags. */
PORT_FN int interp_needs_fence(const struct interp_op *op, const struct prog_step *step, uint32_t everywhere) {
    uint32_t protocol = op->args.protocol;
    int plain = 0;
    for (int k = 0; k < step->send_count; k++)
        plain |= !proto_has_lines(proto_at(everywhere, protocol, interp_send_end(op, step->send_first + k)));
    for (int k = 0; k < step->recv_count; k++)
        plain |= !proto_has_lines(proto_at(everywhere, protocol, interp_recv_end(op, step->recv_first + k)));
    return plain;
}

/* Publishes the sent slots, and gives the read slots back. Call it after the last byte is stored and the slots are sealed. */
PORT_FN void interp_hand_over(const struct interp_op *op, const struct prog_step *step, uint32_t bytes,
                              uint32_t everywhere) {
    const struct work_args *args = &op->args;
    if (interp_needs_fence(op, step, everywhere))
        port_fence(); /* One fence for all counters of the step */
    for (int k = 0; k < step->send_count; k++) {
        struct fifo_end *end = interp_send_end(op, step->send_first + k);
        uint32_t kind = proto_at(everywhere, args->protocol, end);
        PROTO_CALL(kind, publish, args, end, bytes);
    }
    for (int k = 0; k < step->recv_count; k++) {
        struct fifo_end *end = interp_recv_end(op, step->recv_first + k);
        uint32_t kind = proto_at(everywhere, args->protocol, end);
        PROTO_CALL(kind, consume, end);
    }
}

/* Ends a step whose result is computed. result: the payload to copy into slots with lines; NULL: the step has no such slot. */
PORT_FN void interp_finish(const struct interp_op *op, const struct prog_step *step, uint32_t bytes, const char *result,
                           uint32_t everywhere) {
    const struct work_args *args = &op->args;
    for (int k = 0; k < step->send_count; k++) {
        struct fifo_end *end = interp_send_end(op, step->send_first + k);
        uint32_t kind = proto_at(everywhere, args->protocol, end);
        if (result != NULL)
            PROTO_CALL(kind, put, args, end, result, bytes);
        PROTO_CALL(kind, seal, args, end, bytes);
    }
    interp_hand_over(op, step, bytes, everywhere);
}

/* ---- trying a step ---- */

/* Reduces w->src[0 … nsrc−1] into w->dst[0 … ndst−1]. The executor passes this function in. */
typedef void interp_reduce(struct interp_worker *w, const struct prog_step *step, int ndst, int nsrc, uint64_t count);

PORT_FN enum interp_result interp_advance(struct interp_worker *w) {
    w->arrived = 0;
    if (++w->pc < w->nsteps)
        return INTERP_STEPPED;
    w->pc = 0;
    return ++w->round < interp_op_of(w)->geometry.nrounds ? INTERP_STEPPED : INTERP_DONE;
}

/* Reduces the second and later pieces of a run. */
PORT_FN void interp_other_pieces(struct interp_worker *w, const struct prog_step *step, int ndst, int nsrc,
                                 const struct interp_piece *first, interp_reduce *reduce) {
    struct interp_piece piece = *first;
    for (int i = 1; i < step->count; i++) {
        uint32_t padded = interp_padded(interp_op_of(w), &piece);
        piece = interp_piece_of(interp_op_of(w), step, i, w->round);
        interp_next(w, step, i, padded, nsrc, ndst, &piece);
        if (piece.elems.count > 0 && ndst > 0)
            reduce(w, step, ndst, nsrc, piece.elems.count);
    }
}

/* What a worker does next: a step, and the piece of its first block in this round. */
struct interp_try {
    const struct prog_step *step;
    struct interp_piece piece;
    uint32_t bytes; /* Payload bytes of each of the step's slots */
};

PORT_FN struct interp_try interp_try_of(const struct interp_worker *w) {
    struct interp_try next;
    next.step = &interp_op_of(w)->steps[w->first_step + w->pc];
    next.piece = interp_piece_of(interp_op_of(w), next.step, 0, w->round);
    next.bytes = interp_payload(interp_op_of(w), next.step, w->round, &next.piece);
    return next;
}

/* everywhere: see proto_at(). */
PORT_FN enum interp_result interp_try_step(struct interp_worker *w, const struct interp_try *next,
                                           interp_reduce *reduce, uint32_t everywhere) {
    const struct interp_op *op = interp_op_of(w);
    const struct prog_step *step = next->step;
    const uint32_t bytes = next->bytes;
    if (interp_skips(op, bytes))
        return interp_advance(w);
    enum interp_result ready = interp_ready(w, step, bytes, everywhere);
    if (ready != INTERP_STEPPED)
        return ready;

    int nsrc = interp_gather(w, step, bytes, &next->piece, everywhere);
    int ndst = interp_scatter(w, step, bytes, nsrc, &next->piece, everywhere);
    if (next->piece.elems.count > 0 && ndst > 0)
        reduce(w, step, ndst, nsrc, next->piece.elems.count);
    if (step->count > 1)
        interp_other_pieces(w, step, ndst, nsrc, &next->piece, reduce);
    interp_finish(op, step, bytes, (const char *)w->result, everywhere);
    return interp_advance(w);
}

#endif
