/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of one connection: a FIFO of slots, which carries data in one direction between two ranks.
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
 * producer polls it and a consumer only writes it. Each end keeps its own position, and the last value that it has read from the
 * other end's counter. As long as this value suffices, the end need not touch the counter's cache line.
 */
#ifndef COLLET_FIFO_FIFO_H
#define COLLET_FIFO_FIFO_H

#include "fifo/fifo_place.h"
#include "fifo/loan_end.h"
#include "fifo/port.h"
#include "fifo/protocol.h"

#define FIFO_MAX_SLOTS LOAN_LANDINGS
#define FIFO_LINE_BYTES 128 /* Two cache lines, because a CPU may prefetch a line's neighbour */

/* The first word of a slot's header holds two facts that a wire needs to carry the slot: the number of payload bytes, and the
 * protocol in whose area the slot lies. */
#define FIFO_WORD_SHIFT 29
PORT_FN uint32_t fifo_word(uint32_t protocol, uint32_t bytes) { return protocol << FIFO_WORD_SHIFT | bytes; }
PORT_FN uint32_t fifo_word_protocol(uint32_t word) { return word >> FIFO_WORD_SHIFT; }
PORT_FN uint32_t fifo_word_bytes(uint32_t word) { return word & ((1u << FIFO_WORD_SHIFT) - 1); }

struct fifo_slot_header {
    uint32_t word;      /* Protocol and payload bytes: fifo_word() */
    uint32_t signature; /* Hash of what both ends must agree on in the call that filled the slot */
    uint64_t sequence;  /* Number of that call on its communicator */
    struct fifo_place_note place;
    struct fifo_loan loan;
}; /* A header fills one cache line: whoever fills a slot must not disturb the reader of the next slot */

/* One end of a connection, as executors use it. An end belongs to one worker, which produces into it or consumes from it. */
struct fifo_end {
    uint64_t *tail, *head;
    struct fifo_slot_header *headers;
    char *slots[PROTOCOL_COUNT];      /* [protocol]: address of the first slot */
    uint32_t strides[PROTOCOL_COUNT]; /* [protocol]: bytes from one slot to the next */
    uint64_t position;                /* Position of the next slot that this end fills or reads */
    uint64_t seen; /* Producer: the head that it has read last. Consumer: the tail that it has read last */
    uint32_t nslots;
    uint32_t remote; /* 1: the two ends share no memory. A wire carries slots, with header and tail, as plain payload */
    /* [protocol]: number of this protocol's slots used so far. Only LL counts its slots */
    uint32_t turns[PROTOCOL_COUNT];
    uint32_t turn_mask; /* The low half of an LL line's flag is 1 + (turn & turn_mask): proto_ll.h */
    struct fifo_place place;
    struct loan_end loans;
    /* Host only, producer of a fan (fan.h); else both are 0. nheads: the number of consumers, whose heads lie FIFO_LINE_BYTES apart.
     * slowest: the consumer that was farthest behind when the producer last looked for credit. */
    uint32_t nheads, slowest;
};

PORT_FN struct fifo_slot_header *fifo_header(const struct fifo_end *end) {
    return (struct fifo_slot_header *)port_global(&end->headers[end->position & (end->nslots - 1)]);
}

/* The slot of a position in the area of a protocol. */
PORT_FN char *fifo_slot_at(const struct fifo_end *end, uint32_t protocol, uint64_t position) {
    return end->slots[protocol] + (size_t)(position & (end->nslots - 1)) * end->strides[protocol];
}

/* Called by a producer. Returns a position: all consumers have read all slots before it. The acquire orders their reads before later
 * stores of the producer. Pairs with fifo_consumed(). *slowest: the consumer of a fan that is farthest behind; 0 if there is only one. */
PORT_FN uint64_t fifo_load_heads(const struct fifo_end *end, uint32_t *slowest) {
    uint64_t least = port_load_acquire(end->head);
    *slowest = 0;
    for (uint32_t k = 1; !PORT_IN_BLOCK && k < end->nheads; k++) {
        uint64_t head = port_load_acquire(end->head + k * (FIFO_LINE_BYTES / sizeof(uint64_t)));
        if ((int64_t)(head - least) >= 0)
            continue;
        least = head;
        *slowest = k;
    }
    return least;
}

PORT_FN uint64_t fifo_load_head(const struct fifo_end *end) {
    uint32_t slowest;
    return fifo_load_heads(end, &slowest);
}

/* May the producer overwrite its next slot? */
PORT_FN int fifo_has_credit(struct fifo_end *end) {
    if (end->position - end->seen < end->nslots)
        return 1;
    uint32_t slowest;
    end->seen = fifo_load_heads(end, &slowest);
    if (!PORT_IN_BLOCK)
        end->slowest = slowest;
    return end->position - end->seen < end->nslots;
}

/* Has the consumer's next slot been published? The acquire orders the consumer's reads of header and payload after this check. Pairs
 * with fifo_publish(), or over a wire with the transport's store of tail. */
PORT_FN int fifo_has_data(struct fifo_end *end) {
    if ((int64_t)(end->seen - end->position) > 0)
        return 1;
    end->seen = port_load_acquire(end->tail);
    return (int64_t)(end->seen - end->position) > 0;
}

/* Publishes all slots before the producer's next one. The fence makes headers and payloads visible before tail. Pairs with
 * fifo_has_data(), or with the transport's load. */
PORT_FN void fifo_tell_tail(const struct fifo_end *end) { port_store_fenced(end->tail, end->position); }

PORT_FN void fifo_publish(struct fifo_end *end) {
    end->position++;
    fifo_tell_tail(end);
}

/* Lets the producer overwrite all slots before the consumer's next one. The fence orders the reads of these slots before the
 * store of head. Pairs with fifo_has_credit(), or with the transport's load. */
PORT_FN void fifo_tell_head(const struct fifo_end *end) { port_store_fenced(end->head, end->position); }

PORT_FN void fifo_consumed(struct fifo_end *end) {
    end->position++;
    fifo_tell_head(end);
}

#endif
