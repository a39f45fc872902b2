/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls with direct ends: some payloads are lent, and some of the operands were (layers/memory/loan.h). Such a call has a visit of its own:
 *
 *    visit_first ──▶ begin: what each worker lends; landings are announced
 *        │
 *        ▼          ready? ──▶ borrow ──▶ lend ──▶ the step, as in each call ──▶ … all steps are done
 *    visit                                                                       │
 *                   the worker is done ◀── all that it has lent was read ◀── waits, helps to copy
 */
#include "base/memory.h"
#include "layers/memory/borrow.h"
#include "layers/memory/heap.h"
#include "layers/memory/landings.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>

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
        ndst = landings_add(w, step, ndst, (uint32_t)bytes, &mask);
    mask |= bytes < STREAM_MIN_BYTES ? 0 : stream_mask(w->op, step);
    reduce_host_step(w, step, ndst, nsrc, count, mask);
    if (lands)
        landings_carry(w, step, (uint32_t)bytes);
}

static inline enum interp_result direct_ready_for(struct interp_worker *w, const struct interp_try *next) {
    if (interp_skips(w->op, next->bytes))
        return INTERP_STEPPED;
    enum interp_result ready = interp_ready(w, next->step, next->bytes, PROTOCOL_DIRECT);
    return ready == INTERP_STEPPED && !direct_borrow(w, next) ? INTERP_BUSY : ready;
}

/* Between direct_borrow() and the end of the step, nothing is waited for: see is_held() in borrow.h. */
static inline enum interp_result direct_try(struct interp_worker *w, const struct interp_try *next,
                                            interp_reduce *reduce, uint32_t everywhere) {
    enum interp_result ready = direct_ready_for(w, next);
    if (ready == INTERP_BUSY && w->direct->lands)
        landings_announce(w);
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
    const struct heap *only; /* Ends lend and offer only memory of this shared heap; NULL: any memory */
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
        limits.only = end->heap != NULL ? end->heap : limits.only;
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

static bool may_lend(const struct exec_call *call, const struct heap *only) {
    return only == NULL || heap_offset(only, (uintptr_t)call->args.in) != 0 ||
           heap_offset(only, (uintptr_t)call->args.out) != 0;
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
        landings_announce(w);
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
