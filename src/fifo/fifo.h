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
#define FIFO_LINE_BYTES 128 /* two cache lines: adjacent-line prefetch must not tie the counters together */

/* The first word of a slot's header: how much payload, and in which protocol's area. A wire that carries the slot must know
 * both. */
#define FIFO_WORD_SHIFT 29
PORT_FN uint32_t fifo_word(uint32_t protocol, uint32_t bytes) { return protocol << FIFO_WORD_SHIFT | bytes; }
PORT_FN uint32_t fifo_word_protocol(uint32_t word) { return word >> FIFO_WORD_SHIFT; }
PORT_FN uint32_t fifo_word_bytes(uint32_t word) { return word & ((1u << FIFO_WORD_SHIFT) - 1); }

struct fifo_slot_header {
    uint32_t word;      /* fifo_word() */
    uint32_t signature; /* of the call that filled it: what both ends must agree on, hashed */
    uint64_t sequence;  /* number of the call on its communicator */
    struct fifo_place_note place;
    struct fifo_loan loan;
}; /* a cache line per header: filling one slot must not disturb the reader of its neighbour */

/* One end of a connection, as executors use it. Belongs to the worker that produces into it or consumes from it. */
struct fifo_end {
    uint64_t *tail, *head;
    struct fifo_slot_header *headers;
    char *slots[PROTOCOL_COUNT];      /* where each protocol's slots begin */
    uint32_t strides[PROTOCOL_COUNT]; /* from a slot to the next */
    uint64_t position;                /* the one that this end does next */
    uint64_t seen;                    /* producer: last head read; consumer: last tail read */
    uint32_t nslots;
    uint32_t remote; /* the ends share no memory: a wire carries slots, with header and tail, as plain payload */
    uint32_t turns[PROTOCOL_COUNT]; /* slots of each protocol so far, if it counts them */
    uint32_t turn_mask;             /* a short flag of a line holds 1 + (turn & mask) */
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

/* May the producer overwrite its next slot? The acquire keeps its stores behind the consumer's last reads of the slot; it
 * pairs with fifo_consumed(). */
PORT_FN int fifo_has_credit(struct fifo_end *end) {
    if (end->position - end->seen < end->nslots)
        return 1;
    end->seen = port_load_acquire(end->head);
    return end->position - end->seen < end->nslots;
}

/* Has the consumer's next slot been published? The acquire keeps its reads of header and payload behind that; it pairs with
 * fifo_publish(), over a wire with the transport's store of tail. */
PORT_FN int fifo_has_data(struct fifo_end *end) {
    if ((int64_t)(end->seen - end->position) > 0)
        return 1;
    end->seen = port_load_acquire(end->tail);
    return (int64_t)(end->seen - end->position) > 0;
}

/* Says that all slots before the producer's next one are there. The fence before it makes header and payload visible before tail;
 * it pairs with fifo_has_data(), or with the transport's load. */
PORT_FN void fifo_tell_tail(const struct fifo_end *end) { port_store_fenced(end->tail, end->position); }

PORT_FN void fifo_publish(struct fifo_end *end) {
    end->position++;
    fifo_tell_tail(end);
}

/* Says that all slots before the consumer's next one may be overwritten. The fence before it keeps reads of them before that; it
 * pairs with fifo_has_credit(), or with the transport's load. */
PORT_FN void fifo_tell_head(const struct fifo_end *end) { port_store_fenced(end->head, end->position); }

PORT_FN void fifo_consumed(struct fifo_end *end) {
    end->position++;
    fifo_tell_head(end);
}

/* Producer: have all loans been consumed? The acquire keeps whatever happens to the payloads later behind the consumer's reads; it
 * pairs with fifo_consumed(). */
PORT_FN int fifo_loans_are_over(struct fifo_end *end) {
    if ((int64_t)(end->loans.until - end->seen) > 0)
        end->seen = port_load_acquire(end->head);
    return (int64_t)(end->loans.until - end->seen) <= 0;
}

#endif
