/* SPDX-License-Identifier: Apache-2.0
 *
 * The operands of a step that peers have lent:
 *
 *    the step only stores its operand      fetched to its place
 *    it reduces, by address                held: read where it lies, and given back after the step
 *    it reduces, else                      fetched into the worker's scratch: always the same memory, so the payload is in the rank's own
 *                                          cache when it is reduced
 */
#ifndef COLLET_LAYERS_MEMORY_BORROW_H
#define COLLET_LAYERS_MEMORY_BORROW_H

#include "layers/memory/direct.h"

/* Will the step hold this payload and read it where it lies, instead of copying it? A rank that holds a payload must not wait, because the
 * payload's owner waits for this rank if its call fails. So payloads that are copied are fetched before any other is held. */
static inline bool is_held(const struct fifo_end *end, uint32_t bytes, const char *to) {
    return to == NULL && loan_is_near(end, bytes);
}

static inline bool fetch_all(struct interp_worker *w, const struct prog_step *step, uint32_t bytes, char *to) {
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

static inline bool hold_all(struct interp_worker *w, const struct prog_step *step, uint32_t bytes) {
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

static inline bool any_is_lent(const struct interp_op *op, const struct prog_step *step) {
    for (int k = 0; k < step->recv_count; k++)
        if (direct_is_lent(fifo_header(op->recv_ends[step->recv_first + k])))
            return true;
    return false;
}

/* Fetches the payloads that the step's peers have lent. Call it after all operands have arrived. False: not all payloads have come yet. */
static inline bool direct_borrow(struct interp_worker *w, const struct interp_try *next) {
    const struct prog_step *step = next->step;
    if (w->direct->borrows_from - 1 >= next->bytes || !any_is_lent(w->op, step))
        return true;
    char *to = direct_place_of(w->op, step, w->round, &next->piece);
    return fetch_all(w, step, next->bytes, to) && hold_all(w, step, next->bytes);
}

#endif
