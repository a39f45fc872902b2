/* SPDX-License-Identifier: Apache-2.0
 *
 * A block of lanes runs one worker of a program: what interp.h does on the host, with the waits inside the steps.
 *
 *    struct block_memory (shared by the lanes)
 *      op, worker    as in worker.h; only lane 0 writes them
 *      own           what the block runs
 *      window        the next steps of the program; a ring of 4096 ranks has many times as many
 *      home          where the connection ends are in the GPU's memory
 *      ends          copies of them: their positions move here and return at the end. Of a table of more peers than find room
 *                    here, those of a step, from step to step
 *      lists         operands and places of the step in Simple
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

/* The ends of a step whose counters are not stored yet. */
struct block_untold {
    int32_t recv_first, recv_count, send_first, send_count;
};

struct block_memory : interp_block {
    struct work_block own;
    struct block_team team;
    uint32_t window_first; /* of the worker's steps */
    struct prog_step window[BLOCK_WINDOW_STEPS];
    struct fifo_end *home[2 * INTERP_BLOCK_PEERS];
    uint64_t began_at[2 * INTERP_BLOCK_PEERS]; /* positions of the ends at first */
    struct block_untold untold;
};

/* Of the block that runs: on a GPU a constant, so the compiler knows where everything in it is. */
#if defined(__CUDACC__)
static __shared__ struct block_memory block_shared;
#endif
BLOCK_FN struct block_memory *block_own(struct block_memory *m) {
#if defined(__CUDA_ARCH__)
    return &block_shared;
#else
    return m;
#endif
}

/* ---- copies, by all lanes: neighbours copy neighbouring words, so the words of all are on their way at once ---- */

template <class W> BLOCK_FN W word_at(const void *from, uint32_t k) {
    W word;
    memcpy(&word, __builtin_assume_aligned((const char *)from + k * sizeof(W), sizeof(W)), sizeof(W));
    return word;
}

template <class W> BLOCK_FN void word_put(void *to, uint32_t k, W word) {
    memcpy(__builtin_assume_aligned((char *)to + k * sizeof(W), sizeof(W)), &word, sizeof(W));
}

/* ---- ends ---- */

/* Entries of the peer table whose ends are in shared memory at a time: all, or those of a step. */
struct block_company {
    uint32_t recv_first, nrecv, send_first, nsend;
};

BLOCK_FN bool ends_fit(const struct work_block *own) { return own->npeers <= INTERP_BLOCK_PEERS; }

BLOCK_FN struct block_company company_of_all(const struct work_block *own) {
    uint32_t n = ends_fit(own) ? own->npeers : 0;
    return {0, n, 0, n};
}

/* The host refuses programs with a step that has more (exec/gpu_program.c). */
BLOCK_FN struct block_company company_of_step(const struct prog_step *step) {
    return {(uint32_t)step->recv_first, (uint32_t)step->recv_count, (uint32_t)step->send_first,
            (uint32_t)step->send_count};
}

/* The place of the k-th of them. */
BLOCK_FN uint32_t company_place(const struct block_company *c, uint32_t k) {
    return k < c->nrecv ? k : INTERP_BLOCK_PEERS + k - c->nrecv;
}

BLOCK_FN uint16_t place_at(uint32_t place) { return (uint16_t)(place * sizeof(struct interp_end)); }

/* A peer may stand in the table more than once, for steps that have it in different company: the first place of its end. */
BLOCK_FN uint32_t first_of_end(const struct block_memory *m, uint32_t place) {
    uint32_t first = place < INTERP_BLOCK_PEERS ? 0 : INTERP_BLOCK_PEERS;
    while (m->home[first] != m->home[place])
        first++;
    return first;
}

/* By all lanes: where the ends are. */
BLOCK_FN void ends_find(struct block_memory *m, const struct work_block *own, const struct block_company *c) {
#pragma unroll 1
    for (uint32_t k = port_lane(); k < c->nrecv + c->nsend; k += port_lanes()) {
        uint32_t entry = k < c->nrecv ? c->recv_first + k : own->npeers + c->send_first + k - c->nrecv;
        m->home[company_place(c, k)] = *(struct fifo_end *const *)port_global(&own->ends[entry]);
    }
    if (port_lane() == 0) {
        m->recv_base = c->recv_first;
        m->send_base = c->send_first;
    }
}

/* After a barrier: copies them, each once. */
BLOCK_SELDOM void ends_take(struct block_memory *m, struct block_company c) {
    const uint32_t position = offsetof(struct fifo_end, position) / sizeof(uint64_t), n = c.nrecv + c.nsend;
    m = block_own(m);
#pragma unroll 1
    for (uint32_t k = port_lane(); k < n; k += port_lanes()) {
        uint32_t place = company_place(&c, k);
        m->at[place] = m->home[place] != NULL ? place_at(first_of_end(m, place)) : INTERP_NO_END;
    }
#pragma unroll 1
    for (uint32_t k = port_lane(); k < n * INTERP_END_WORDS; k += port_lanes()) {
        uint32_t place = company_place(&c, k / INTERP_END_WORDS), word = k % INTERP_END_WORDS;
        if (m->home[place] == NULL)
            continue;
        m->ends[place].words[word] = word_at<uint64_t>(port_global(m->home[place]), word);
        if (word == position)
            m->began_at[place] =
                m->ends[place].words[word]; /* not that at home: another block may just have returned it */
    }
}

/* Ends that have moved are this worker's; the others may be those of a block that is still at work. */
BLOCK_FN bool end_has_moved(struct block_memory *m, uint32_t place) {
    return m->at[place] == place_at(place) && interp_block_end(m, m->at[place])->position != m->began_at[place];
}

BLOCK_SELDOM void ends_return(struct block_memory *m, struct block_company c) {
    m = block_own(m);
#pragma unroll 1
    for (uint32_t k = port_lane(); k < (c.nrecv + c.nsend) * INTERP_END_WORDS; k += port_lanes()) {
        uint32_t place = company_place(&c, k / INTERP_END_WORDS), word = k % INTERP_END_WORDS;
        if (end_has_moved(m, place))
            word_put((void *)port_global(m->home[place]), word, m->ends[place].words[word]);
    }
}

/* ---- steps ---- */

/* By all lanes, between barriers. */
BLOCK_FN void window_load(struct block_memory *m, uint32_t first) {
    const uint32_t words = sizeof(struct prog_step) / sizeof(uint32_t);
    const void *from = port_global(m->own.steps + first);
    uint32_t nsteps = m->own.nsteps - first;
    if (nsteps > BLOCK_WINDOW_STEPS)
        nsteps = BLOCK_WINDOW_STEPS;
#pragma unroll 1
    for (uint32_t k = port_lane(); k < nsteps * words; k += port_lanes())
        word_put(m->window, k, word_at<uint32_t>(from, k));
    if (port_lane() == 0)
        m->window_first = first;
}

/* By all lanes. The steps before those that are loaded here have been done with by all: barriers ended them. */
BLOCK_FN const struct prog_step *step_at(struct block_memory *m, uint32_t pc) {
    uint32_t first = pc / BLOCK_WINDOW_STEPS * BLOCK_WINDOW_STEPS;
    if (m->window_first != first) {
        port_sync();
        window_load(m, first);
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

/* By lane 0, of a step of plain payload. */
template <class R>
BLOCK_FN void block_list(struct block_memory *m, const struct prog_step *step, uint64_t round, uint32_t bytes,
                         const struct interp_piece *first) {
    struct interp_worker *w = &m->worker;
    w->round = round;
    m->lists.nsrc = (uint32_t)interp_gather(w, step, bytes, first, PROTOCOL_SIMPLE);
    m->lists.ndst = (uint32_t)interp_scatter(w, step, bytes, (int)m->lists.nsrc, first, PROTOCOL_SIMPLE);
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
    m = block_own(m);
    struct block_untold *step = &m->untold;
    port_fence(); /* one for all counters of the step */
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

/* The step is done: its ends go on. */
BLOCK_FN void counters_keep(struct block_memory *m, const struct prog_step *step) {
#pragma unroll 1
    for (int k = 0; k < step->send_count; k++)
        simple_finish(interp_send_end(&m->op, step->send_first + k));
#pragma unroll 1
    for (int k = 0; k < step->recv_count; k++)
        simple_leave(interp_recv_end(&m->op, step->recv_first + k));
    m->untold = {step->recv_first, step->recv_count, step->send_first, step->send_count};
}

/* ---- a step ---- */

/* By lane 0: until it can begin. */
template <class R, class P>
BLOCK_FN enum work_failure step_await(struct block_memory *m, const struct prog_step *step, uint64_t round,
                                      uint32_t bytes, const struct interp_piece *first, struct work_status *status) {
    struct interp_worker *w = &m->worker;
    enum work_failure failure = WORK_FINE;
    w->arrived = 0;
    if (P::has_lines || interp_ready(w, step, bytes, PROTOCOL_SIMPLE) != INTERP_STEPPED) {
        if (!P::has_lines)
            counters_tell_if_any(m);
        failure = wait_step<P>(w, step, bytes, status);
    }
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
BLOCK_SELDOM enum work_failure block_step(struct block_memory *m, uint32_t at, uint64_t round, uint32_t bytes,
                                          struct interp_piece first, struct work_status *status) {
    m = block_own(m);
    const struct prog_step *step = &m->window[at];
    struct interp_worker *w = &m->worker;
    const struct interp_op *op = &m->op;
    enum work_failure failure = WORK_FINE;
    if (port_lane() == 0)
        failure = step_await<R, P>(m, step, round, bytes, &first, status);
    if ((failure = failure_of_any(failure)) != WORK_FINE)
        return failure;
    if constexpr (P::has_lines) {
        failure = block_lines<R, P>(w, step, round, status);
    } else {
        if (port_lane() == 0)
            counters_tell_if_any(m);
        block_pieces<R>(m, step, round, &first);
    }
#pragma unroll 1
    for (int k = 0; k < step->send_count; k++) {
        struct fifo_end *end = interp_send_end(op, step->send_first + k);
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
BLOCK_FN enum work_failure block_protocol_step(struct block_memory *m, uint32_t at, uint64_t round, uint32_t bytes,
                                               const struct interp_piece *first, struct work_status *status) {
#define BLOCK_STEP(NAME, name, text, slots, unit, line, costs)                                                         \
    if (m->op.args.protocol == PROTOCOL_##NAME)                                                                        \
        return block_step<R, block_protocol<PROTOCOL_##NAME>>(m, at, round, bytes, *first, status);
    PROTOCOLS(BLOCK_STEP)
    return WORK_ABORTED;
}

/* ---- a worker ---- */

/* By all lanes: what the block runs. */
BLOCK_FN void own_take(struct block_memory *m, const struct work *work, uint32_t index) {
    const void *from = port_global(&work->blocks[index]);
#pragma unroll 1
    for (uint32_t k = port_lane(); k < sizeof(m->own) / sizeof(uint64_t); k += port_lanes())
        word_put(&m->own, k, word_at<uint64_t>(from, k));
}

/* By lane 0, after a barrier. */
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
    w->lent = 0;
    /* This block waits for a loan at every end. A loan that this block does not copy may be copied by another block. */
    op->lends_from = ends_fit(own) ? own->lends_from : 0;
    for (int region = 0; region < STEP_REGIONS; region++)
        op->lends[region] = work->lends[region];
    op->apart = 1; /* else `lends` has no IN */
    op->root_reduces = 0;
    m->untold.send_count = m->untold.recv_count = 0;
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

/* By all lanes: the ends of a step, and no others. */
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

/* By all lanes: all steps of all rounds. */
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

/* By all lanes; the vote is the barrier before ends_return(). The buffers are the program's again when it returns. */
BLOCK_FN enum work_failure block_end(struct block_memory *m, struct work_status *status) {
    enum work_failure failure = WORK_FINE;
    if (port_lane() == 0)
        counters_tell_if_any(m);
    if (port_lane() == 0 && m->worker.lent > 0)
        failure = loans_wait(m, m->own.npeers, status);
    return failure_of_any(failure);
}

/* By lane 0 of a block that has failed: what this call has lent is the program's again. Only ends of a table that fits lend. */
BLOCK_SELDOM void block_take_back(struct block_memory *m) {
    m = block_own(m);
    for (uint32_t k = 0; m->worker.lent > 0 && k < m->own.npeers; k++) {
        uint32_t place = INTERP_BLOCK_PEERS + k;
        if (m->at[place] == place_at(place))
            loans_end(interp_block_end(m, m->at[place]), m->began_at[place]);
    }
}

/* By all lanes: block `index` of a work. What it needs comes in three waves, each of which knows where the next one is. */
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
