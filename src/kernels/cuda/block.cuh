/* SPDX-License-Identifier: Apache-2.0
 *
 * A block of lanes runs one worker of a program: what interp.h does on the host, with the waits inside the steps.
 *
 * Every lane keeps (round, pc) for itself; all take the same way, because what it depends on is the same for all.
 * Read next: block_memory.cuh, block_plain.cuh, block_lines.cuh, block_reduce.cuh, kernel.cuh.
 */
#ifndef COLLET_KERNELS_CUDA_BLOCK_CUH
#define COLLET_KERNELS_CUDA_BLOCK_CUH

#include "kernels/cuda/block_few.cuh"
#include "kernels/cuda/block_plain.cuh"

/* ---- a step ---- */

/* Called by all lanes, each for its own ends. Waits for slots of plain payload, and for slots that may be written; each lane waits by itself
 * for its lines. *odd: not all is told by lines: an end has plain payload, or a slot gets lines behind its payload. */
template <class P>
BLOCK_FN enum work_failure lines_begin(struct block_memory *m, const struct prog_step *step, uint32_t bytes,
                                       const struct work_status *status, bool *odd) {
    enum work_failure failure = WORK_FINE;
    uint32_t at = 0;
    *odd = false;
#pragma unroll 1
    for (uint32_t k = turn_in(0); k < (uint32_t)step->recv_count && failure == WORK_FINE; k += port_lanes()) {
        struct fifo_end *end = operand_end(m, step, k);
        if (proto_has_lines(proto_kind(P::number, end)))
            continue;
        *odd = true;
        at = (uint32_t)step->recv_first + k;
        failure = end_await(m, end, true, status);
        if (failure == WORK_FINE && simple_ready(&m->op.args, end, bytes, NULL) == INTERP_MISMATCH)
            failure = WORK_MISMATCH;
    }
#pragma unroll 1
    for (uint32_t k = turn_in(1); k < (uint32_t)step->send_count && failure == WORK_FINE; k += port_lanes()) {
        struct fifo_end *end = place_end(m, step, k);
        const uint32_t kind = proto_kind(P::number, end);
        *odd |= !proto_has_lines(kind) || (kind == PROTOCOL_LL && ll_pads(end));
        at = (uint32_t)step->send_first + k;
        failure = end_await(m, end, false, status);
    }
    ends_stop(m, at, failure);
    return failure;
}

/* Called by all lanes, after the last line. */
template <class P> BLOCK_FN void lines_seal(struct block_memory *m, const struct prog_step *step, uint32_t bytes) {
#pragma unroll 1
    for (int k = 0; k < step->send_count; k++) {
        struct fifo_end *end = interp_send_end(&m->op, step->send_first + k);
        uint32_t kind = proto_kind(P::number, end);
        if (proto_has_lines(kind) || port_lane() == 0)
            PROTO_CALL(kind, seal, &m->op.args, end, bytes);
    }
}

/* Called by all lanes, behind a barrier. The first lane tells all heads: it has made the fence after slots of Simple, if a call before this
 * one had some. */
template <class P>
BLOCK_FN void lines_hand_over(struct block_memory *m, const struct prog_step *step, uint32_t bytes, bool odd) {
    const uint32_t kind = P::number;
    if (odd) {
        if (port_lane() == 0)
            interp_hand_over(&m->op, step, bytes, PROTO_EACH_END);
        return;
    }
#pragma unroll 1
    for (int k = 0; port_lane() == 0 && k < step->recv_count; k++)
        PROTO_CALL(kind, consume, interp_recv_end(&m->op, step->recv_first + k));
#pragma unroll 1
    for (uint32_t k = turn_in(1); k < (uint32_t)step->send_count; k += port_lanes())
        PROTO_CALL(kind, publish, &m->op.args, place_end(m, step, k), bytes);
}

/* Called by all lanes. Each lane moves its own parts of lines. A barrier stands before that: then there is credit. Another one stands behind
 * it: then all lanes have read their operands, and stored what is published. Behind a third one, the ends have their new positions. */
template <class R, class P>
BLOCK_FN enum work_failure lines_step(struct block_memory *m, const struct prog_step *step, uint64_t round,
                                      uint32_t bytes, const struct work_status *status) {
    bool odd;
    enum work_failure failure = lines_begin<P>(m, step, bytes, status, &odd);
    if (port_any(odd || failure != WORK_FINE)) {
        if ((failure = failure_of_any(failure)) != WORK_FINE)
            return failure;
        odd = true;
    }
    if (!odd && few_fit<P>(step, bytes))
        failure = block_few<R, P>(m, step, round, bytes, status);
    else
        failure = block_lines<R, P>(&m->worker, step, round, status);
    if (odd)
        lines_seal<P>(m, step, bytes);
    if ((failure = failure_of_any(failure)) != WORK_FINE)
        return failure;
    lines_hand_over<P>(m, step, bytes, odd);
    port_sync();
    return failure;
}

/* One function for each protocol: so each may use all registers. */
template <class R, class P>
BLOCK_SELDOM enum work_failure block_step(struct block_memory *m, uint32_t at, uint64_t round, uint32_t bytes,
                                          struct interp_piece first, struct work_status *status) {
    m = block_own(m);
    if constexpr (P::has_lines)
        return lines_step<R, P>(m, &m->window[at], round, bytes, status);
    else
        return plain_step<R>(m, &m->window[at], round, bytes, &first, status);
}

/* Does a step in the protocol of the call. */
template <class R>
BLOCK_FN enum work_failure block_protocol_step(struct block_memory *m, uint32_t at, uint64_t round, uint32_t bytes,
                                               const struct interp_piece *first, struct work_status *status) {
#define BLOCK_STEP(NAME, name, text, slots, unit, line, costs)                                                         \
    if (m->op.args.protocol == PROTOCOL_##NAME)                                                                        \
        return block_step<R, block_protocol<PROTOCOL_##NAME>>(m, at, round, bytes, *first, status);
    PROTOCOLS(BLOCK_STEP)
    return WORK_ABORTED;
}

/* ---- a worker ---- */

/* Called by all lanes. Copies the block's part of the work into shared memory. */
BLOCK_FN void own_take(struct block_memory *m, const struct work *work, uint32_t index) {
    const void *from = port_global(&work->blocks[index]);
#pragma unroll 1
    for (uint32_t k = port_lane(); k < sizeof(m->own) / sizeof(uint64_t); k += port_lanes())
        word_put(&m->own, k, word_at<uint64_t>(from, k));
}

/* Called by lane 0, after a barrier. */
BLOCK_FN void block_begin(struct block_memory *m, const struct work *work) {
    const struct work_block *own = &m->own;
    struct interp_op *op = &m->op;
    struct interp_worker *w = &m->worker;
    op->steps = own->steps;
    op->locals = own->locals;
    op->memory = own->memory;
    op->args = work->args;
    op->args.factor = interp_factor(&work->args);
    op->geometry = work_geometry(&work->args, own->channel);
    w->op = op;
    w->first_step = 0;
    w->nsteps = own->nsteps;
    m->lent = 0;
    /* This block waits for a loan at every end. A loan that this block does not copy may be copied by another block. */
    m->lends.from = ends_fit(own) ? own->lends_from : 0;
    for (int region = 0; region < STEP_REGIONS; region++) {
        m->lends.regions[region] = work->lends[region];
        m->team.windows[region] = (uint8_t)work_lent_window(work->lends[region]);
    }
    m->lends.apart = 1; /* if not, the host has left IN out of `lends` */
    m->lends.root_reduces = 0;
    m->untold.send_count = m->untold.recv_count = 0;
    m->stops = 0;
    m->team.teams = own->teams;
    m->team.does = TEAM_NOTHING;
}

/* Tells the host about the first failure of the rank. */
BLOCK_SELDOM void block_report(struct block_memory *m, const struct work *work, enum work_failure failure) {
    struct work_status *status = (struct work_status *)port_global(work->status);
    m = block_own(m);
    if (failure == WORK_ABORTED || port_word_claim(&status->claimed))
        return;
    status->peer = ((const struct prog_peer *)port_global(&m->own.peers[m->worker.blocked_on]))->rank;
    status->collective = work->collective;
    status->sequence = work->args.sequence;
    if (failure == WORK_MISMATCH) {
        const struct fifo_slot_header *header = fifo_header(interp_recv_end(&m->op, (int)m->worker.blocked_on));
        status->bytes = fifo_word_bytes(header->word);
        status->their_sequence = header->sequence;
    }
    port_word_store_release(&status->failure, failure); /* pairs with exec_gpu_check() */
}

/* Called by all lanes. Copies the ends of one step into shared memory, if there is no room for all. */
BLOCK_FN void step_take_ends(struct block_memory *m, uint32_t at) {
    struct block_company c = company_of_step(&m->window[at]);
    ends_find(m, &m->own, &c);
    port_sync();
    ends_take(m, c);
    port_sync();
}

BLOCK_FN void step_return_ends(struct block_memory *m, uint32_t at) {
    struct block_company c = company_of_step(&m->window[at]);
    if (port_lane() == 0)
        counters_tell_if_any(m);
    port_sync();
    ends_return(m, c);
    port_sync();
}

/* Called by all lanes. Does all steps of all rounds. */
template <class R> BLOCK_FN enum work_failure block_rounds(struct block_memory *m, const struct work *work) {
    uint64_t nrounds = m->op.geometry.nrounds;
    uint32_t nsteps = m->own.nsteps;
    bool fits = ends_fit(&m->own);
    for (uint64_t round = 0; round < nrounds; round++) {
#pragma unroll 1
        for (uint32_t pc = 0; pc < nsteps; pc++) {
            const struct prog_step *step = step_at(m, pc);
            uint32_t at = pc % BLOCK_WINDOW_STEPS;
            struct interp_piece first = interp_piece_of(&m->op, step, 0, round);
            uint32_t bytes = interp_payload(&m->op, step, round, &first);
            if (interp_skips(&m->op, bytes))
                continue;
            if (!fits)
                step_take_ends(m, at);
            enum work_failure failure = block_protocol_step<R>(m, at, round, bytes, &first, work->status);
            if (failure != WORK_FINE)
                return failure;
            if (!fits)
                step_return_ends(m, at);
        }
    }
    return WORK_FINE;
}

/* Called by all lanes. The vote is also the barrier before ends_return(). When this returns, the program may use its buffers again. */
BLOCK_FN enum work_failure block_end(struct block_memory *m, struct work_status *status) {
    enum work_failure failure = WORK_FINE;
    if (port_lane() == 0)
        counters_tell_if_any(m);
    if (port_lane() == 0 && m->lent > 0)
        failure = loans_wait(m, m->own.npeers, status);
    return failure_of_any(failure);
}

/* Called by lane 0 of a block that has failed. Ends all loans of this call: then the program may use its buffers again. Blocks lend
 * only if all their ends find room in shared memory. */
BLOCK_SELDOM void block_take_back(struct block_memory *m) {
    m = block_own(m);
    for (uint32_t k = 0; m->lent > 0 && k < m->own.npeers; k++) {
        uint32_t place = INTERP_BLOCK_PEERS + k;
        if (m->at[place] == place_at(place))
            loans_end(interp_block_end(m, m->at[place]), m->began_at[place]);
    }
}

/* Called by all lanes. Runs block `index` of a work. It loads what it needs in three waves: each wave has the addresses of the next
 * one. */
template <class R> BLOCK_FN void block_run(struct block_memory *m, const struct work *work, uint32_t index) {
    own_take(m, work, index);
    port_sync();
    struct block_company all = company_of_all(&m->own);
    ends_find(m, &m->own, &all);
    window_load(m, 0);
    if (port_lane() == 0)
        block_begin(m, work);
    port_sync();
    ends_take(m, all);
    port_sync();
    enum work_failure failure = block_rounds<R>(m, work);
    if (failure == WORK_FINE)
        failure = block_end(m, work->status);
    if (failure == WORK_FINE)
        ends_return(m, all);
    else if (port_lane() == 0) {
        block_report(m, work, failure);
        block_take_back(m);
    }
}

/* Called by all lanes of block `block` of a launch. */
template <class R> BLOCK_FN void launch_run(struct block_memory *m, const struct work_launch *launch, uint32_t block) {
#pragma unroll 1
    for (uint32_t k = 0; k < launch->nworks; k++) {
        const struct work *work = &launch->works[k];
        if (block < work->nblocks) {
            block_run<R>(m, work, block);
            return;
        }
        block -= work->nblocks;
    }
}

#endif
