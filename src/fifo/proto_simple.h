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
 * Two cache lines travel before the data does (tail there, and the data itself), which is why LL exists. In return the
 * payload is plain memory: reductions read operands from slots and write results into slots at full speed, without a copy in
 * between. Where in its slot a payload lies, fifo_place.h says; loan.h, when it is not in its slot at all.
 *
 * Over a wire the slots of every protocol are moved by these functions, each in its protocol's area.
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

/* Has the slot arrived? And is it of the call that this rank runs? */
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
    return end->loans.taken != NULL ? end->loans.taken : simple_payload(args, end, bytes);
}

/* Goes to the next slot without telling the producer yet: fifo_tell_head() does that later. */
PORT_FN void simple_leave(struct fifo_end *end) {
    end->loans.taken = NULL;
    end->position++;
}

PORT_FN void simple_consume(struct fifo_end *end) {
    simple_leave(end);
    fifo_tell_head(end);
}

/* ---- producer ---- */

PORT_FN char *simple_place(const struct work_args *args, const struct fifo_end *end, uint32_t bytes) {
    return simple_payload(args, end, bytes);
}

/* Nothing to copy: the result was written into the slot itself. */
PORT_FN void simple_put(const struct work_args *args, const struct fifo_end *end, const char *from, uint32_t bytes) {
    (void)args, (void)end, (void)from, (void)bytes;
}

/* Called by one lane: fills the header. It only stores, never loads: the header may lie in far memory of the consumer. */
PORT_FN void simple_seal(const struct work_args *args, struct fifo_end *end, uint32_t bytes) {
    struct fifo_slot_header *header = fifo_header(end);
    header->word = fifo_word(args->protocol, bytes);
    header->signature = args->signature;
    header->sequence = args->sequence;
    if (!PORT_IS_GPU)
        header->place.roams = end->place.roams;
    if (end->loans.way != LOAN_NONE)
        loan_note(&end->loans, &header->loan, end->position + 1);
}

/* Goes to the next slot without telling the consumer yet: fifo_tell_tail() does that later. */
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
