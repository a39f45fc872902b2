/* SPDX-License-Identifier: Apache-2.0
 *
 * Landings: places that a consumer offers, so that its producer stores the payload there and nobody copies it again.
 *
 *    consumer                                                         producer
 *    landings_announce: the places of the next slots ──── words ────▶ landings_add: stores its result there, too
 *         │ NULL │ to │ to │ NULL │  a slot each                      landings_carry: or the operating system copies it there
 */
#ifndef COLLET_LAYERS_MEMORY_LANDINGS_H
#define COLLET_LAYERS_MEMORY_LANDINGS_H

#include "layers/memory/direct.h"

/* The first position whose landing is not announced yet. */
static inline uint64_t next_landing(const struct fifo_end *end) {
    return (int64_t)(end->loans.landings_end - end->position) > 0 ? end->loans.landings_end : end->position;
}

static inline bool has_room(const struct interp_op *op, const struct prog_step *step) {
    for (int k = 0; k < step->recv_count; k++) {
        const struct fifo_end *end = op->recv_ends[step->recv_first + k];
        if (next_landing(end) - end->position >= end->nslots)
            return false;
    }
    return true;
}

static inline void say_where(const struct interp_op *op, const struct prog_step *step, uint32_t bytes, char *to) {
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
static inline char *landing_of(const struct interp_worker *w, const struct prog_step *step,
                               const struct interp_piece *piece) {
    const struct direct_worker *direct = w->direct;
    bool now = direct->said_round == w->round && direct->said_pc == w->pc;
    bool early = direct->lends.apart && step->lands == STEP_LANDS_EARLY;
    return now || early ? direct_place_of(w->op, step, direct->said_round, piece) : NULL;
}

/* Announces landings, from where the last call stopped, or from the worker's current step if that is later. A slot without a landing is
 * announced too (with NULL), so that positions are counted right. */
static inline void landings_announce(struct interp_worker *w) {
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
static inline int landings_add(struct interp_worker *w, const struct prog_step *step, int ndst, uint32_t bytes,
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
static inline void landings_carry(struct interp_worker *w, const struct prog_step *step, uint32_t bytes) {
    for (int k = 0; k < step->send_count; k++) {
        struct fifo_end *end = w->op->send_ends[step->send_first + k];
        if (end->loans.lending == LOAN_CARRIED)
            end->loans.lending = loan_carry(end, w->dst[0], bytes);
    }
}

#endif
