/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of one connection: one direction between two ranks, a FIFO of slots.
 *
 *            producer                        memory both ends reach                        consumer
 *        position, seen head   ┌────────────────────────────────────────────────┐   position, seen tail
 *   writes tail, headers,      │ tail │ head │ headers[] │ slots, per protocol  │   writes head
 *   slots                      └────────────────────────────────────────────────┘
 *
 *   field      written by   read by      order
 *   tail       producer     consumer     release after the slot's header and data; acquire before reading them
 *   head       consumer     producer     release after the slot was read; acquire before it is overwritten.
 *                                        Not for lines: a reader that gives a slot back has seen all its flags (proto_ll.h)
 *   headers[s] producer     consumer     covered by tail
 *   slots      producer     consumer     covered by tail, or each line by its own flag; by head against overwriting
 *
 * Both counters count positions from the beginning of the connection and never go back; position p has slot p mod nslots.
 * Slots of all protocols share the counters, so a connection may change protocol between calls:
 *   tail − head ≤ nslots,  credit = nslots − (position − head),  ready: tail − position > 0   (modulo 2^64)
 * The counters live in the connection's memory; between two GPUs head lies on the producer's (transport/ipc/gpu_heads.h), for a
 * producer polls it and a consumer only writes it. Each end keeps its own position, and the value of the other's counter that
 * it has seen last: as long as that suffices, it need not look at the other end's cache line.
 */
#ifndef COLLET_FIFO_FIFO_H
#define COLLET_FIFO_FIFO_H

#include "fifo/fifo_place.h"
#include "fifo/loan_end.h"
#include "fifo/port.h"
#include "fifo/protocol.h"

#define FIFO_MAX_SLOTS LOAN_LANDINGS
#define FIFO_LINE_BYTES 128 /* two cache lines, because a CPU may prefetch a line's neighbour */

/* The first word of a slot's header has two facts that a wire needs to carry the slot: the number of payload bytes, and the
 * protocol whose area has the slot. */
#define FIFO_WORD_SHIFT 29
PORT_FN uint32_t fifo_word(uint32_t protocol, uint32_t bytes) { return protocol << FIFO_WORD_SHIFT | bytes; }
PORT_FN uint32_t fifo_word_protocol(uint32_t word) { return word >> FIFO_WORD_SHIFT; }
PORT_FN uint32_t fifo_word_bytes(uint32_t word) { return word & ((1u << FIFO_WORD_SHIFT) - 1); }

struct fifo_slot_header {
    uint32_t word;      /* fifo_word() */
    uint32_t signature; /* hash of what both ends must agree on in the call that filled the slot */
    uint64_t sequence;  /* number of the call on its communicator */
    struct fifo_place_note place;
    struct fifo_loan loan;
}; /* One cache line per header: filling one slot must not disturb the reader of the next slot */

/* One end of a connection, as executors use it. Belongs to the worker that produces into it or consumes from it. */
struct fifo_end {
    uint64_t *tail, *head;
    struct fifo_slot_header *headers;
    char *slots[PROTOCOL_COUNT];      /* [protocol]: address of the first slot */
    uint32_t strides[PROTOCOL_COUNT]; /* [protocol]: bytes from one slot to the next */
    uint64_t position;                /* position of the next slot that this end fills or reads */
    uint64_t seen;                    /* producer: last head read; consumer: last tail read */
    uint32_t nslots;
    uint32_t remote; /* 1: the ends share no memory; a wire carries slots, with header and tail, as plain payload */
    uint32_t turns[PROTOCOL_COUNT]; /* [protocol]: number of slots used so far (LL counts them) */
    uint32_t turn_mask;             /* the flag of an LL line is 1 + (turn & mask) */
    struct fifo_place place;
    struct loan_end loans;
};

PORT_FN struct fifo_slot_header *fifo_header(const struct fifo_end *end) {
    return (struct fifo_slot_header *)port_global(&end->headers[end->position & (end->nslots - 1)]);
}

/* The slot of a position in the area of a protocol. */
PORT_FN char *fifo_slot_at(const struct fifo_end *end, uint32_t protocol, uint64_t position) {
    return end->slots[protocol] + (size_t)(position & (end->nslots - 1)) * end->strides[protocol];
}

/* May the producer overwrite its next slot? The acquire orders the consumer's last reads of that slot before the producer's
 * new stores. It pairs with fifo_consumed(). */
PORT_FN int fifo_has_credit(struct fifo_end *end) {
    if (end->position - end->seen < end->nslots)
        return 1;
    end->seen = port_load_acquire(end->head);
    return end->position - end->seen < end->nslots;
}

/* Has the consumer's next slot been published? The acquire orders its reads of header and payload after this check. It pairs with
 * fifo_publish(), or over a wire with the transport's store of tail. */
PORT_FN int fifo_has_data(struct fifo_end *end) {
    if ((int64_t)(end->seen - end->position) > 0)
        return 1;
    end->seen = port_load_acquire(end->tail);
    return (int64_t)(end->seen - end->position) > 0;
}

/* Publishes all slots before the producer's next one. The fence makes headers and payloads visible before tail. It pairs with
 * fifo_has_data(), or with the transport's load. */
PORT_FN void fifo_tell_tail(const struct fifo_end *end) { port_store_fenced(end->tail, end->position); }

PORT_FN void fifo_publish(struct fifo_end *end) {
    end->position++;
    fifo_tell_tail(end);
}

/* Lets the producer overwrite all slots before the consumer's next one. The fence orders the reads of these slots before the
 * store of head. It pairs with fifo_has_credit(), or with the transport's load. */
PORT_FN void fifo_tell_head(const struct fifo_end *end) { port_store_fenced(end->head, end->position); }

PORT_FN void fifo_consumed(struct fifo_end *end) {
    end->position++;
    fifo_tell_head(end);
}

/* Producer: has the consumer finished with all loans? The acquire orders the consumer's reads of the payloads before later writes
 * to them. It pairs with fifo_consumed(). */
PORT_FN int fifo_loans_are_over(struct fifo_end *end) {
    if ((int64_t)(end->loans.until - end->seen) > 0)
        end->seen = port_load_acquire(end->head);
    return (int64_t)(end->loans.until - end->seen) <= 0;
}

#endif
