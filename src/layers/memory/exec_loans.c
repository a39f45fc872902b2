/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps whose operands were lent (layers/memory/loan.h). A payload that a step only stores is copied to its final place. A payload that
 * a step reduces is read where it lies, if this process can reach it by address. Otherwise it is copied into the worker's scratch. Scratch
 * is always the same memory, so the payload is in the rank's own cache when it is reduced.
 */
#include "exec/exec.h"
#include "kernels/interp.h"
#include "layers/memory/commons.h"
#include "layers/memory/loan.h"
#include "transport/transport.h"

#include <string.h>

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

enum interp_result exec_borrow(struct interp_worker *w, const struct prog_step *step, uint32_t bytes,
                               const struct interp_piece *piece) {
    char *to = place_of(w->op, step, w->round, piece);
    return fetch_all(w, step, bytes, to) && hold_all(w, step, bytes) ? INTERP_STEPPED : INTERP_BUSY;
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
    bool now = w->said_round == w->round && w->said_pc == w->pc;
    bool early = w->op->apart && step->lands == STEP_LANDS_EARLY;
    return now || early ? place_of(w->op, step, w->said_round, piece) : NULL;
}

/* Announces landings, from where the last call stopped, or from the worker's current step if that is later. A slot without a landing is
 * announced too (with NULL), so that positions are counted right. */
void exec_announce(struct interp_worker *w) {
    const struct interp_op *op = w->op;
    if (w->said_round < w->round || (w->said_round == w->round && w->said_pc < w->pc)) {
        w->said_round = w->round;
        w->said_pc = w->pc;
    }
    while (w->said_round < op->geometry.nrounds) {
        const struct prog_step *step = &op->steps[w->first_step + w->said_pc];
        struct interp_piece piece = interp_piece_of(op, step, 0, w->said_round);
        uint32_t bytes = interp_payload(op, step, w->said_round, &piece);
        if (!has_room(op, step))
            return;
        if (!interp_skips(op, bytes))
            say_where(op, step, bytes, landing_of(w, step, &piece));
        w->said_pc = (w->said_pc + 1) % w->nsteps;
        w->said_round += w->said_pc == 0;
    }
}

/* If consumers have offered landings for a result that would be lent, adds these to the step's places. Then the consumers need not fetch
 * the result. Returns the number of places. */
int exec_land(struct interp_worker *w, const struct prog_step *step, int ndst, uint32_t bytes, uint32_t *stream_mask) {
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

void exec_carry(struct interp_worker *w, const struct prog_step *step, uint32_t bytes) {
    for (int k = 0; k < step->send_count; k++) {
        struct fifo_end *end = w->op->send_ends[step->send_first + k];
        if (end->loans.lending == LOAN_CARRIED)
            end->loans.lending = loan_carry(end, w->dst[0], bytes);
    }
}

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

static bool may_lend(const struct exec_call *call) {
    const struct commons *only = call->program->loans.only;
    return only == NULL || commons_offset(only, (uintptr_t)call->args.in) != 0 ||
           commons_offset(only, (uintptr_t)call->args.out) != 0;
}

void exec_lend(const struct exec_call *call) {
    const struct exec_program *program = call->program;
    if (!may_lend(call))
        return;
    for (uint32_t channel = 0; channel < call->args.nchannels; channel++) {
        struct interp_op *op = &program->ops[channel];
        op->lends_from = program->loans.lends_from;
        op->lands_from = program->loans.lands_from;
        op->apart = exec_is_out_of_place(op, program->progs[channel]);
    }
}

/* ---- a program's ends ---- */

/* The smaller one of two minima. A minimum of 0 means that there is none, so the other one is returned. */
static uint32_t least_of(uint32_t a, uint32_t b) { return a - 1 < b - 1 ? a : b; }

struct exec_loans exec_loans_of(const struct exec_program *program) {
    struct exec_loans loans = {0};
    bool any = false, root_reduces = prog_root_reduces(program->progs[0]->collective);
    for (int k = 0; k < program->nconns; k++) {
        const struct conn *conn = program->conns[k];
        const struct loan_end *end = &conn->end.loans;
        any |= end->least_bytes > 0 && !(root_reduces && end->way == LOAN_HOST); /* interp_lends_to() */
        loans.only = end->commons != NULL ? end->commons : loans.only;
        uint32_t *from = conn->side == CONN_PRODUCER ? &loans.lends_from : &loans.borrows_from;
        *from = least_of(least_of(*from, end->least_bytes), end->least_common_bytes);
        loans.receives |= conn->side == CONN_CONSUMER;
        if (conn->side == CONN_CONSUMER && end->reading == NULL) {
            loans.lands_from = least_of(least_of(loans.lands_from, end->least_bytes), end->least_common_bytes);
        }
    }
    loans.only = any ? NULL : loans.only;
    return loans;
}

/* Copies parts of loans for consumers. If the consumer's CPU is far, the copy goes past this CPU's caches: see fifo_place.h. */
void exec_help(const struct exec_program *program, bool *moved) {
    for (int k = 0; k < program->nconns; k++) {
        struct fifo_end *end = &program->conns[k]->end;
        if (program->conns[k]->side == CONN_PRODUCER)
            *moved |= loan_help(end, fifo_place_streams(&end->place) ? reduce_host_copy_past_caches : memcpy) != 0;
    }
}

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
