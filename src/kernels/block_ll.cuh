/* SPDX-License-Identifier: Apache-2.0
 *
 * A step in LL by all lanes of a block. No lane waits for another one's lines: each takes 8 bytes, polls for them, reduces
 * them in registers and sends them on.
 *
 *    bytes of the chunk   │ 8 │ 8 │ 8 │ … │ 8 │ rest │        unit = lane, lane + lanes, …
 *    lines of a slot      │d f│d f│d f│d f│ …                  two lines a unit, one access
 *
 * Barriers stand around the step: before it, positions of the ends are the last step's, credit is there, and so is what comes
 * over a wire; after it, all lanes have taken what they read, so that credit may be returned.
 */
#ifndef COLLET_KERNELS_BLOCK_LL_CUH
#define COLLET_KERNELS_BLOCK_LL_CUH

#include "kernels/block_ops.cuh"
#include "kernels/block_wait.cuh"
#include "kernels/operands.h"

#define BLOCK_LL_UNIT 8u
#define BLOCK_LL_TOGETHER 4 /* operands of a unit that are polled for at once */

/* `bytes` ≤ 8 bytes at any address; the rest of the unit is 0. */
BLOCK_FN uint64_t unit_load(const char *from, uint32_t bytes) {
    uint64_t unit = 0;
    if (bytes == 8 && (uintptr_t)from % 8 == 0)
        return *(const uint64_t *)(const void *)from;
#pragma unroll 1
    for (uint32_t i = 0; i < bytes; i++)
        unit |= (uint64_t)(uint8_t)from[i] << (8 * i);
    return unit;
}

BLOCK_FN void unit_store(char *to, uint64_t unit, uint32_t bytes) {
    if (bytes == 8 && (uintptr_t)to % 8 == 0) {
        *(uint64_t *)(void *)to = unit;
        return;
    }
#pragma unroll 1
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = (char)(unit >> (8 * i));
}

/* Which of the ends has no unit for us yet, and is it because it has one of another call? No line is older than half the
 * period of flags: one with this step's number is this step's, whoever wrote it. */
BLOCK_SELDOM enum work_failure units_judge(struct fifo_end *const *ends, int n, uint32_t index, uint32_t signature,
                                           enum work_failure failure, uint32_t *missing) {
    for (int k = n < BLOCK_LL_TOGETHER ? n - 1 : BLOCK_LL_TOGETHER - 1; k >= 0; k--) {
        if (ends[k]->remote)
            continue;
        uint64_t flag = ll_flag(ends[k], signature), seen = port_line_load(ll_lines(ends[k]) + 2 * index) >> 32;
        if (seen == flag)
            continue;
        *missing = (uint32_t)k;
        if ((uint16_t)seen == (uint16_t)flag)
            return WORK_FOREIGN;
    }
    return failure;
}

/* Takes one unit from each of ends[0 … n−1], of 4 of them at most, as soon as it is there. `bytes` ≤ 4: it is one line.
 * Else *missing is the end that has none. */
BLOCK_FN enum work_failure units_receive(struct fifo_end *const *ends, int n, uint32_t index, uint32_t bytes,
                                         uint32_t signature, const struct work_status *status, uint64_t *units,
                                         uint32_t *missing) {
    struct block_wait wait = {0, 0};
    for (;;) {
        bool all = true;
#pragma unroll
        for (int k = 0; k < BLOCK_LL_TOGETHER; k++) {
            if (k >= n)
                continue;
            if (ends[k]->remote) {
                units[k] = unit_load(fifo_slot_at(ends[k], PROTOCOL_LL, ends[k]->step) + BLOCK_LL_UNIT * index, bytes);
                continue;
            }
            const uint64_t *lines = ll_lines(ends[k]) + 2 * index;
            uint64_t flag = ll_flag(ends[k], signature), first, second;
            if (bytes > 4) {
                port_lines_load(lines, &first, &second);
            } else {
                first = port_line_load(lines);
                second = flag << 32;
            }
            all = all && first >> 32 == flag && second >> 32 == flag;
            units[k] = (first & 0xffffffffu) | second << 32;
        }
        if (all)
            return WORK_FINE;
        bool asks = wait_asks(&wait);
        enum work_failure failure = wait_pause(&wait, status);
        if (asks)
            failure = units_judge(ends, n, index, signature, failure, missing);
        if (failure != WORK_FINE)
            return failure;
    }
}

BLOCK_FN void unit_send(const struct fifo_end *end, uint32_t index, uint64_t unit, uint32_t bytes, uint32_t signature) {
    uint64_t *lines = ll_lines(end) + 2 * index;
    uint64_t flag = ll_flag(end, signature) << 32;
    if (end->remote)
        unit_store(fifo_slot_at(end, PROTOCOL_LL, end->step) + BLOCK_LL_UNIT * index, unit, bytes);
    else if (bytes > 4)
        port_lines_store(lines, flag | (unit & 0xffffffffu), flag | unit >> 32);
    else
        port_line_store(lines, flag | (unit & 0xffffffffu));
}

/* A reduction of units as it grows. One operand that is not divided stays the bits it was. */
template <class R> struct unit_sum {
    typename R::sum sums[block_pack<R, uint64_t>::count];
    uint64_t bits;
    bool raw, empty;
};

template <class R> BLOCK_FN struct unit_sum<R> unit_begin(const struct prog_step *step, uint32_t divisor) {
    struct unit_sum<R> sum = {};
    sum.empty = true;
    sum.raw = !R::reduces || (step->recv_count + step->locals_count == 1 && divisor <= 1);
    return sum;
}

template <class R>
BLOCK_FN uint64_t unit_end(struct unit_sum<R> *sum, uint32_t divisor) {
    return sum->raw ? sum->bits : pack_store<R, uint64_t>(sum->sums, divisor);
}

template <class R> BLOCK_FN void unit_take(struct unit_sum<R> *sum, uint64_t unit) {
    if (sum->raw)
        sum->bits = unit;
    else if (sum->empty)
        pack_load<R, uint64_t>(unit, sum->sums);
    else
        pack_combine<R, uint64_t>(unit, sum->sums);
    sum->empty = false;
}

/* What a lane knows of a piece: where it is in memory, and in slots. */
struct ll_piece {
    struct interp_piece piece;
    int number; /* among those of the step */
    uint64_t round;
    uint32_t bytes, slot_at; /* its length; bytes of the slot before it */
    const char *local;       /* the first operand in memory; NULL: there is none */
    int local_at;            /* behind so many received ones */
    char *store;             /* NULL: nothing is stored */
};

BLOCK_FN struct ll_piece ll_piece_of(const struct interp_op *op, const struct prog_step *step, int number,
                                     uint64_t round, uint32_t slot_at) {
    struct ll_piece p;
    p.piece = interp_piece_of(op, step, number, round);
    p.number = number;
    p.round = round;
    p.bytes = interp_bytes(op, &p.piece);
    p.slot_at = slot_at;
    p.local = step->locals_count > 0 ? interp_local(op, step, 0, number, round, &p.piece) : NULL;
    p.local_at = step->locals_count > 0 ? op->locals[step->locals_first].at : -1;
    p.store = step->store_region != STEP_NONE ? interp_store(op, step, number, round, &p.piece) : NULL;
    return p;
}

/* The first of the piece's units of unit_bytes that falls to a runner, of so many that take turns over the whole slot. */
BLOCK_FN uint32_t ll_first_unit(const struct ll_piece *p, uint32_t unit_bytes, uint32_t runner, uint32_t runners) {
    uint32_t before = p->slot_at / unit_bytes % runners;
    return runner >= before ? runner - before : runner + runners - before;
}

/* A unit of the l-th operand in memory, of a piece that is looked up. */
BLOCK_SELDOM uint64_t unit_of_local(const struct interp_op *op, const struct prog_step *step, int l, int number,
                                    uint64_t round, uint32_t at, uint32_t bytes) {
    struct interp_piece piece = interp_piece_of(op, step, number, round);
    return unit_load(interp_local(op, step, l, number, round, &piece) + at, bytes);
}

/* The operands in memory that stand behind so many received ones: `bytes` of them, from `at` on. Mostly there is one. */
template <class R>
BLOCK_FN void unit_take_locals(struct unit_sum<R> *sum, const struct interp_op *op, const struct prog_step *step,
                               const struct ll_piece *p, int received, uint32_t at, uint32_t bytes) {
    if (received == p->local_at)
        unit_take<R>(sum, unit_load(p->local + at, bytes));
#pragma unroll 1
    for (int l = 1; l < step->locals_count; l++)
        if (op->locals[step->locals_first + l].at == received)
            unit_take<R>(sum, unit_of_local(op, step, l, p->number, p->round, at, bytes));
}

/* The operands of one unit, in their order, reduced. */
template <class R>
BLOCK_FN enum work_failure unit_reduce(struct interp_worker *w, const struct prog_step *step, const struct ll_piece *p,
                                       uint32_t at, uint32_t bytes, const struct work_status *status,
                                       uint64_t *unit_p) {
    const struct interp_op *op = w->op;
    int n = step->recv_count;
    uint32_t divisor = step->finish ? op->divisor : 1, index = (p->slot_at + at) / BLOCK_LL_UNIT;
    struct unit_sum<R> sum = unit_begin<R>(step, divisor);
#pragma unroll 1
    for (int first = 0; first < n; first += BLOCK_LL_TOGETHER) {
        uint64_t units[BLOCK_LL_TOGETHER];
        uint32_t missing = 0;
        enum work_failure failure = units_receive(&op->recv_ends[step->recv_first + first], n - first, index, bytes,
                                                  op->signature, status, units, &missing);
        if (failure != WORK_FINE) {
            w->blocked_on = (uint32_t)(step->recv_first + first) + missing; /* of lanes that fail, any one's */
            return failure;
        }
#pragma unroll
        for (int k = 0; k < BLOCK_LL_TOGETHER; k++) {
            if (first + k >= n)
                continue;
            unit_take_locals<R>(&sum, op, step, p, first + k, at, bytes);
            unit_take<R>(&sum, units[k]);
        }
    }
    unit_take_locals<R>(&sum, op, step, p, n, at, bytes);
    *unit_p = unit_end<R>(&sum, divisor);
    return WORK_FINE;
}

/* This lane's units of a piece. Several pieces have no line between them that is not written. */
template <class R>
BLOCK_FN enum work_failure units_run(struct interp_worker *w, const struct prog_step *step, const struct ll_piece *p,
                                     const struct work_status *status) {
    const struct interp_op *op = w->op;
    uint32_t lanes = port_lanes();
#pragma unroll 1
    for (uint32_t index = ll_first_unit(p, BLOCK_LL_UNIT, port_lane(), lanes); index * BLOCK_LL_UNIT < p->bytes;
         index += lanes) {
        uint32_t at = index * BLOCK_LL_UNIT, length = p->bytes - at < BLOCK_LL_UNIT ? p->bytes - at : BLOCK_LL_UNIT;
        uint64_t unit;
        enum work_failure failure = unit_reduce<R>(w, step, p, at, length, status, &unit);
        if (failure != WORK_FINE)
            return failure;
#pragma unroll 1
        for (int k = 0; k < step->send_count; k++)
            unit_send(op->send_ends[step->send_first + k], (p->slot_at + at) / BLOCK_LL_UNIT, unit,
                      step->count > 1 ? BLOCK_LL_UNIT : length, op->signature);
        if (p->store != NULL)
            unit_store(p->store + at, unit, length);
    }
    return WORK_FINE;
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

/* Before a step in LL or LL128, by all lanes: credit is there, what comes over a wire is, and positions of ends are those after
 * the last step. */
BLOCK_FN enum work_failure ll_begin(struct interp_worker *w, const struct prog_step *step, uint32_t bytes,
                                    struct work_status *status) {
    enum work_failure failure = WORK_FINE;
    if (port_lane() == 0 && (failure = wait_credit(w, step, status)) == WORK_FINE)
        failure = wait_wires(w, step, bytes, status);
    return failure_of_any(failure);
}

/* Behind it. */
BLOCK_FN enum work_failure ll_end(struct interp_worker *w, const struct prog_step *step, uint32_t bytes,
                                  enum work_failure failure) {
    const struct interp_op *op = w->op;
#pragma unroll 1
    for (int k = 0; k < step->send_count; k++) {
        struct fifo_end *end = op->send_ends[step->send_first + k];
        uint32_t written =
            op->protocol == PROTOCOL_LL128 || end->remote ? 0 : (bytes + 3) / 4; /* lines with this step's LL flag */
        ll_refresh(end, written + port_lane(), port_lanes(), op->signature);
    }
    if ((failure = failure_of_any(failure)) != WORK_FINE || port_lane() != 0)
        return failure;
#pragma unroll 1
    for (int k = 0; k < step->send_count; k++)
        ll_publish(op->send_ends[step->send_first + k], op, bytes);
#pragma unroll 1
    for (int k = 0; k < step->recv_count; k++)
        fifo_consumed(op->recv_ends[step->recv_first + k]);
    return WORK_FINE;
}

template <class R>
BLOCK_FN enum work_failure block_ll_step(struct interp_worker *w, const struct prog_step *step, uint64_t round,
                                         uint32_t bytes, struct work_status *status) {
    enum work_failure failure = ll_begin(w, step, bytes, status);
    if (failure != WORK_FINE)
        return failure;
    uint32_t slot_at = 0;
#pragma unroll 1
    for (int i = 0; i < step->count && failure == WORK_FINE; i++) {
        struct ll_piece p = ll_piece_of(w->op, step, i, round, slot_at);
        failure = units_run<R>(w, step, &p, status);
        slot_at += interp_padded(w->op, &p.piece);
    }
    return ll_end(w, step, bytes, failure);
}

#endif
