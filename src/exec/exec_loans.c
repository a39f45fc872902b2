/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps whose operands were lent (fifo/loan.h). What a step only stores is copied to where it belongs; what it reduces is
 * read where it lies, if this process reaches it, else it is copied into the slot.
 */
#include "exec/exec.h"
#include "transport/transport.h"

#include <string.h>

/* A rank that holds a payload may not wait: the call of the payload's owner may have failed, and that call then waits for this
 * rank. So payloads that are copied come first. */
static bool is_held(const struct fifo_end *end, uint32_t bytes, const char *to) {
    return to == NULL && loan_is_near(end, bytes);
}

/* Where the only operand of a step goes as it is; NULL: it does not. */
static char *place_of(const struct interp_worker *w, const struct prog_step *step, const struct interp_piece *piece) {
    bool copies = step->recv_count == 1 && step->locals_count == 0 && step->count == 1 &&
                  step->store_region == STEP_OUT && !(step->finish && w->op->args.divisor > 1);
    return copies ? interp_store(w->op, step, 0, w->round, piece) : NULL;
}

static bool fetch_all(struct interp_worker *w, const struct prog_step *step, uint32_t bytes, char *to) {
    for (int k = 0; k < step->recv_count; k++) {
        struct fifo_end *end = w->op->recv_ends[step->recv_first + k];
        if (!loan_is_open(end) || is_held(end, bytes, to) || loan_fetch(end, bytes, to))
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
    char *to = place_of(w, step, piece);
    return fetch_all(w, step, bytes, to) && hold_all(w, step, bytes) ? INTERP_STEPPED : INTERP_BUSY;
}

void exec_announce(struct interp_worker *w) {
    const struct prog_step *step = &w->op->steps[w->first_step + w->pc];
    struct fifo_end *end = w->op->recv_ends[w->blocked_on];
    struct interp_piece piece = interp_piece_of(w->op, step, 0, w->round);
    end->loans.landing_bytes = interp_bytes(w->op, &piece);
    bool worth = end->loans.way == LOAN_WIRE && loan_is_worth(&end->loans, 0, end->loans.landing_bytes);
    end->loans.landing_position = end->position;
    end->loans.landing = worth ? place_of(w, step, &piece) : NULL;
}

/* 0 counts as none. */
static uint32_t least_of(uint32_t a, uint32_t b) { return a - 1 < b - 1 ? a : b; }

struct exec_loans exec_loans_of(const struct exec_program *program) {
    struct exec_loans loans = {0};
    for (int k = 0; k < program->nconns; k++) {
        const struct conn *conn = program->conns[k];
        const struct loan_end *end = &conn->end.loans;
        uint32_t *from = conn->side == CONN_PRODUCER ? &loans.lends_from : &loans.borrows_from;
        if (conn->side == CONN_CONSUMER && end->way == LOAN_WIRE)
            loans.lands = true;
        else
            *from = least_of(least_of(*from, end->least_bytes), end->least_common_bytes);
    }
    return loans;
}

static void *copy_past_caches(void *to, const void *from, size_t bytes) {
    reduce_host_get(COLLET_UINT8, COLLET_SUM)(&to, 1, &from, 1, bytes, 1, 1);
    return to;
}

/* What a consumer's CPU holds in its caches, a producer on a far one overwrites past its own: see fifo_place.h. */
void exec_help(const struct exec_program *program, bool *moved) {
    for (int k = 0; k < program->nconns; k++) {
        struct fifo_end *end = &program->conns[k]->end;
        if (program->conns[k]->side == CONN_PRODUCER)
            *moved |= loan_help(end, fifo_place_streams(&end->place) ? copy_past_caches : memcpy) != 0;
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
