/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of plain payload: slots are operands and places of a reduction by all lanes.
 *
 *    warp 0    has the slot of each peer come? it is an operand       ┃ lane 0: fence, ┃                   ┃
 *    warp 1    may the slot at each peer be written? it is a place    ┃ counters of    ┃ all lanes reduce  ┃ lane 0: ends go on
 *    warp 2    operands and the place in memory                       ┃ the last step  ┃                   ┃
 *                                                                  barrier                            barrier
 *
 * Each end is one lane's, so it takes no longer if there are many. If one is missing, the counters of the last step are stored first,
 * for a rank that is waited for may be waiting for them; then its lane waits, the others at a barrier.
 */
#ifndef COLLET_KERNELS_CUDA_BLOCK_PLAIN_CUH
#define COLLET_KERNELS_CUDA_BLOCK_PLAIN_CUH

#include "kernels/cuda/block_ends.cuh"
#include "kernels/cuda/block_push.cuh"

/* ---- lists ---- */

/* Sets the divisor, the factor and the mirror of a step. */
BLOCK_FN void lists_scale(struct block_memory *m, const struct prog_step *step) {
    m->lists.divisor = step->finish ? m->op.args.divisor : 1;
    m->lists.scaled = interp_scaled(&m->op, step);
    m->lists.factor = m->op.args.factor;
    m->lists.mirror = m->op.args.mirror;
}

/* Called by lane 0. Lists the places of a step with loans: a slot whose payload is lent, or has landed, is none. */
template <class R>
BLOCK_FN void places_list(struct block_memory *m, const struct prog_step *step, uint32_t bytes,
                          const struct interp_piece *first, bool pushes) {
    if (pushes) {
        push_places(m, step);
        return;
    }
    m->lent += (uint32_t)interp_lend(&m->worker, &m->lends, step, bytes, first);
    m->lists.ndst = (uint32_t)interp_scatter(&m->worker, step, bytes, (int)m->lists.nsrc, first, PROTOCOL_DIRECT);
    if constexpr (R::in_teams)
        team_list<R>(&m->team, &m->op, step, &m->lists, bytes);
    else if (push_has_landed(m, step))
        m->lists.ndst = 0;
    else if (m->own.returns && step->send_count == 1)
        push_ask(m, step);
}

/* By all lanes. */
template <class R> BLOCK_FN void block_piece(struct block_memory *m, const struct interp_piece *piece) {
    if constexpr (R::in_teams) {
        if (m->team.does != TEAM_NOTHING) {
            team_do<R>(&m->team, interp_bytes(&m->op, piece), m->lists.divisor);
            return;
        }
    }
    block_reduce<R>(&m->lists, R::reduces ? piece->elems.count : interp_bytes(&m->op, piece));
}

/* Called by all lanes. Reduces one piece of the step after the other. */
template <class R>
BLOCK_FN void block_pieces(struct block_memory *m, const struct prog_step *step, uint64_t round,
                           const struct interp_piece *first) {
    struct interp_piece piece = *first;
#pragma unroll 1
    for (int i = 0;;) {
        if (piece.elems.count > 0 && m->lists.ndst > 0)
            block_piece<R>(m, &piece);
        if (++i == step->count)
            return;
        uint32_t padded = interp_padded(&m->op, &piece);
        piece = interp_piece_of(&m->op, step, i, round);
        port_sync(); /* after it, all lanes have read the lists */
        if (port_lane() == 0)
            interp_next(&m->worker, step, i, padded, (int)m->lists.nsrc, (int)m->lists.ndst, &piece);
        port_sync();
    }
}

/* ---- counters, by lane 0 ----
 *
 * The fence before them takes as long as the block's stores are under way. So they are stored when the next step has begun, if that can
 * begin at once:
 *
 *    lane 0        … copies ┃ the next slot is here ┃ fence, tail, head; copies …
 *    other lanes   … copies ┃                       ┃ load the next slot …
 *                        barrier                 barrier
 *
 * If it cannot, a rank that it waits for may be waiting for these counters: then they are stored before it waits.
 */

BLOCK_SELDOM void counters_tell(struct block_memory *m) {
    m = block_own(m);
    struct block_untold *step = &m->untold;
    port_fence(); /* one fence for all counters of the step */
#pragma unroll 1
    for (int k = 0; k < step->send_count; k++)
        fifo_tell_tail(interp_send_end(&m->op, step->send_first + k));
#pragma unroll 1
    for (int k = 0; k < step->recv_count; k++)
        fifo_tell_head(interp_recv_end(&m->op, step->recv_first + k));
    step->send_count = step->recv_count = 0;
}

BLOCK_FN void counters_tell_if_any(struct block_memory *m) {
    if (m->untold.send_count + m->untold.recv_count > 0)
        counters_tell(m);
}

/* The step is done: its ends move to the next slot. Their counters are stored later. */
BLOCK_FN void counters_keep(struct block_memory *m, const struct prog_step *step) {
#pragma unroll 1
    for (int k = 0; k < step->send_count; k++)
        simple_finish(interp_send_end(&m->op, step->send_first + k));
#pragma unroll 1
    for (int k = 0; k < step->recv_count; k++)
        direct_leave(interp_recv_end(&m->op, step->recv_first + k));
    m->untold = {step->recv_first, step->recv_count, step->send_first, step->send_count};
}

/* ---- before a step ---- */

/* The index of the k-th peer's operand in the list. Operands in memory may stand before it. */
BLOCK_FN uint32_t place_of_operand(const struct block_memory *m, const struct prog_step *step, uint32_t k) {
    uint32_t place = k;
#pragma unroll 1
    for (int l = 0; l < step->locals_count; l++)
        place += interp_local_at(&m->op, step->locals_first + l)->at <= (int32_t)k;
    return place;
}

/* Lists the operands and the place in memory. */
BLOCK_FN void memory_list(struct block_memory *m, const struct prog_step *step, uint64_t round,
                          const struct interp_piece *first) {
    uint32_t stores = step->store_region != STEP_NONE, turn = turn_in(2);
#pragma unroll 1
    for (uint32_t l = turn; l < (uint32_t)step->locals_count; l += port_lanes())
        m->lists.src[l + (uint32_t)interp_local_at(&m->op, step->locals_first + (int)l)->at] =
            interp_local(&m->op, step, (int)l, 0, round, first);
    if (turn != 0)
        return;
    if (stores)
        m->lists.dst[0] = interp_store(&m->op, step, 0, round, first);
    m->lists.nsrc = (uint32_t)(step->recv_count + step->locals_count);
    m->lists.ndst = stores + (uint32_t)step->send_count;
    m->worker.round = round;
    lists_scale(m, step);
}

/* What a lane finds at its ends. */
struct block_look {
    bool seals;  /* the lane may write the headers of its slots: this step lends nothing */
    bool lent;   /* the payload of one of its slots was lent by the peer, or has landed */
    bool pushes; /* its peers have said where the result belongs */
};

BLOCK_FN enum interp_result operand_look(struct block_memory *m, struct fifo_end *end, uint32_t bytes,
                                         struct block_look *look) {
    enum interp_result ready = direct_ready(&m->op.args, end, bytes, NULL);
    if (ready == INTERP_STEPPED)
        look->lent |= end->loans.way != LOAN_NONE && direct_is_lent(fifo_header(end));
    return ready;
}

BLOCK_FN enum interp_result place_look(struct block_memory *m, struct fifo_end *end, uint32_t bytes,
                                       const struct block_look *look) {
    if (!fifo_has_credit(end))
        return INTERP_BUSY;
    if (look->seals)
        simple_seal(&m->op.args, end, bytes);
    return INTERP_STEPPED;
}

/* Lists the slots of this lane's ends. True: all of them are ready. */
BLOCK_FN bool ends_look(struct block_memory *m, const struct prog_step *step, uint32_t bytes, struct block_look *look) {
    const struct work_args *args = &m->op.args;
    uint32_t stores = step->store_region != STEP_NONE;
    bool ready = true;
#pragma unroll 1
    for (uint32_t k = turn_in(0); k < (uint32_t)step->recv_count; k += port_lanes()) {
        struct fifo_end *end = operand_end(m, step, k);
        m->lists.src[place_of_operand(m, step, k)] = simple_operand(args, end, bytes, NULL);
        ready &= operand_look(m, end, bytes, look) == INTERP_STEPPED;
    }
#pragma unroll 1
    for (uint32_t k = turn_in(1); k < (uint32_t)step->send_count; k += port_lanes()) {
        struct fifo_end *end = place_end(m, step, k);
        m->lists.dst[k + stores] = simple_place(args, end, bytes);
        ready &= place_look(m, end, bytes, look) == INTERP_STEPPED;
    }
    return ready;
}

/* Waits until all of this lane's ends are ready. */
BLOCK_SELDOM enum work_failure ends_await(struct block_memory *m, const struct prog_step *step, uint32_t bytes,
                                          struct block_look *look, const struct work_status *status) {
    enum work_failure failure = WORK_FINE;
    uint32_t n = (uint32_t)step->recv_count, at = 0;
    m = block_own(m);
    step = (const struct prog_step *)port_shared(step);
#pragma unroll 1
    for (uint32_t k = turn_in(0); k < n && failure == WORK_FINE; k += port_lanes()) {
        struct fifo_end *end = operand_end(m, step, k);
        at = (uint32_t)step->recv_first + k;
        failure = end_await(m, end, true, status);
        if (failure == WORK_FINE && operand_look(m, end, bytes, look) == INTERP_MISMATCH)
            failure = WORK_MISMATCH;
    }
    n = (uint32_t)step->send_count;
#pragma unroll 1
    for (uint32_t k = turn_in(1); k < n && failure == WORK_FINE; k += port_lanes()) {
        struct fifo_end *end = place_end(m, step, k);
        at = (uint32_t)step->send_first + k;
        failure = end_await(m, end, false, status);
        if (failure == WORK_FINE)
            place_look(m, end, bytes, look);
    }
    ends_stop(m, at, failure);
    return failure;
}

/* Takes the loans of this lane's ends. All operands of the step have arrived. */
BLOCK_SELDOM enum work_failure ends_borrow(struct block_memory *m, const struct prog_step *step,
                                           struct block_look *look) {
    m = block_own(m);
    step = (const struct prog_step *)port_shared(step);
#pragma unroll 1
    for (uint32_t k = turn_in(0); k < (uint32_t)step->recv_count; k += port_lanes()) {
        struct fifo_end *end = operand_end(m, step, k);
        if (!loan_take(end))
            return WORK_ABORTED;
        if (end->loans.taken != NULL)
            m->lists.src[place_of_operand(m, step, k)] = end->loans.taken;
        look->pushes = look->pushes && push_hear(m, step, k);
    }
    return WORK_FINE;
}

BLOCK_SELDOM void ends_leave(struct block_memory *m, const struct prog_step *step) {
    m = block_own(m);
    step = (const struct prog_step *)port_shared(step);
#pragma unroll 1
    for (uint32_t k = turn_in(0); k < (uint32_t)step->recv_count; k += port_lanes())
        loan_leave(operand_end(m, step, k));
}

/* Called by all lanes, after all operands have arrived. */
template <class R>
BLOCK_FN enum work_failure loans_begin(struct block_memory *m, const struct prog_step *step, uint32_t bytes,
                                       const struct interp_piece *first, struct block_look *look) {
    const bool may_push = !R::in_teams && push_may(m, step) && !look->seals;
    look->pushes = may_push;
    enum work_failure failure = failure_of_any(ends_borrow(m, step, look));
    if (failure != WORK_FINE) {
        ends_leave(m, step);
        return failure;
    }
    const bool pushes = may_push && !port_any(!look->pushes);
    if (port_lane() == 0)
        places_list<R>(m, step, bytes, first, pushes);
#pragma unroll 1
    for (int k = 0; port_lane() == 0 && !look->seals && k < step->send_count; k++)
        direct_seal(&m->op.args, interp_send_end(&m->op, step->send_first + k), bytes);
    port_sync();
    return WORK_FINE;
}

/* Called by all lanes. Waits until the step can begin. Then its lists are complete, and the counters of the last step are stored. */
template <class R>
BLOCK_FN enum work_failure plain_begin(struct block_memory *m, const struct prog_step *step, uint64_t round,
                                       uint32_t bytes, const struct interp_piece *first,
                                       const struct work_status *status) {
    bool lends = R::in_teams || (step->lends && m->lends.from - 1 < bytes);
    struct block_look look = {!lends, false, false};
    enum work_failure failure = WORK_FINE;
    memory_list(m, step, round, first);
    bool ready = ends_look(m, step, bytes, &look);
    if (port_any(!ready)) {
        if (port_lane() == 0)
            counters_tell_if_any(m);
        if (!ready)
            failure = ends_await(m, step, bytes, &look, status);
        if ((failure = failure_of_any(failure)) != WORK_FINE)
            return failure;
    }
    if (lends || port_any(look.lent)) {
        failure = loans_begin<R>(m, step, bytes, first, &look);
        if (failure != WORK_FINE)
            return failure;
    }
    if (port_lane() == 0)
        counters_tell_if_any(m);
    return WORK_FINE;
}

/* ---- a step ---- */

/* Called by all lanes. When it returns, all lanes have read their operands and stored what is published, and the ends have the positions
 * of the next step. What a switch has stored must be there before the peers are told. */
template <class R>
BLOCK_FN enum work_failure plain_step(struct block_memory *m, const struct prog_step *step, uint64_t round,
                                      uint32_t bytes, const struct interp_piece *first,
                                      const struct work_status *status) {
    enum work_failure failure = plain_begin<R>(m, step, round, bytes, first, status);
    if (failure != WORK_FINE)
        return failure;
    block_pieces<R>(m, step, round, first);
    if constexpr (R::in_teams) {
        port_sync();
        if (port_lane() == 0)
            team_end(&m->team);
    }
    if (port_lane() == 0)
        counters_keep(m, step);
    port_sync();
    return WORK_FINE;
}

#endif
