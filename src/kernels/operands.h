/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the addresses that a step reads and writes: its operands in their order, and its places. Host and device executors call
 * these functions.
 *
 *    step about blocks 4, 5     list of operands    slot of a peer         IN 4          for the first piece
 *                                                   + padded length        IN 5          for the next piece
 */
#ifndef COLLET_KERNELS_OPERANDS_H
#define COLLET_KERNELS_OPERANDS_H

#include "fifo/proto.h"
#include "kernels/port.h"

/* ---- pieces ---- */

/* A piece of one of the blocks that a step is about. */
struct interp_piece {
    uint32_t block;
    struct span elems;
};

/* The i-th block of a run of `count` blocks. */
PORT_FN uint32_t interp_block(const struct interp_op *op, uint32_t region, const struct block_run *run, int count,
                              int i) {
    return count == 1 ? (uint32_t)run->first : geometry_block(run, (uint32_t)i, op->memory.nblocks[region]);
}

PORT_FN struct span interp_elems(const struct interp_op *op, uint32_t region, uint32_t block, uint64_t round) {
    const struct span *extents = PORT_IN_BLOCK ? NULL : op->extents[region];
    return extents != NULL ? geometry_piece_of(&op->geometry, extents[block], round)
                           : geometry_piece(&op->geometry, block, round);
}

PORT_FN struct interp_piece interp_piece_of(const struct interp_op *op, const struct prog_step *step, int i,
                                            uint64_t round) {
    struct interp_piece piece;
    piece.block = interp_block(op, step->about_region, &step->about, step->count, i);
    piece.elems = interp_elems(op, step->about_region, piece.block, round);
    return piece;
}

PORT_FN uint32_t interp_bytes(const struct interp_op *op, const struct interp_piece *piece) {
    return (uint32_t)(piece->elems.count * op->args.elem_bytes);
}

/* The bytes that a piece takes in a slot with several pieces: its length, rounded up to the protocol's unit. */
PORT_FN uint32_t interp_padded(const struct interp_op *op, const struct interp_piece *piece) {
    return geometry_padded(interp_bytes(op, piece), protocol_unit_bytes(op->args.protocol));
}

/* The payload bytes of a slot of the step. Both ends compute the same number. first: the step's first piece. */
PORT_FN uint32_t interp_payload(const struct interp_op *op, const struct prog_step *step, uint64_t round,
                                const struct interp_piece *first) {
    if (step->count == 1)
        return interp_bytes(op, first);
    uint32_t bytes = 0;
    for (int i = 0; i < step->count; i++) {
        struct interp_piece piece = interp_piece_of(op, step, i, round);
        bytes += interp_padded(op, &piece);
    }
    return bytes;
}

/* ---- addresses ---- */

/* The address in a block of a region where a piece belongs. */
PORT_FN char *interp_memory(const struct interp_op *op, uint32_t region, uint32_t block, uint64_t round,
                            const struct interp_piece *piece) {
    if (region == STEP_TMP)
        return op->memory.tmp + (size_t)block * op->memory.tmp_stride;
    char *base = region == STEP_IN ? (char *)op->args.in : op->args.out;
    int same = block == piece->block && (PORT_IN_BLOCK || op->extents[region] == NULL);
    uint64_t first = same ? piece->elems.first : interp_elems(op, region, block, round).first;
    return (char *)((uintptr_t)base + first * op->args.elem_bytes); /* An unused region may be NULL */
}

PORT_FN const char *interp_local(const struct interp_op *op, const struct prog_step *step, int l, int i, uint64_t round,
                                 const struct interp_piece *piece) {
    const struct prog_local *local = interp_local_at(op, step->locals_first + l);
    uint32_t region = (uint32_t)local->region;
    return interp_memory(op, region, interp_block(op, region, &local->run, step->count, i), round, piece);
}

PORT_FN char *interp_store(const struct interp_op *op, const struct prog_step *step, int i, uint64_t round,
                           const struct interp_piece *piece) {
    uint32_t region = step->store_region;
    return interp_memory(op, region, interp_block(op, region, &step->store, step->count, i), round, piece);
}

/* ---- scaling ---- */

/* The bits of the factor by which the call multiplies elements of IN. */
PORT_FN uint64_t interp_factor(const struct work_args *args) {
    return args->scaling == WORK_BY_ADDRESS ? lane_load((const char *)(uintptr_t)args->factor, args->elem_bytes)
                                            : args->factor;
}

/* The index of the operand that is multiplied by the factor; −1: none is. Only one can be: no step sums two blocks of IN. */
PORT_FN int interp_scaled(const struct interp_op *op, const struct prog_step *step) {
    for (int l = 0; op->args.scaling && l < step->locals_count; l++) {
        const struct prog_local *local = interp_local_at(op, step->locals_first + l);
        if (local->region == STEP_IN)
            return local->at + l;
    }
    return -1;
}

/* ---- lists ---- */

/* Is the next operand of the list in memory? taken, received: the numbers of local and of received operands that are listed already. */
PORT_FN int interp_is_local(const struct interp_op *op, const struct prog_step *step, int taken, int received) {
    return taken < step->locals_count && interp_local_at(op, step->locals_first + taken)->at == received;
}

/* Memory into which an operand is copied before its use: from a slot with lines, or from a loan. */
PORT_FN char *interp_scratch(const struct interp_worker *w, uint32_t operand) {
    return w->scratch + (size_t)operand * w->scratch_stride;
}

PORT_FN const char *interp_slot(const struct interp_worker *w, const struct prog_step *step, int k, uint32_t bytes,
                                uint32_t everywhere) {
    const struct work_args *args = &interp_op_of(w)->args;
    const struct fifo_end *end = interp_recv_end(interp_op_of(w), step->recv_first + k);
    uint32_t kind = proto_at(everywhere, args->protocol, end);
    return PROTO_CALL(kind, operand, args, end, bytes, interp_scratch(w, (uint32_t)k));
}

/* Lists the addresses of a step's operands for its first piece, in order. Returns the number of operands. bytes: the payload of a slot of
 * the step. everywhere: see proto_at(). */
PORT_FN int interp_gather(struct interp_worker *w, const struct prog_step *step, uint32_t bytes,
                          const struct interp_piece *piece, uint32_t everywhere) {
    int n = 0, taken = 0;
    for (int received = 0;; received++) {
        for (; interp_is_local(interp_op_of(w), step, taken, received); taken++)
            interp_src(w)[n++] = interp_local(interp_op_of(w), step, taken, 0, w->round, piece);
        if (received == step->recv_count)
            return n;
        interp_src(w)[n++] = interp_slot(w, step, received, bytes, everywhere);
    }
}

/* Does the result differ from the step's only operand? */
PORT_FN int interp_changes(const struct interp_op *op, const struct prog_step *step, int nsrc) {
    return nsrc > 1 || (step->finish && op->args.divisor > 1) || interp_scaled(op, step) >= 0;
}

/* Lists the places for the result of a step's first piece. Returns the number of places. A place in this rank's memory comes first. A slot
 * with lines is filled later, from w->result. This is another place if the step has one piece; or scratch; or the only operand, if the
 * step passes it on unchanged. */
PORT_FN int interp_scatter(struct interp_worker *w, const struct prog_step *step, uint32_t bytes, int nsrc,
                           const struct interp_piece *piece, uint32_t everywhere) {
    const struct work_args *args = &interp_op_of(w)->args;
    int n = 0, puts = 0;
    if (step->store_region != STEP_NONE)
        interp_dst(w)[n++] = interp_store(interp_op_of(w), step, 0, w->round, piece);
    for (int k = 0; k < step->send_count; k++) {
        const struct fifo_end *end = interp_send_end(interp_op_of(w), step->send_first + k);
        uint32_t kind = proto_at(everywhere, args->protocol, end);
        char *place = PROTO_CALL(kind, place, args, end, bytes);
        if (place != NULL)
            interp_dst(w)[n++] = place;
        else
            puts = 1;
    }
    if (!puts)
        return n;
    if (step->count > 1 || (n == 0 && interp_changes(interp_op_of(w), step, nsrc)))
        interp_dst(w)[n++] = interp_scratch(w, (uint32_t)step->recv_count);
    w->result = n > 0 ? interp_dst(w)[n - 1] : interp_src(w)[0];
    return n;
}

/* Moves the lists of operands and places on to the step's next piece, the i-th. In a slot it lies behind the last piece. In memory it
 * lies in another block. padded: the bytes of the last piece in a slot. */
PORT_FN void interp_next(struct interp_worker *w, const struct prog_step *step, int i, uint32_t padded, int nsrc,
                         int ndst, const struct interp_piece *piece) {
    for (int n = 0, taken = 0; n < nsrc; n++)
        if (interp_is_local(interp_op_of(w), step, taken, n - taken))
            interp_src(w)[n] = interp_local(interp_op_of(w), step, taken++, i, w->round, piece);
        else
            interp_src(w)[n] = (const char *)interp_src(w)[n] + padded;
    int stored = step->store_region != STEP_NONE;
    if (stored)
        interp_dst(w)[0] = interp_store(interp_op_of(w), step, i, w->round, piece);
    for (int n = stored; n < ndst; n++)
        interp_dst(w)[n] = (char *)interp_dst(w)[n] + padded;
}

#endif
