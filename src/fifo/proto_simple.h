/* SPDX-License-Identifier: Apache-2.0
 *
 * Simple: large slots, one counter each way.
 *
 *    producer                                       consumer
 *    credit? position − head < nslots               data? tail − position > 0
 *    write payload and header of its slot
 *    tail := position + 1  ── release/acquire ────▶ read header and payload
 *    may overwrite         ◀── release/acquire ──── head := position + 1
 *
 * The consumer waits for two cache lines, one after the other: for tail, then for the data. LL exists because it needs only one.
 * In return a payload of Simple is plain memory: reductions read operands from slots and write results into slots at full speed,
 * without a copy in between. fifo_place.h says where in its slot a payload lies.
 *
 * Over a wire these functions serve every protocol. Each slot lies in the area of its protocol.
 */
#ifndef COLLET_FIFO_PROTO_SIMPLE_H
#define COLLET_FIFO_PROTO_SIMPLE_H

#include "fifo/call.h"
#include "fifo/fifo.h"

PORT_FN char *simple_payload(const struct work_args *args, const struct fifo_end *end, uint32_t bytes) {
    char *slot = fifo_slot_at(end, args->protocol, end->position);
    return PORT_IS_GPU ? slot : slot + fifo_place_offset(&end->place, end->position / end->nslots, bytes);
}

/* ---- consumer ---- */

/* Has the slot arrived? MISMATCH: the slot is of another call than the one that this rank runs. */
PORT_FN enum interp_result simple_ready(const struct work_args *args, struct fifo_end *end, uint32_t bytes,
                                        char *scratch) {
    (void)scratch;
    if (!fifo_has_data(end))
        return INTERP_BUSY;
    const struct fifo_slot_header *header = fifo_header(end);
    if (!PORT_IS_GPU)
        end->place.roams = header->place.roams;
    int ours = header->signature == args->signature && header->word == fifo_word(args->protocol, bytes);
    return ours ? INTERP_STEPPED : INTERP_MISMATCH;
}

PORT_FN const char *simple_operand(const struct work_args *args, const struct fifo_end *end, uint32_t bytes,
                                   const char *scratch) {
    (void)scratch;
    return simple_payload(args, end, bytes);
}

/* Goes to the next slot. The producer does not know yet: fifo_tell_head() tells it later. */
PORT_FN void simple_leave(struct fifo_end *end) { end->position++; }

PORT_FN void simple_consume(struct fifo_end *end) {
    simple_leave(end);
    fifo_tell_head(end);
}

/* ---- producer ---- */

PORT_FN char *simple_place(const struct work_args *args, const struct fifo_end *end, uint32_t bytes) {
    return simple_payload(args, end, bytes);
}

/* There is nothing to copy: the step has written its result into the slot itself. */
PORT_FN void simple_put(const struct work_args *args, const struct fifo_end *end, const char *from, uint32_t bytes) {
    (void)args, (void)end, (void)from, (void)bytes;
}

/* Fills the header. One lane calls this. The function stores and never loads, because the header may lie in the consumer's memory, far
 * away. */
PORT_FN void simple_seal(const struct work_args *args, struct fifo_end *end, uint32_t bytes) {
    struct fifo_slot_header *header = fifo_header(end);
    header->word = fifo_word(args->protocol, bytes);
    header->signature = args->signature;
    header->sequence = args->sequence;
    if (!PORT_IS_GPU)
        header->place.roams = end->place.roams;
}

/* Goes to the next slot. The consumer does not know yet: fifo_tell_tail() tells it later. */
PORT_FN void simple_finish(struct fifo_end *end) {
    end->position++;
    if (!PORT_IS_GPU)
        fifo_place_choose(&end->place);
}

PORT_FN void simple_publish(const struct work_args *args, struct fifo_end *end, uint32_t bytes) {
    (void)args, (void)bytes;
    simple_finish(end);
    fifo_tell_tail(end);
}

#endif
