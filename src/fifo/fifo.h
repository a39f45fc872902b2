/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of one connection: one direction between two ranks, a FIFO of slots.
 *
 *            producer                        memory both ends reach                        consumer
 *          step, seen head    ┌────────────────────────────────────────────────┐    step, seen tail
 *   writes tail, headers,     │ tail │ head │ headers[] │ slots, per protocol  │    writes head
 *   slots                     └────────────────────────────────────────────────┘
 *
 *   field      written by   read by      order
 *   tail       producer     consumer     release after the slot's header and data; acquire before reading them
 *   head       consumer     producer     release after the slot was read; acquire before it is overwritten
 *   headers[s] producer     consumer     covered by tail
 *   slots      producer     consumer     covered by tail, or each line by its own flag; by head against overwriting
 *
 * Both counters count steps from the beginning of the connection and never go back; step s lives in slot s mod nslots.
 * Slots of all protocols share the counters, so a connection may change protocol between calls:
 *   tail − head ≤ nslots,  credit = nslots − (step − head),  ready: tail − step > 0   (modulo 2^64)
 * The counters live in the connection's memory; each end keeps its own position in `step` and the last seen value of
 * the other's counter, so that a step that need not look at the other end's cache line does not.
 */
#ifndef COLLET_FIFO_FIFO_H
#define COLLET_FIFO_FIFO_H

#include "fifo/protocol.h"

#include <stddef.h>

#define FIFO_MAX_SLOTS 16
#define FIFO_LINE_BYTES 128 /* two cache lines: adjacent-line prefetch must not tie the counters together */

/* The first word of a slot's header: how much payload, and in which protocol's area. A wire that carries the slot must know
 * both. */
#define FIFO_WORD_SHIFT 29
PORT_FN uint32_t fifo_word(uint32_t protocol, uint32_t bytes) { return protocol << FIFO_WORD_SHIFT | bytes; }
PORT_FN uint32_t fifo_word_protocol(uint32_t word) { return word >> FIFO_WORD_SHIFT; }
PORT_FN uint32_t fifo_word_bytes(uint32_t word) { return word & ((1u << FIFO_WORD_SHIFT) - 1); }

struct fifo_slot_header {
    uint32_t word;      /* fifo_word() */
    uint32_t signature; /* of the operation that filled it: what both ends must agree on, hashed */
    uint64_t sequence;  /* number of the operation on its communicator */
    uint32_t roams;     /* the payload has moved on in the slot */
    uint32_t gauged;    /* how often the producer has timed this line (exec_host.c) */
    uint64_t unused[5]; /* a cache line each: filling one slot must not disturb the reader of its neighbour */
};

/* One end of a connection, as executors use it. Belongs to the worker that produces into it or consumes from it. */
struct fifo_end {
    uint64_t *tail, *head;
    struct fifo_slot_header *headers;
    char *slots[PROTOCOL_COUNT];      /* where each protocol's begin … */
    uint32_t strides[PROTOCOL_COUNT]; /* … and how far apart they are */
    uint64_t step;                    /* the step this end does next */
    uint64_t seen;                    /* producer: last head read; consumer: last tail read */
    uint32_t nslots, short_bytes;
    uint32_t ll_flag_mask; /* flags hold 1 + (step & mask) */
    uint32_t remote;       /* the ends share no memory: a wire carries slots, and needs headers and tails of all */
    uint32_t roam_bytes; /* of a slot, through which payloads move on lap by lap (proto_simple.h); 0: they do not … */
    uint32_t roams;      /* … producer: this step's does; consumer: the last one's did */
    uint32_t far_lines;  /* host producer: 0 … FIFO_FAR_LINES, the more of its slots' lines came from far of late */
    int32_t nt_stores;   /* host producer: 1 always past the caches, 0 never, −1 by the above */
};

#define FIFO_FAR_LINES 8u

/* Does this producer write its slots past the caches? */
PORT_FN int fifo_streams(const struct fifo_end *end) {
    return end->nt_stores < 0 ? end->far_lines > FIFO_FAR_LINES / 2 : end->nt_stores;
}

PORT_FN uint32_t fifo_slot(const struct fifo_end *end) { return (uint32_t)end->step & (end->nslots - 1); }

PORT_FN char *fifo_slot_at(const struct fifo_end *end, uint32_t protocol, uint64_t step) {
    return end->slots[protocol] + (size_t)(step & (end->nslots - 1)) * end->strides[protocol];
}

PORT_FN int fifo_has_credit(struct fifo_end *end) {
    if (end->step - end->seen < end->nslots)
        return 1;
    end->seen = port_load_acquire(end->head); /* pairs with fifo_consumed() */
    return end->step - end->seen < end->nslots;
}

PORT_FN int fifo_has_data(struct fifo_end *end) {
    if ((int64_t)(end->seen - end->step) > 0)
        return 1;
    end->seen = port_load_acquire(end->tail); /* pairs with fifo_publish() */
    return (int64_t)(end->seen - end->step) > 0;
}

PORT_FN void fifo_publish(struct fifo_end *end) {
    end->step++;
    port_store_release(end->tail, end->step); /* pairs with fifo_has_data() */
}

PORT_FN void fifo_consumed(struct fifo_end *end) {
    end->step++;
    port_store_release(end->head, end->step); /* pairs with fifo_has_credit() */
}

#endif
