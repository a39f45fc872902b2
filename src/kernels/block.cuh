/* SPDX-License-Identifier: Apache-2.0
 *
 * A block of lanes runs one worker of a program: what interp.h does on the host, with the waits inside the steps.
 *
 *    struct block_memory (shared by the lanes)
 *      op, worker    as in worker.h; only lane 0 writes them
 *      window        the next steps of the program; a ring of 4096 ranks has many times as many
 *      ends          copies of the connection ends, if they are few: their positions move here and return at the end
 *      src, dst      operands and places of the step in Simple
 *      untold        the step whose counters are not stored yet, in Simple
 *
 * Every lane keeps (round, pc) for itself; all take the same way, because what it depends on is the same for all.
 * Read next: block_wait.cuh, block_reduce.cuh, block_lines.cuh, block_loans.cuh, block_team.cuh, exec_cuda.cuh.
 */
#ifndef COLLET_KERNELS_BLOCK_CUH
#define COLLET_KERNELS_BLOCK_CUH

#include "kernels/block_lines.cuh"
#include "kernels/block_loans.cuh"
#include "kernels/block_reduce.cuh"
#include "kernels/block_team.cuh"

#define BLOCK_WINDOW_STEPS 64u
#define BLOCK_STAGED_PEERS LOAN_GPU_PEERS
#define BLOCK_STAGED_LIST 20u /* operands and places of a step */

/* An end, but for what hosts alone use of it. */
struct block_end {
    char bytes[offsetof(struct fifo_end, loans.landings)] __attribute__((aligned(8)));
};

struct block_memory {
    struct interp_op op;
    struct interp_worker worker;
    struct block_lists lists;
    struct block_team team;
    uint32_t window_first; /* of the worker's steps */
    struct prog_step window[BLOCK_WINDOW_STEPS];
    struct block_end ends[2 * BLOCK_STAGED_PEERS];
    struct fifo_end *table[2 * BLOCK_STAGED_PEERS];
    uint64_t began_at[2 * BLOCK_STAGED_PEERS]; /* positions of the ends at first */
    const void *src[BLOCK_STAGED_LIST];
    void *dst[BLOCK_STAGED_LIST];
    struct prog_step untold;
};

/* ---- ends ---- */

BLOCK_FN struct fifo_end *bound_end(const struct work_channel *program, uint32_t at) {
    return at < program->npeers ? program->recv_ends[at] : program->send_ends[at - program->npeers];
}

/* A peer may stand in the table more than once, for steps that have it in different company: the first entry of its end. */
BLOCK_FN uint32_t first_of_end(const struct work_channel *program, uint32_t at) {
    uint32_t first = at < program->npeers ? 0 : program->npeers;
    while (bound_end(program, first) != bound_end(program, at))
        first++;
    return first;
}

BLOCK_FN struct fifo_end *staged_end(struct block_memory *m, uint32_t at) {
    return (struct fifo_end *)(void *)m->ends[at].bytes;
}

/* Copies the ends of a channel, each once, or refers to where they are. */
BLOCK_SELDOM void ends_take(struct block_memory *m, const struct work_channel *program) {
    uint32_t npeers = program->npeers;
    bool few = npeers <= BLOCK_STAGED_PEERS;
    if (port_lane() == 0) {
        m->op.recv_ends = few ? m->table : program->recv_ends;
        m->op.send_ends = few ? m->table + npeers : program->send_ends;
    }
    if (!few)
        return;
#pragma unroll 1
    for (uint32_t k = port_lane(); k < 2 * npeers; k += port_lanes()) {
        const struct fifo_end *end = bound_end(program, k);
        uint32_t first = first_of_end(program, k);
        m->table[k] = end != NULL ? staged_end(m, first) : NULL;
        if (end == NULL || first != k)
            continue;
        memcpy(m->ends[k].bytes, end, sizeof(m->ends[k].bytes));
        m->began_at[k] = staged_end(m, k)->position; /* not that of *end now: another block may just have returned it */
    }
}

/* Ends that have moved are this worker's; the others may be those of a block that is still at work. */
BLOCK_SELDOM void ends_return(struct block_memory *m, const struct work_channel *program) {
    if (program->npeers > BLOCK_STAGED_PEERS)
        return;
#pragma unroll 1
    for (uint32_t k = port_lane(); k < 2 * program->npeers; k += port_lanes())
        if (m->table[k] == staged_end(m, k) && m->table[k]->position != m->began_at[k])
            memcpy(bound_end(program, k), m->ends[k].bytes, sizeof(m->ends[k].bytes));
}

/* ---- steps ---- */

/* By all lanes. The steps before those that are loaded here have been done with by all: barriers ended them. */
BLOCK_FN const struct prog_step *step_at(struct block_memory *m, uint32_t pc) {
    uint32_t first = pc / BLOCK_WINDOW_STEPS * BLOCK_WINDOW_STEPS;
    if (m->window_first != first) {
        port_sync();
        uint32_t nsteps = m->worker.nsteps - first;
        const struct prog_step *steps = m->op.steps + m->worker.first_step + first;
#pragma unroll 1
        for (uint32_t k = port_lane(); k < nsteps && k < BLOCK_WINDOW_STEPS; k += port_lanes())
            m->window[k] = steps[k];
        if (port_lane() == 0)
            m->window_first = first;
        port_sync();
    }
    return &m->window[pc - first];
}

/* By all lanes: what any of them found, told to all; the worst first. */
BLOCK_FN enum work_failure failure_of_any(enum work_failure failure) {
    if (!port_any(failure != WORK_FINE))
        return WORK_FINE;
    if (port_any(failure == WORK_FOREIGN))
        return WORK_FOREIGN;
    if (port_any(failure == WORK_MISMATCH))
        return WORK_MISMATCH;
    return port_any(failure == WORK_TIMEOUT) ? WORK_TIMEOUT : WORK_ABORTED;
}

/* By lane 0. */
template <class R>
BLOCK_FN void block_list(struct block_memory *m, const struct prog_step *step, uint64_t round, uint32_t bytes,
                         const struct interp_piece *first) {
    struct interp_worker *w = &m->worker;
    w->round = round;
    m->lists.nsrc = (uint32_t)interp_gather(w, step, bytes, first, PROTO_EACH_END);
    m->lists.ndst = (uint32_t)interp_scatter(w, step, bytes, (int)m->lists.nsrc, first, PROTO_EACH_END);
    m->lists.divisor = step->finish ? m->op.args.divisor : 1;
    m->lists.scaled = interp_scaled(&m->op, step);
    m->lists.factor = m->op.args.factor;
    m->lists.mirror = m->op.args.mirror;
    if constexpr (R::in_teams)
        team_list<R>(&m->team, &m->op, step, &m->lists, bytes);
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

/* By all lanes: the lists go from piece to piece. */
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
        port_sync(); /* all have read the lists */
        if (port_lane() == 0)
            interp_next(&m->worker, step, i, padded, (int)m->lists.nsrc, (int)m->lists.ndst, &piece);
        port_sync();
    }
}

/* ---- counters of plain payload, by lane 0 ----
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
    struct prog_step *step = &m->untold;
    port_fence(); /* one for all counters of the step */
#pragma unroll 1
    for (int k = 0; k < step->send_count; k++)
        fifo_tell_tail(m->op.send_ends[step->send_first + k]);
#pragma unroll 1
    for (int k = 0; k < step->recv_count; k++)
        fifo_tell_head(m->op.recv_ends[step->recv_first + k]);
    step->send_count = step->recv_count = 0;
}

BLOCK_FN void counters_tell_if_any(struct block_memory *m) {
    if (m->untold.send_count + m->untold.recv_count > 0)
        counters_tell(m);
}

/* The step is done: its ends go on. */
BLOCK_FN void counters_keep(struct block_memory *m, const struct prog_step *step) {
#pragma unroll 1
    for (int k = 0; k < step->send_count; k++)
        simple_finish(m->op.send_ends[step->send_first + k]);
#pragma unroll 1
    for (int k = 0; k < step->recv_count; k++)
        simple_leave(m->op.recv_ends[step->recv_first + k]);
    m->untold = *step;
}

/* ---- a step ---- */

/* By lane 0: until it can begin. */
template <class R, class P>
BLOCK_FN enum work_failure step_await(struct block_memory *m, const struct prog_step *step, uint64_t round,
                                      uint32_t bytes, const struct interp_piece *first, struct work_status *status) {
    struct interp_worker *w = &m->worker;
    w->arrived = 0;
    if (!P::has_lines && interp_ready(w, step, bytes, PROTOCOL_SIMPLE) != INTERP_STEPPED)
        counters_tell_if_any(m);
    enum work_failure failure = wait_step(w, step, bytes, status);
    if (failure != WORK_FINE || P::has_lines || (failure = loans_take(&m->op, step)) != WORK_FINE)
        return failure;
    block_list<R>(m, step, round, bytes, first);
    return WORK_FINE;
}

/* Slots of plain payload are operands and places of a reduction by all lanes; with lines every lane does its own. Barriers
 * stand around that: before it, positions of the ends are the last step's, credit is there, and so is plain payload; after
 * it, all lanes have taken what they read and stored what is published. Each protocol's is a function of its own, which has
 * all registers. */
template <class R, class P>
BLOCK_SELDOM enum work_failure block_step(struct block_memory *m, const struct prog_step *step, uint64_t round,
                                          uint32_t bytes, const struct interp_piece *first,
                                          struct work_status *status) {
    struct interp_worker *w = &m->worker;
    const struct interp_op *op = &m->op;
    enum work_failure failure = WORK_FINE;
    if (port_lane() == 0)
        failure = step_await<R, P>(m, step, round, bytes, first, status);
    if ((failure = failure_of_any(failure)) != WORK_FINE)
        return failure;
    if constexpr (P::has_lines) {
        failure = block_lines<R, P>(w, step, round, status);
    } else {
        if (port_lane() == 0)
            counters_tell_if_any(m);
        block_pieces<R>(m, step, round, first);
    }
#pragma unroll 1
    for (int k = 0; k < step->send_count; k++) {
        struct fifo_end *end = op->send_ends[step->send_first + k];
        proto_seal(proto_kind(P::number, end), &op->args, end, bytes);
    }
    if ((failure = failure_of_any(failure)) != WORK_FINE || port_lane() != 0)
        return failure;
    if constexpr (R::in_teams)
        team_end(&m->team);
    if constexpr (P::has_lines)
        interp_hand_over(op, step, bytes, PROTO_EACH_END);
    else
        counters_keep(m, step);
    return WORK_FINE;
}

/* The step of the call's protocol. */
template <class R>
BLOCK_FN enum work_failure block_protocol_step(struct block_memory *m, const struct prog_step *step, uint64_t round,
                                               uint32_t bytes, const struct interp_piece *first,
                                               struct work_status *status) {
#define BLOCK_STEP(NAME, name, text, slots, unit, line, costs)                                                         \
    if (m->op.args.protocol == PROTOCOL_##NAME)                                                                        \
        return block_step<R, block_protocol<PROTOCOL_##NAME>>(m, step, round, bytes, first, status);
    PROTOCOLS(BLOCK_STEP)
    return WORK_ABORTED;
}

/* ---- a worker ---- */

/* By lane 0. */
BLOCK_SELDOM void block_begin(struct block_memory *m, const struct work *work, uint32_t channel, uint32_t worker) {
    const struct work_channel *program = &work->program->channels[channel];
    struct interp_op *op = &m->op;
    struct interp_worker *w = &m->worker;
    op->steps = program->steps;
    op->locals = program->locals;
    op->memory = program->memory;
    op->args = work->args;
    op->args.factor = interp_factor(&work->args);
    op->geometry = work_geometry(&work->args, channel);
    for (int region = 0; region < STEP_REGIONS; region++)
        op->extents[region] = NULL; /* counts of blocks are not for GPUs */
    w->op = op;
    w->first_step = program->workers[worker].first_step;
    w->nsteps = program->workers[worker].nsteps;
    w->lent = 0;
    /* This block waits for a loan at every end. A loan that this block does not copy may be copied by another block. */
    op->lends_from = program->npeers <= BLOCK_STAGED_PEERS ? program->lends_from : 0;
    for (int region = 0; region < STEP_REGIONS; region++)
        op->lends[region] = work->lends[region];
    op->apart = 1; /* else `lends` has no IN */
    op->root_reduces = 0;
    bool few = program->list_entries <= BLOCK_STAGED_LIST;
    void **lists = program->lists + (uint64_t)worker * program->list_entries;
    w->src = few ? m->src : (const void **)lists;
    w->dst = few ? m->dst : lists + program->recv_entries;
    m->lists.src = w->src;
    m->lists.dst = w->dst;
    m->window_first = ~0u;
    m->untold.send_count = m->untold.recv_count = 0;
    m->team.teams = work->program->teams;
    m->team.does = TEAM_NOTHING;
}

/* Tells the host about the first failure of the rank. */
BLOCK_SELDOM void block_report(const struct block_memory *m, const struct work *work, uint32_t channel,
                               enum work_failure failure) {
    struct work_status *status = work->status;
    if (failure == WORK_ABORTED || port_word_claim(&status->claimed))
        return;
    status->peer = work->program->channels[channel].peers[m->worker.blocked_on].rank;
    status->collective = work->collective;
    status->sequence = work->args.sequence;
    if (failure == WORK_MISMATCH) {
        const struct fifo_slot_header *header = fifo_header(m->op.recv_ends[m->worker.blocked_on]);
        status->bytes = fifo_word_bytes(header->word);
        status->their_sequence = header->sequence;
    }
    port_word_store_release(&status->failure, failure); /* pairs with exec_gpu_check() */
}

/* By all lanes: all steps of all rounds. */
template <class R> BLOCK_FN enum work_failure block_rounds(struct block_memory *m, const struct work *work) {
    uint64_t nrounds = m->op.geometry.nrounds;
    uint32_t nsteps = m->worker.nsteps;
    for (uint64_t round = 0; round < nrounds; round++) {
#pragma unroll 1
        for (uint32_t pc = 0; pc < nsteps; pc++) {
            const struct prog_step *step = step_at(m, pc);
            struct interp_piece first = interp_piece_of(&m->op, step, 0, round);
            uint32_t bytes = interp_payload(&m->op, step, round, &first);
            if (interp_skips(&m->op, bytes))
                continue;
            enum work_failure failure = block_protocol_step<R>(m, step, round, bytes, &first, work->status);
            if (failure != WORK_FINE)
                return failure;
        }
    }
    return WORK_FINE;
}

/* By all lanes; the vote is the barrier before ends_return(). The buffers are the program's again when it returns. */
BLOCK_FN enum work_failure block_end(struct block_memory *m, const struct work_channel *program,
                                     struct work_status *status) {
    enum work_failure failure = WORK_FINE;
    if (port_lane() == 0)
        counters_tell_if_any(m);
    if (port_lane() == 0 && m->worker.lent > 0)
        failure = loans_wait(m->op.send_ends, program->npeers, status, &m->worker.blocked_on);
    return failure_of_any(failure);
}

/* By lane 0 of a block that has failed: what this call has lent is the program's again. Only ends that are copied here lend. */
BLOCK_SELDOM void block_take_back(struct block_memory *m, const struct work_channel *program) {
    for (uint32_t k = program->npeers; m->worker.lent > 0 && k < 2 * program->npeers; k++)
        if (m->table[k] == staged_end(m, k))
            loans_end(m->table[k], m->began_at[k]);
}

/* By all lanes: block `index` of a work. */
template <class R> BLOCK_FN void block_run(struct block_memory *m, const struct work *work, uint32_t index) {
    uint32_t channel = work->first_channel, worker = index;
    for (; worker >= work->program->channels[channel].nworkers; channel++)
        worker -= work->program->channels[channel].nworkers;
    const struct work_channel *program = &work->program->channels[channel];
    if (port_lane() == 0)
        block_begin(m, work, channel, worker);
    ends_take(m, program);
    port_sync();
    enum work_failure failure = block_rounds<R>(m, work);
    if (failure == WORK_FINE)
        failure = block_end(m, program, work->status);
    if (failure == WORK_FINE)
        ends_return(m, program);
    else if (port_lane() == 0) {
        block_report(m, work, channel, failure);
        block_take_back(m, program);
    }
}

/* By all lanes of block `block` of a launch. */
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
