/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls with direct ends: some payloads are lent, and some of the operands were (layers/memory/loan.h). Such a call has a visit of its own:
 *
 *    visit_first ──▶ begin: what each worker lends; landings are announced
 *        │
 *        ▼          ready? ──▶ borrow ──▶ lend ──▶ the step, as in each call ──▶ … all steps are done
 *    visit                                                                       │
 *                   the worker is done ◀── all that it has lent was read ◀── waits, helps to copy
 *
 * A payload that a step only stores is copied to its final place. A payload that a step reduces is read where it lies, if this process can
 * reach it by address. Otherwise it is copied into the worker's scratch. Scratch is always the same memory, so the payload is in the rank's
 * own cache when it is reduced.
 */
#include "base/memory.h"
#include "exec/visit.h"
#include "kernels/lend.h"
#include "layers/memory/commons.h"
#include "layers/memory/loan.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>

/* What direct ends need of a worker in a call. */
struct direct_worker {
    struct interp_lends lends;
    uint32_t borrows_from; /* Minimum bytes of a payload that any end borrows; 0: no end borrows */
    bool lands;            /* The worker offers places to its producers */
    bool waits;            /* All steps are done, but consumers may still read what the worker has lent */
    uint32_t said_pc;      /* With said_round, the first step whose landings are not announced yet */
    uint64_t said_round;
};

/* ---- what was lent to a step ---- */

/* Will the step hold this payload and read it where it lies, instead of copying it? A rank that holds a payload must not wait, because the
 * payload's owner waits for this rank if its call fails. So payloads that are copied are fetched before any other is held. */
static bool is_held(const struct fifo_end *end, uint32_t bytes, const char *to) {
    return to == NULL && loan_is_near(end, bytes);
}

/* The address where a step stores its only operand unchanged; NULL: the step has more operands, or changes its operand. */
static char *place_of(const struct interp_op *op, const struct prog_step *step, uint64_t round,
                      const struct interp_piece *piece) {
    bool copies = step->recv_count == 1 && step->locals_count == 0 && step->count == 1 &&
                  step->store_region == STEP_OUT && !(step->finish && op->args.divisor > 1);
    return copies ? interp_store(op, step, 0, round, piece) : NULL;
}

static bool fetch_all(struct interp_worker *w, const struct prog_step *step, uint32_t bytes, char *to) {
    for (int k = 0; k < step->recv_count; k++) {
        struct fifo_end *end = w->op->recv_ends[step->recv_first + k];
        if (!loan_is_open(end) || is_held(end, bytes, to) ||
            loan_fetch(end, bytes, to != NULL ? to : interp_scratch(w, (uint32_t)k)))
            continue;
        w->blocked_on = (uint32_t)(step->recv_first + k);
        w->blocked_sending = 0;
        return false;
    }
    return true;
}

static bool hold_all(struct interp_worker *w, const struct prog_step *step, uint32_t bytes) {
    struct fifo_end *const *ends = &w->op->recv_ends[step->recv_first];
    for (int k = 0; k < step->recv_count; k++) {
        if (!loan_is_open(ends[k]) || loan_hold(ends[k], bytes))
            continue;
        w->blocked_on = (uint32_t)(step->recv_first + k);
        w->blocked_sending = 0;
        while (k-- > 0)
            if (ends[k]->loans.taken != NULL && loan_is_near(ends[k], bytes))
                loan_drop(ends[k], bytes);
        return false;
    }
    return true;
}

static bool any_is_lent(const struct interp_op *op, const struct prog_step *step) {
    for (int k = 0; k < step->recv_count; k++)
        if (direct_is_lent(fifo_header(op->recv_ends[step->recv_first + k])))
            return true;
    return false;
}

/* Fetches the payloads that the step's peers have lent. Call it after all operands have arrived. False: not all payloads have come yet. */
static bool borrow(struct interp_worker *w, const struct interp_try *next) {
    const struct prog_step *step = next->step;
    if (w->direct->borrows_from - 1 >= next->bytes || !any_is_lent(w->op, step))
        return true;
    char *to = place_of(w->op, step, w->round, &next->piece);
    return fetch_all(w, step, next->bytes, to) && hold_all(w, step, next->bytes);
}

/* ---- landings ---- */

/* The first position whose landing is not announced yet. */
static uint64_t next_landing(const struct fifo_end *end) {
    return (int64_t)(end->loans.landings_end - end->position) > 0 ? end->loans.landings_end : end->position;
}

static bool has_room(const struct interp_op *op, const struct prog_step *step) {
    for (int k = 0; k < step->recv_count; k++) {
        const struct fifo_end *end = op->recv_ends[step->recv_first + k];
        if (next_landing(end) - end->position >= end->nslots)
            return false;
    }
    return true;
}

static void say_where(const struct interp_op *op, const struct prog_step *step, uint32_t bytes, char *to) {
    for (int k = 0; k < step->recv_count; k++) {
        struct fifo_end *end = op->recv_ends[step->recv_first + k];
        bool lands = to != NULL && loan_can_land(&end->loans, (uintptr_t)to, bytes);
        struct loan_landing landing = {lands ? to : NULL, next_landing(end), bytes};
        loan_land(&end->loans, landing);
        if (lands && end->loans.way != LOAN_WIRE)
            loan_offer(end, landing);
    }
}

/* The address where a step's payload may land; NULL: into the slot. The current step's payload may land now. A later step's payload may
 * land early if no other step touches its place. */
static char *landing_of(const struct interp_worker *w, const struct prog_step *step, const struct interp_piece *piece) {
    const struct direct_worker *direct = w->direct;
    bool now = direct->said_round == w->round && direct->said_pc == w->pc;
    bool early = direct->lends.apart && step->lands == STEP_LANDS_EARLY;
    return now || early ? place_of(w->op, step, direct->said_round, piece) : NULL;
}

/* Announces landings, from where the last call stopped, or from the worker's current step if that is later. A slot without a landing is
 * announced too (with NULL), so that positions are counted right. */
static void announce(struct interp_worker *w) {
    const struct interp_op *op = w->op;
    struct direct_worker *direct = w->direct;
    if (direct->said_round < w->round || (direct->said_round == w->round && direct->said_pc < w->pc)) {
        direct->said_round = w->round;
        direct->said_pc = w->pc;
    }
    while (direct->said_round < op->geometry.nrounds) {
        const struct prog_step *step = &op->steps[w->first_step + direct->said_pc];
        struct interp_piece piece = interp_piece_of(op, step, 0, direct->said_round);
        uint32_t bytes = interp_payload(op, step, direct->said_round, &piece);
        if (!has_room(op, step))
            return;
        if (!interp_skips(op, bytes))
            say_where(op, step, bytes, landing_of(w, step, &piece));
        direct->said_pc = (direct->said_pc + 1) % w->nsteps;
        direct->said_round += direct->said_pc == 0;
    }
}

/* If consumers have offered landings for a result that would be lent, adds these to the step's places. Then the consumers need not fetch
 * the result. Returns the number of places. */
static int land(struct interp_worker *w, const struct prog_step *step, int ndst, uint32_t bytes,
                uint32_t *stream_mask) {
    for (int k = 0; k < step->send_count; k++) {
        struct fifo_end *end = w->op->send_ends[step->send_first + k];
        if (end->loans.lending == 0 || end->loans.way == LOAN_WIRE)
            continue;
        char *to = loan_land_there(end, bytes);
        if (to == NULL && loan_will_carry(end, bytes))
            end->loans.lending = LOAN_CARRIED;
        if (to == NULL)
            continue;
        end->loans.lending = LOAN_LANDED;
        if (ndst < 32 && (w->op->stream_stores || fifo_place_streams(&end->place)))
            *stream_mask |= 1u << ndst;
        w->dst[ndst++] = to;
    }
    return ndst;
}

/* Call it after the result is computed: the operating system copies the result to offered places that only it can reach. */
static void carry(struct interp_worker *w, const struct prog_step *step, uint32_t bytes) {
    for (int k = 0; k < step->send_count; k++) {
        struct fifo_end *end = w->op->send_ends[step->send_first + k];
        if (end->loans.lending == LOAN_CARRIED)
            end->loans.lending = loan_carry(end, w->dst[0], bytes);
    }
}

/* ---- a step ---- */

/* Returns a bit for each place that is written past the caches, as stream_mask() of exec_host.c does. A lent payload lies in the local place,
 * which has bit 0. A result that the operating system copies on at once stays in the caches. */
static uint32_t stream_mask(const struct interp_op *op, const struct prog_step *step) {
    int first_slot = step->store_region != STEP_NONE;
    uint32_t mask = first_slot && op->stream_stores, carried = 0;
    for (int k = 0, place = first_slot; k < step->send_count && place < 32; k++) {
        struct fifo_end *end = op->send_ends[step->send_first + k];
        if (end->loans.lending == 0)
            mask |= (uint32_t)exec_end_streams(end) << place++;
        else if (end->loans.lending == LOAN_CARRIED)
            carried = 1; /* The operating system reads the local place */
        else if (step->lends == STEP_LENDS_RESULT && end->loans.lending != LOAN_LANDED)
            mask |= (uint32_t)exec_end_streams(end);
    }
    return mask & ~carried;
}

static void direct_reduce(struct interp_worker *w, const struct prog_step *step, int ndst, int nsrc, uint64_t count) {
    const uint64_t bytes = count * w->op->args.elem_bytes;
    uint32_t mask = 0;
    bool lands = w->direct->lends.from - 1 < bytes && step->lends == STEP_LENDS_RESULT && nsrc > 1;
    if (lands)
        ndst = land(w, step, ndst, (uint32_t)bytes, &mask);
    mask |= bytes < STREAM_MIN_BYTES ? 0 : stream_mask(w->op, step);
    reduce_host_step(w, step, ndst, nsrc, count, mask);
    if (lands)
        carry(w, step, (uint32_t)bytes);
}

static inline enum interp_result direct_ready_for(struct interp_worker *w, const struct interp_try *next) {
    if (interp_skips(w->op, next->bytes))
        return INTERP_STEPPED;
    enum interp_result ready = interp_ready(w, next->step, next->bytes, PROTOCOL_DIRECT);
    return ready == INTERP_STEPPED && !borrow(w, next) ? INTERP_BUSY : ready;
}

/* Between borrow() and the end of the step, nothing is waited for: see is_held(). */
static inline enum interp_result direct_try(struct interp_worker *w, const struct interp_try *next,
                                            interp_reduce *reduce, uint32_t everywhere) {
    enum interp_result ready = direct_ready_for(w, next);
    if (ready == INTERP_BUSY && w->direct->lands)
        announce(w);
    if (ready != INTERP_STEPPED)
        return ready;
    interp_lend(w, &w->direct->lends, next->step, next->bytes, &next->piece);
    return interp_try_step(w, next, reduce, everywhere);
}

/* ---- a call begins ---- */

/* Are the parts of IN and OUT that the program touches apart from each other? */
static bool exec_is_out_of_place(const struct interp_op *op, const struct prog *prog) {
    const struct work_args *args = &op->args;
    uint64_t bytes[STEP_REGIONS];
    if (!prog_reads_in(prog))
        return true;
    for (int region = STEP_IN; region <= STEP_OUT; region++) {
        uint64_t blocks = args->block_elems * op->memory.nblocks[region];
        bytes[region] = (blocks > args->row_elems ? blocks : args->row_elems) * args->elem_bytes;
    }
    const uintptr_t in = (uintptr_t)args->in, out = (uintptr_t)args->out; /* NULL if unused */
    return op->extents[STEP_OUT] == NULL && (in + bytes[STEP_IN] <= out || out + bytes[STEP_OUT] <= in);
}

/* What the ends of a program can do. */
struct direct_limits {
    /* Minimum bytes of a payload that is lent, is borrowed, or may go to its final place directly; 0: none is, or may. */
    uint32_t lends_from, borrows_from, lands_from;
    bool receives;
    const struct commons *only; /* Ends lend and offer only memory of these commons; NULL: any memory */
};

/* The smaller one of two minima. A minimum of 0 means that there is none, so the other one is returned. */
static uint32_t least_of(uint32_t a, uint32_t b) { return a - 1 < b - 1 ? a : b; }

static struct direct_limits limits_of(const struct exec_program *program) {
    struct direct_limits limits = {0};
    bool any = false, root_reduces = prog_root_reduces(program->progs[0]->collective);
    for (int k = 0; k < program->nconns; k++) {
        const struct conn *conn = program->conns[k];
        const struct loan_end *end = &conn->end.loans;
        any |= end->least_bytes > 0 && !(root_reduces && end->way == LOAN_HOST); /* interp_lends_to() */
        limits.only = end->commons != NULL ? end->commons : limits.only;
        uint32_t *from = conn->side == CONN_PRODUCER ? &limits.lends_from : &limits.borrows_from;
        *from = least_of(*from, direct_least(end));
        limits.receives |= conn->side == CONN_CONSUMER;
        if (conn->side == CONN_CONSUMER && end->reading == NULL)
            limits.lands_from = least_of(limits.lands_from, direct_least(end));
    }
    limits.only = any ? NULL : limits.only;
    return limits;
}

/* May a slot of the call carry `least` bytes? 0: there is no such minimum, so the answer is no. */
static bool may_carry(const struct exec_call *call, uint32_t least) {
    uint64_t most = work_elems(&call->args, (uint32_t)call->chan->owner.nranks) * call->args.elem_bytes;
    return least > 0 && (least <= most || call->request.extents != NULL);
}

static bool may_lend(const struct exec_call *call, const struct commons *only) {
    return only == NULL || commons_offset(only, (uintptr_t)call->args.in) != 0 ||
           commons_offset(only, (uintptr_t)call->args.out) != 0;
}

static void worker_begin(const struct exec_call *call, int k, const struct direct_limits *limits) {
    const struct exec_program *program = call->program;
    struct interp_worker *w = &program->workers[k];
    const struct prog *prog = program->progs[exec_channel_of(program, k)];
    const bool borrows = may_carry(call, limits->borrows_from);
    w->direct = &program->direct[k];
    *w->direct = (struct direct_worker){.borrows_from = borrows ? limits->borrows_from : 0};
    if (!may_lend(call, limits->only))
        return;
    w->direct->lends = (struct interp_lends){.from = limits->lends_from,
                                             .regions = {[STEP_IN] = 1, [STEP_OUT] = 1},
                                             .apart = exec_is_out_of_place(w->op, prog),
                                             .root_reduces = prog_root_reduces(prog->collective),
                                             .receives = limits->receives};
    w->direct->lands = borrows && limits->lands_from > 0;
    if (w->direct->lands && w->direct->lends.apart)
        announce(w);
}

static enum collet_result call_begin(const struct exec_call *call) {
    struct exec_program *program = call->program;
    const struct direct_limits limits = limits_of(program);
    const size_t nworkers = (size_t)program->first_worker[program->nchannels];
    if (program->direct == NULL)
        COLLET_TRY(
            memory_get(&program->direct, nworkers, sizeof *program->direct, "no memory for %zu workers", nworkers));
    for (int k = 0; k < program->first_worker[call->args.nchannels]; k++)
        worker_begin(call, k, &limits);
    return COLLET_SUCCESS;
}

/* ---- loans end ---- */

/* Copies parts of loans for consumers. If the consumer's CPU is far, the copy goes past this CPU's caches: see fifo_place.h. */
static void help(const struct exec_program *program, bool *moved) {
    for (int k = 0; k < program->nconns; k++) {
        struct fifo_end *end = &program->conns[k]->end;
        if (program->conns[k]->side == CONN_PRODUCER)
            *moved |= loan_help(end, fifo_place_streams(&end->place) ? reduce_host_copy_past_caches : memcpy) != 0;
    }
}

/* Is everything over that the worker has lent? The worker goes through its steps once more for that. */
static bool loans_are_over(struct interp_worker *w) {
    for (; w->pc < w->nsteps; w->pc++) {
        const struct prog_step *step = &w->op->steps[w->first_step + w->pc];
        for (int k = 0; k < step->send_count; k++) {
            struct fifo_end *end = w->op->send_ends[step->send_first + k];
            uint32_t slowest;
            if (direct_is_over(end))
                continue;
            fifo_load_heads(end, &slowest);
            w->blocked_on = (uint32_t)(step->send_first + k) + slowest;
            w->blocked_sending = 1;
            return false;
        }
    }
    w->pc = 0;
    return true;
}

/* Do all other workers of the call come before this one, or are done? */
static bool is_last(const struct exec_call *call, const struct interp_worker *w) {
    const struct exec_program *program = call->program;
    const struct interp_worker *end = &program->workers[program->first_worker[call->args.nchannels]];
    while (++w < end && w->done)
        ;
    return w == end;
}

/* ---- visits ---- */

static inline enum collet_result direct_visit(struct exec_call *call, struct interp_worker *w, bool *moved,
                                              bool traced) {
    if (!w->direct->waits)
        COLLET_TRY(exec_worker_visit(call, w, moved, direct_try, direct_reduce, PROTOCOL_DIRECT, traced));
    if (w->done) {
        w->direct->waits = true;
        w->done = 0;
        call->running++;
    }
    if (w->direct->waits && loans_are_over(w)) {
        w->done = 1;
        call->running--;
        *moved = true;
    } else if (!*moved && is_last(call, w))
        help(call->program, moved);
    return COLLET_SUCCESS;
}

__attribute__((flatten, noinline)) static enum collet_result visit_plain(struct exec_call *call,
                                                                         struct interp_worker *w, bool *moved) {
    return direct_visit(call, w, moved, false);
}

__attribute__((flatten, noinline)) static enum collet_result visit_traced(struct exec_call *call,
                                                                          struct interp_worker *w, bool *moved) {
    return direct_visit(call, w, moved, true);
}

/* The first visit of a call begins the call for all of its workers. */
static enum collet_result visit_first(struct exec_call *call, struct interp_worker *w, bool *moved) {
    const struct recorder *recorder = call->chan->recorder;
    COLLET_TRY(call_begin(call));
    call->visit = recorder != NULL && recorder->traces && !exec_leaves_out_trace(call) ? visit_traced : visit_plain;
    return call->visit(call, w, moved);
}

exec_visit *exec_direct_visit(const struct exec_call *call) {
    if (call->args.protocol != PROTOCOL_SIMPLE) /* Slots with lines have no headers */
        return NULL;
    const struct direct_limits limits = limits_of(call->program);
    return may_carry(call, least_of(limits.lends_from, limits.borrows_from)) ? visit_first : NULL;
}

/* ---- failure ---- */

void exec_stop_loans(const struct exec_call *call) {
    const struct exec_program *program = call->program;
    for (int k = 0; k < program->nconns; k++) {
        struct conn *conn = program->conns[k];
        if (conn->state != CONN_READY)
            continue;
        loan_stop(&conn->end, conn->side == CONN_PRODUCER);
        if (conn->transport->stop != NULL)
            conn->transport->stop(conn);
    }
}
