/* SPDX-License-Identifier: Apache-2.0
 *
 * LL, low latency: each 4 bytes of data travel with a flag, which tells the consumer that they have arrived.
 *
 *    line (8 bytes, stored at once):   │ data 32 bit │ flag 32 bit │
 *
 *    producer                                       consumer
 *    for each word: store (word, flag)  ──────────▶ poll until every line has the flag; the words are the data
 *    may overwrite                      ◀────────── head := position + 1
 *
 * The consumer waits for one cache line, not two. The price is that half of the bytes are flags. Lines may arrive in any order: the
 * consumer checks each one. Both ends count the slots of LL, in turns: turn t uses LL slot t mod nslots, and its flag is
 *
 *    │ upper half of the call's signature │ 1 + (t mod 2^bits) │      16 bits each, bits ≤ 15
 *
 * Memory that was never written (0) matches no flag. Lines of another call do not match the reader's flag either: then the reader
 * waits, and the ranks find the mismatch when they compare which calls they wait in (exec_wait.c).
 *
 * Old flags need care. A short message leaves the later lines of its slot as they were, and 2^bits turns later their old flags could
 * match again. Therefore the producer writes all lines of a slot twice in that time, whenever t mod 2^(bits−1) is among the last nslots:
 * a line is never older than half the flags' period. The consumer must not see an older line either, even if it has not read the line
 * for many turns. So the first line of a slot is stored with release and loaded with acquire: a consumer that has loaded it sees all
 * that was written in earlier turns.
 *
 * On a GPU each lane moves lines of its own (kernels/cuda/parts.h).
 */
#ifndef COLLET_FIFO_PROTO_LL_H
#define COLLET_FIFO_PROTO_LL_H

#include "fifo/call.h"
#include "fifo/fifo.h"
#include "fifo/lanes.h"

#include <string.h>

PORT_FN uint64_t ll_flag(const struct work_args *args, const struct fifo_end *end) {
    return (uint64_t)(args->signature & 0xffff0000u) | (1 + (end->turns[PROTOCOL_LL] & end->turn_mask));
}

PORT_FN uint64_t *ll_lines(const struct fifo_end *end) {
    return (uint64_t *)(void *)fifo_slot_at(end, PROTOCOL_LL, end->turns[PROTOCOL_LL]);
}

/* The acquire orders reads of the other lines after the producer's stores of earlier turns. Pairs with ll_line_put(). */
PORT_FN uint64_t ll_line_get(const uint64_t *lines, uint32_t i) {
    return i == 0 ? port_load_acquire(lines) : port_line_load(&lines[i]);
}

/* The release makes lines of earlier turns visible first. Pairs with ll_line_get(). */
PORT_FN void ll_line_put(uint64_t *lines, uint32_t i, uint64_t line) {
    if (i == 0)
        port_store_release(lines, line);
    else
        port_line_store(&lines[i], line);
}

/* ---- consumer: copies the words of a slot out of their lines ---- */

PORT_FN enum interp_result ll_ready(const struct work_args *args, struct fifo_end *end, uint32_t bytes, char *scratch) {
    const uint64_t *lines = ll_lines(end);
    uint64_t flag = ll_flag(args, end), line;
    uint32_t whole = bytes / 4, word;
    if (bytes == 0)
        return ll_line_get(lines, 0) >> 32 == flag ? INTERP_STEPPED : INTERP_BUSY;
    for (uint32_t i = 0; i < whole; i++) {
        line = ll_line_get(lines, i);
        if (line >> 32 != flag)
            return INTERP_BUSY;
        word = (uint32_t)line;
        memcpy(scratch + 4 * (size_t)i, &word, 4);
    }
    if (bytes % 4 == 0)
        return INTERP_STEPPED;
    line = ll_line_get(lines, whole);
    word = (uint32_t)line;
    memcpy(scratch + 4 * (size_t)whole, &word, bytes % 4);
    return line >> 32 == flag ? INTERP_STEPPED : INTERP_BUSY;
}

PORT_FN const char *ll_operand(const struct work_args *args, const struct fifo_end *end, uint32_t bytes,
                               const char *scratch) {
    (void)args, (void)end, (void)bytes;
    return scratch;
}

PORT_FN void ll_consume(struct fifo_end *end) {
    end->turns[PROTOCOL_LL]++;
    fifo_consumed(end);
}

/* ---- producer ---- */

/* A reduction cannot write into lines: ll_put() copies its result. */
PORT_FN char *ll_place(const struct work_args *args, const struct fifo_end *end, uint32_t bytes) {
    (void)args, (void)end, (void)bytes;
    return NULL;
}

PORT_FN void ll_put(const struct work_args *args, const struct fifo_end *end, const char *from, uint32_t bytes) {
    uint64_t *lines = ll_lines(end);
    uint64_t flag = ll_flag(args, end) << 32;
    uint32_t whole = bytes / 4, word;
    for (uint32_t i = 0; i < whole; i++) {
        memcpy(&word, from + 4 * (size_t)i, 4);
        ll_line_put(lines, i, flag | word);
    }
    if (bytes % 4 == 0)
        return;
    word = 0;
    memcpy(&word, from + 4 * (size_t)whole, bytes % 4);
    ll_line_put(lines, whole, flag | word);
}

/* Is it a turn in which all lines of the slot are written? */
PORT_FN int ll_pads(const struct fifo_end *end) {
    const uint32_t half = end->turn_mask >> 1;
    return (end->turns[PROTOCOL_LL] & half) + end->nslots > half;
}

/* Called by all lanes. In some turns it writes this turn's flag into the lines behind the payload, so that no line is too old (see the
 * top of this file). On the host an empty payload has one line. A GPU sends no empty payload in LL (layers/tuner/tuner.c). */
PORT_FN void ll_seal(const struct work_args *args, struct fifo_end *end, uint32_t bytes) {
    if (!PORT_IS_GPU && bytes == 0)
        ll_line_put(ll_lines(end), 0, ll_flag(args, end) << 32);
    if (!ll_pads(end))
        return;
    for (uint32_t i = (bytes + 3) / 4 + port_lane(); i < end->strides[PROTOCOL_LL] / 8; i += port_lanes())
        port_line_store(&ll_lines(end)[i], ll_flag(args, end) << 32);
}

/* Stores no counter: the flags of the lines have already told the consumer. */
PORT_FN void ll_publish(const struct work_args *args, struct fifo_end *end, uint32_t bytes) {
    (void)args, (void)bytes;
    end->turns[PROTOCOL_LL]++;
    end->position++;
}

#endif
