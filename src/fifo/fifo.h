/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of one connection: one direction between two ranks, a FIFO of slots.
 *
 *            producer                        memory both ends reach                        consumer
 *          step, seen head    ┌────────────────────────────────────────────────┐    step, seen tail
 *   writes tail, headers,     │ tail │ head │ headers[] │ LL │ LL128 │ Simple   │    writes head
 *   slots, lines              └────────────────────────────────────────────────┘
 *
 *   field      written by   read by      order
 *   tail       producer     consumer     release after the slot's header and data; acquire before reading them
 *   head       consumer     producer     release after the slot was read; acquire before it is overwritten
 *   headers[s] producer     consumer     covered by tail
 *   LL, LL128  producer     consumer     each line carries its own flag; covered by head against overwriting
 *
 * Both counters count steps from the beginning of the connection and never go back; step s lives in slot s mod nslots.
 * Slots of all protocols share the counters, so a connection may change protocol between calls:
 *   tail − head ≤ nslots,  credit = nslots − (step − head),  ready: tail − step > 0   (modulo 2^64)
 * The counters live in the connection's memory; each end keeps its own position in `step` and the last seen value of
 * the other's counter, so that a step that need not look at the other end's cache line does not.
 */
#ifndef COLLET_FIFO_FIFO_H
#define COLLET_FIFO_FIFO_H

#include "fifo/port.h"

#include <stddef.h>

#define FIFO_MAX_SLOTS 16
#define FIFO_LINE_BYTES 128 /* two cache lines: adjacent-line prefetch must not tie the counters together */

/* Set in fifo_slot_header.bytes when the slot holds LL lines, for wires that must know which memory to move. */
#define FIFO_LL_BIT (1u << 31)

struct fifo_slot_header {
    uint32_t bytes;     /* payload in this slot (with FIFO_LL_BIT: bytes of lines) */
    uint32_t signature; /* of the operation that filled it: what both ends must agree on, hashed */
    uint64_t sequence;  /* number of the operation on its communicator */
    uint32_t roams;     /* the payload has moved on in the slot */
    uint32_t gauged;    /* how often the producer has timed this line (exec_host.c) */
    uint64_t unused[5]; /* a cache line each: filling one slot must not disturb the reader of its neighbour */
};

/* An LL128 line, and what the lines of ll_bytes of data take. */
#define LL128_DATA_BYTES 120u
#define LL128_LINE_BYTES 128u
PORT_FN uint32_t fifo_ll128_bytes(uint32_t ll_bytes) {
    return (ll_bytes + LL128_DATA_BYTES - 1) / LL128_DATA_BYTES * LL128_LINE_BYTES;
}

/* Offsets inside a connection's memory, in bytes; the same computation at both ends. */
struct fifo_layout {
    uint32_t nslots;      /* a power of two ≤ FIFO_MAX_SLOTS */
    uint32_t slot_bytes;  /* payload of a Simple slot */
    uint32_t slot_stride; /* distance of Simple slots */
    uint32_t ll_bytes;    /* payload of an LL or LL128 slot; the lines of LL take twice that */
    size_t head_at, headers_at, ll_at, ll128_at, simple_at; /* tail is at 0 */
    size_t total_bytes;
};

/* One end of a connection, as executors use it. Belongs to the worker that produces into it or consumes from it. */
struct fifo_end {
    uint64_t *tail, *head;
    struct fifo_slot_header *headers;
    uint64_t *ll;
    char *ll128;
    char *simple;
    uint64_t step; /* the step this end does next */
    uint64_t seen; /* producer: last head read; consumer: last tail read */
    uint32_t nslots, slot_stride, ll_bytes;
    uint32_t ll_flag_mask; /* flags hold 1 + (step & mask) */
    uint32_t remote; /* the ends share no memory: a wire carries slots, and needs headers and tails of LL slots too */
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
