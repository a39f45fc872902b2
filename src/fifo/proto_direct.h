/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct: a slot of Simple says where the payload lies in the producer's memory, in the place of the payload. That is a loan.
 *
 *    producer                                         consumer, or each consumer of a fan
 *    credit? position − head < nslots                 data? tail − position > 0
 *    header: word of Direct, address
 *    tail := position + 1  ── release/acquire ──────▶ the word is of Direct: reads the payload at the address, or copies it from there
 *    its payload is its own again
 *                          ◀── release/acquire ────── head := position + 1
 *
 * No call has this protocol. In calls of Simple, ends use it that reach each other's memory (enum loan_way), and the producer chooses for
 * each slot. So these functions also do what those of Simple do. A call in which no end lends or borrows never comes here: it is visited
 * by another function (exec_visit). layers/memory/loan.h says who copies a payload, and what happens if that fails. kernels/lend.h
 * chooses what is lent.
 */
#ifndef COLLET_FIFO_PROTO_DIRECT_H
#define COLLET_FIFO_PROTO_DIRECT_H

#include "fifo/proto_simple.h"

PORT_FN int direct_is_lent(const struct fifo_slot_header *header) {
    return fifo_word_protocol(header->word) == PROTOCOL_DIRECT;
}

/* ---- consumer ---- */

PORT_FN enum interp_result direct_ready(const struct work_args *args, struct fifo_end *end, uint32_t bytes,
                                        char *scratch) {
    enum interp_result ready = simple_ready(args, end, bytes, scratch);
    if (ready != INTERP_MISMATCH)
        return ready;
    const struct fifo_slot_header *header = fifo_header(end);
    int ours = header->signature == args->signature && header->word == fifo_word(PROTOCOL_DIRECT, bytes);
    return ours ? INTERP_STEPPED : INTERP_MISMATCH;
}

/* Call it after the payload of a loan was fetched (layers/memory/borrow.h), or claimed (kernels/cuda/block_loans.cuh). */
PORT_FN const char *direct_operand(const struct work_args *args, const struct fifo_end *end, uint32_t bytes,
                                   const char *scratch) {
    return end->loans.taken != NULL ? end->loans.taken : simple_operand(args, end, bytes, scratch);
}

PORT_FN void direct_leave(struct fifo_end *end) {
    end->loans.taken = NULL;
    simple_leave(end);
}

PORT_FN void direct_consume(struct fifo_end *end) {
    end->loans.taken = NULL;
    simple_consume(end);
}

/* ---- producer ---- */

/* The minimum payload of an end's loans, wherever the payload lies; 0: the end lends nothing. */
PORT_FN uint32_t direct_least(const struct loan_end *end) {
    return end->least_bytes - 1 < end->least_common_bytes - 1 ? end->least_bytes : end->least_common_bytes;
}

/* Does a producer lend this payload? (If `least` is 0, least - 1 is the largest number: no payload is longer.) */
PORT_FN int direct_is_worth(const struct loan_end *end, uint64_t address, uint32_t bytes) {
    uint32_t least = loan_offset(end, address) != 0 ? end->least_common_bytes : end->least_bytes;
    return least - 1 < bytes && (PORT_IS_GPU || end->only == NULL || end->only(address, bytes));
}

/* NULL: the payload is lent, so it stays where it is. */
PORT_FN char *direct_place(const struct work_args *args, const struct fifo_end *end, uint32_t bytes) {
    return end->loans.lending != 0 ? NULL : simple_place(args, end, bytes);
}

PORT_FN void direct_put(const struct work_args *args, const struct fifo_end *end, const char *from, uint32_t bytes) {
    (void)args, (void)end, (void)from, (void)bytes;
}

/* Can the other end reach this address only by a copy that the operating system makes? */
PORT_FN int direct_is_by_kernel(const struct loan_end *end, uint64_t address) {
    return end->way == LOAN_HOST && loan_offset(end, address) == 0;
}

/* Writes the loan of the producer's next slot into its header. next: the position behind that slot. */
PORT_FN void direct_note(struct loan_end *end, struct fifo_loan *loan, uint64_t next) {
    loan->address = end->lending;
    if (end->lending == LOAN_LANDED) {
        end->lending = 0;
        return;
    }
    loan->offset = end->way == LOAN_WINDOW ? end->lending_window : loan_offset(end, end->lending);
    loan->to = end->lending_to;
    loan->to_offset = end->lending_result;
    loan->claimed = 0;
    loan->done = !PORT_IN_BLOCK && end->busy && direct_is_by_kernel(end, loan->address) ? LOAN_ALONE : 0;
    end->lending = end->lending_to = end->lending_result = 0;
    if (end->way != LOAN_WIRE) /* Over a wire the transport knows when the loan ends */
        end->until = next;
}

PORT_FN void direct_seal(const struct work_args *args, struct fifo_end *end, uint32_t bytes) {
    simple_seal(args, end, bytes);
    if (end->loans.lending == 0)
        return;
    struct fifo_slot_header *header = fifo_header(end);
    header->word = fifo_word(PROTOCOL_DIRECT, bytes);
    direct_note(&end->loans, &header->loan, end->position + 1);
}

PORT_FN void direct_publish(const struct work_args *args, struct fifo_end *end, uint32_t bytes) {
    simple_publish(args, end, bytes);
}

/* Has the consumer finished with all payloads that this end has lent? */
PORT_FN int direct_is_over(struct fifo_end *end) {
    if ((int64_t)(end->loans.until - end->seen) > 0)
        end->seen = fifo_load_head(end);
    return (int64_t)(end->loans.until - end->seen) <= 0;
}

#endif
