/* SPDX-License-Identifier: Apache-2.0
 *
 * LL, low latency: the data carries its own arrival notice.
 *
 *    line (8 bytes, stored at once):   │ data 32 bit │ flag 32 bit │
 *
 *    producer                                       consumer
 *    for each word: store (word, flag)  ──────────▶ poll until every line has the flag; the words are the data
 *    may overwrite                      ◀────────── head := step + 1
 *
 * One cache line travels, not two, at the price of half the bytes being flags. No order among lines is assumed: each is
 * checked. The flag of step s is
 *
 *    │ upper half of the call's signature │ 1 + (s mod 2^bits) │      16 bits each, bits ≤ 15
 *
 * so memory that was never written (0) matches nothing, and lines of another call than the reader's match nothing either: a
 * mismatched call waits, and the ranks compare what they wait in (exec_wait.c). A short message leaves the lines behind it
 * as they were, and 2^bits steps later their old flags could match again; so twice in that time (whenever s mod 2^(bits−1)
 * is among the last nslots) the producer writes all lines of the slot, whatever the protocol of the step. A line is then
 * never older than half the flags' period.
 */
#ifndef COLLET_KERNELS_PROTO_LL_H
#define COLLET_KERNELS_PROTO_LL_H

#include "kernels/proto_ll128.h"
#include "kernels/worker.h"

#include <string.h>

PORT_FN uint64_t ll_flag(const struct fifo_end *end, uint32_t signature) {
    return (uint64_t)(signature & 0xffff0000u) | (1 + ((uint32_t)end->step & end->ll_flag_mask));
}

PORT_FN uint64_t *ll_lines(const struct fifo_end *end) {
    return (uint64_t *)(void *)fifo_slot_at(end, PROTOCOL_LL, end->step);
}

PORT_FN char *ll_operand(const struct interp_worker *w, int k) { return w->scratch + (size_t)k * w->scratch_stride; }

/* Where a result is made that is stored nowhere but only sent. */
PORT_FN char *ll_result(const struct interp_worker *w, const struct prog_step *step) {
    return ll_operand(w, step->recv_count);
}

/* Copies the data of one slot to `to`, if all of it is there. */
PORT_FN int ll_unpack(struct fifo_end *end, char *to, uint32_t bytes, uint32_t signature) {
    const uint64_t *lines = ll_lines(end);
    uint64_t flag = ll_flag(end, signature);
    uint32_t whole = bytes / 4;
    for (uint32_t i = 0; i < whole; i++) {
        uint64_t line = port_line_load(&lines[i]);
        if (line >> 32 != flag)
            return 0;
        uint32_t word = (uint32_t)line;
        memcpy(to + 4 * (size_t)i, &word, 4);
    }
    if (bytes % 4 == 0)
        return 1;
    uint64_t line = port_line_load(&lines[whole]);
    uint32_t word = (uint32_t)line;
    memcpy(to + 4 * (size_t)whole, &word, bytes % 4);
    return line >> 32 == flag;
}

/* Gives lines first, first + stride, … of the slot the flag of this step, if it is time. A wire carries no lines. */
PORT_FN void ll_refresh(const struct fifo_end *end, uint32_t first, uint32_t stride, uint32_t signature) {
    uint64_t half = end->ll_flag_mask >> 1;
    if (end->remote || (end->step & half) + end->nslots <= half)
        return;
    for (uint32_t i = first; i < end->strides[PROTOCOL_LL] / 8; i += stride)
        port_line_store(&ll_lines(end)[i], ll_flag(end, signature) << 32);
}

PORT_FN void ll_pack(const struct fifo_end *end, const char *from, uint32_t bytes, uint32_t signature) {
    uint64_t *lines = ll_lines(end);
    uint64_t flag = ll_flag(end, signature) << 32;
    uint32_t whole = bytes / 4, used = whole;
    for (uint32_t i = 0; i < whole; i++) {
        uint32_t word;
        memcpy(&word, from + 4 * (size_t)i, 4);
        port_line_store(&lines[i], flag | word);
    }
    if (bytes % 4 != 0) {
        uint32_t word = 0;
        memcpy(&word, from + 4 * (size_t)whole, bytes % 4);
        port_line_store(&lines[used++], flag | word);
    }
    ll_refresh(end, used, 1, signature);
}

/* After the last byte of a step was stored. Without a wire the lines themselves are the notice. */
PORT_FN void ll_publish(struct fifo_end *end, const struct interp_op *op, uint32_t bytes) {
    if (!end->remote) {
        end->step++;
        return;
    }
    struct fifo_slot_header *header = &end->headers[fifo_slot(end)];
    header->word = fifo_word(op->protocol, bytes);
    header->signature = op->signature;
    header->sequence = op->sequence;
    fifo_publish(end);
}

/* ---- what LL and LL128 have in common: lines are copied out of a slot, and into one from a result ---- */

/* What a wire carries is no lines but plain payload: the tail says that it is there. */
PORT_FN enum interp_result ll_plain_ready(const struct interp_op *op, struct fifo_end *end, uint32_t bytes) {
    if (!fifo_has_data(end))
        return INTERP_BUSY;
    const struct fifo_slot_header *header = &end->headers[fifo_slot(end)];
    int ours = header->signature == op->signature && header->word == fifo_word(op->protocol, bytes);
    return ours ? INTERP_STEPPED : INTERP_MISMATCH;
}

PORT_FN enum interp_result ll_take(const struct interp_op *op, struct fifo_end *end, char *to, uint32_t bytes) {
    if (end->remote) {
        enum interp_result ready = ll_plain_ready(op, end, bytes);
        if (ready == INTERP_STEPPED)
            memcpy(to, fifo_slot_at(end, op->protocol, end->step), bytes);
        return ready;
    }
    int taken = op->protocol == PROTOCOL_LL128 ? ll128_unpack(end, to, bytes, op->signature)
                                               : ll_unpack(end, to, bytes, op->signature);
    return taken ? INTERP_STEPPED : INTERP_BUSY;
}

PORT_FN void ll_put(const struct interp_op *op, const struct fifo_end *end, const char *from, uint32_t bytes) {
    if (end->remote) {
        memcpy(fifo_slot_at(end, op->protocol, end->step), from, bytes);
    } else if (op->protocol == PROTOCOL_LL128) {
        ll128_pack(end, from, bytes, op->signature);
        ll_refresh(end, 0, 1, op->signature);
    } else {
        ll_pack(end, from, bytes, op->signature);
    }
}

/* Operands are unpacked as they arrive, in order; w->unpacked remembers how far. */
PORT_FN enum interp_result ll_ready(struct interp_worker *w, const struct prog_step *step, uint32_t bytes) {
    const struct interp_op *op = w->op;
    w->blocked_sending = 0;
    while (w->unpacked < (uint32_t)step->recv_count) {
        w->blocked_on = (uint32_t)step->recv_first + w->unpacked;
        enum interp_result taken = ll_take(op, op->recv_ends[w->blocked_on], ll_operand(w, (int)w->unpacked), bytes);
        if (taken != INTERP_STEPPED)
            return taken;
        w->unpacked++;
    }
    return worker_has_credit(w, step) ? INTERP_STEPPED : INTERP_BUSY;
}

PORT_FN void ll_done(struct interp_worker *w, const struct prog_step *step, uint32_t bytes) {
    const struct interp_op *op = w->op;
    for (int k = 0; k < step->send_count; k++) {
        struct fifo_end *end = op->send_ends[step->send_first + k];
        ll_put(op, end, (const char *)w->result, bytes);
        ll_publish(end, op, bytes);
    }
    for (int k = 0; k < step->recv_count; k++)
        fifo_consumed(op->recv_ends[step->recv_first + k]);
}

#endif
