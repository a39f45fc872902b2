/* SPDX-License-Identifier: Apache-2.0
 *
 * A step in LL128 by all lanes of a block: as in LL, but a line is that of proto_ll128.h and belongs to 8 neighbouring lanes.
 *
 *    lane          0        1        2        3        4        5        6        7
 *    line     │   16   │   16   │   16   │   16   │   16   │   16   │   16   │ 8 │ flag │      lines = group, group + groups, …
 *
 * The 8 lanes are of one warp and store together, so a line leaves the multiprocessor as one access of 128 bytes; they load
 * together too, and vote whether the flag was there. That a reader who sees the flag sees the rest is a property of the way
 * between them, which the memory model does not promise: memory of a GPU has it for its own blocks.
 */
#ifndef COLLET_KERNELS_BLOCK_LL128_CUH
#define COLLET_KERNELS_BLOCK_LL128_CUH

#include "kernels/block_ll.cuh"

/* This lane's part of a line. */
struct line_part {
    uint32_t line, at;   /* which line of the slot, and where in the piece the part begins */
    uint32_t slot_at;    /* where in the slot's payload */
    uint32_t lengths[2]; /* of its two units, in bytes */
    bool has_flag;       /* instead of the second */
};

BLOCK_FN uint32_t unit_length(uint32_t at, uint32_t bytes) {
    uint32_t left = at < bytes ? bytes - at : 0;
    return left < BLOCK_LL_UNIT ? left : BLOCK_LL_UNIT;
}

/* Of the piece's so-many-eth line. */
BLOCK_FN struct line_part part_of(const struct ll_piece *p, uint32_t line) {
    uint32_t place = port_lane() % PORT_GROUP;
    struct line_part part;
    part.line = p->slot_at / LL128_DATA_BYTES + line;
    part.at = line * LL128_DATA_BYTES + place * 2 * BLOCK_LL_UNIT;
    part.slot_at = p->slot_at + part.at;
    part.has_flag = place == PORT_GROUP - 1;
    part.lengths[0] = unit_length(part.at, p->bytes);
    part.lengths[1] = part.has_flag ? 0 : unit_length(part.at + BLOCK_LL_UNIT, p->bytes);
    return part;
}

BLOCK_FN char *line_at(const struct fifo_end *end, uint32_t line) {
    return ll128_lines(end) + (size_t)line * LL128_LINE_BYTES;
}

/* By the lanes of a group: their parts of a line, as soon as it is there. A lane that has no failure of its own says
 * ABORTED if another has one. */
BLOCK_FN enum work_failure line_receive(const struct fifo_end *end, const struct line_part *part, uint32_t signature,
                                        const struct work_status *status, uint64_t *units) {
    uint64_t flag = ll128_flag(end, signature);
    struct block_wait wait = {0, 0};
    for (;;) {
        port_line128_load(line_at(end, part->line), &units[0], &units[1]);
        if (!port_group_any(part->has_flag && units[1] != flag))
            return WORK_FINE;
        bool asks = wait_asks(&wait);
        enum work_failure failure = wait_pause(&wait, status);
        if (!asks)
            continue;
        if (part->has_flag && units[1] << 16 == flag << 16 && units[1] != flag)
            failure = WORK_FOREIGN;
        if (port_group_any(failure != WORK_FINE))
            return failure != WORK_FINE ? failure : WORK_ABORTED;
    }
}

/* The same where a wire has brought plain payload. */
BLOCK_FN void part_load(const struct fifo_end *end, const struct line_part *part, uint64_t *units) {
    const char *from = fifo_slot_at(end, PROTOCOL_LL128, end->step) + part->slot_at;
    for (uint32_t u = 0; u < 2; u++)
        units[u] = unit_load(from + u * BLOCK_LL_UNIT, part->lengths[u]);
}

BLOCK_FN void part_send(const struct fifo_end *end, const struct line_part *part, const uint64_t *units,
                        uint32_t signature) {
    if (!end->remote) {
        port_line128_store(line_at(end, part->line), units[0], part->has_flag ? ll128_flag(end, signature) : units[1]);
        return;
    }
    char *to = fifo_slot_at(end, PROTOCOL_LL128, end->step) + part->slot_at;
    for (uint32_t u = 0; u < 2; u++)
        unit_store(to + u * BLOCK_LL_UNIT, units[u], part->lengths[u]);
}

/* The operands of this lane's part, in their order, reduced. */
template <class R>
BLOCK_FN enum work_failure part_reduce(struct interp_worker *w, const struct prog_step *step, const struct ll_piece *p,
                                       const struct line_part *part, const struct work_status *status,
                                       uint64_t *units) {
    const struct interp_op *op = w->op;
    uint32_t divisor = step->finish ? op->divisor : 1;
    struct unit_sum<R> sums[2];
    for (int u = 0; u < 2; u++)
        sums[u] = unit_begin<R>(step, divisor);
#pragma unroll 1
    for (int k = 0; k <= step->recv_count; k++) {
        for (uint32_t u = 0; u < 2; u++)
            unit_take_locals<R>(&sums[u], op, step, p, k, part->at + u * BLOCK_LL_UNIT, part->lengths[u]);
        if (k == step->recv_count)
            break;
        const struct fifo_end *end = op->recv_ends[step->recv_first + k];
        enum work_failure failure = WORK_FINE;
        if (end->remote)
            part_load(end, part, units);
        else
            failure = line_receive(end, part, op->signature, status, units);
        if (failure != WORK_FINE) {
            w->blocked_on = (uint32_t)(step->recv_first + k); /* of lanes that fail, any one's */
            return failure;
        }
        for (int u = 0; u < 2; u++)
            unit_take<R>(&sums[u], units[u]);
    }
    for (int u = 0; u < 2; u++)
        units[u] = unit_end<R>(&sums[u], divisor);
    return WORK_FINE;
}

/* This lane's parts of a piece. */
template <class R>
BLOCK_FN enum work_failure parts_run(struct interp_worker *w, const struct prog_step *step, const struct ll_piece *p,
                                     const struct work_status *status) {
    const struct interp_op *op = w->op;
    uint32_t groups = port_lanes() / PORT_GROUP;
#pragma unroll 1
    for (uint32_t line = ll_first_unit(p, LL128_DATA_BYTES, port_lane() / PORT_GROUP, groups);
         line * LL128_DATA_BYTES < p->bytes; line += groups) {
        struct line_part part = part_of(p, line);
        uint64_t units[2];
        enum work_failure failure = part_reduce<R>(w, step, p, &part, status, units);
        if (failure != WORK_FINE)
            return failure;
#pragma unroll 1
        for (int k = 0; k < step->send_count; k++)
            part_send(op->send_ends[step->send_first + k], &part, units, op->signature);
        for (uint32_t u = 0; p->store != NULL && u < 2; u++)
            unit_store(p->store + part.at + u * BLOCK_LL_UNIT, units[u], part.lengths[u]);
    }
    return WORK_FINE;
}

template <class R>
BLOCK_FN enum work_failure block_ll128_step(struct interp_worker *w, const struct prog_step *step, uint64_t round,
                                            uint32_t bytes, struct work_status *status) {
    enum work_failure failure = ll_begin(w, step, bytes, status);
    if (failure != WORK_FINE)
        return failure;
    uint32_t slot_at = 0;
#pragma unroll 1
    for (int i = 0; i < step->count && failure == WORK_FINE; i++) {
        struct ll_piece p = ll_piece_of(w->op, step, i, round, slot_at);
        failure = parts_run<R>(w, step, &p, status);
        slot_at += interp_padded(w->op, &p.piece);
    }
    return ll_end(w, step, bytes, failure);
}

#endif
