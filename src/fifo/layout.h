/* SPDX-License-Identifier: Apache-2.0
 *
 * Where everything is in a connection's memory. Each protocol has an area of its own, computed from the table of protocols:
 *
 *    │ tail │ head │ headers[] │ offers[] │ slots of the last protocol │ … │ slots of Simple │
 *
 * Slots of Simple, the first protocol, come last: a transport may put them into other memory.
 */
#ifndef COLLET_FIFO_LAYOUT_H
#define COLLET_FIFO_LAYOUT_H

#include "base/config.h"
#include "fifo/fifo.h"

/* Offsets and lengths, in bytes. Both ends compute the same numbers. */
struct fifo_layout {
    uint32_t nslots; /* Number of slots: a power of two, at most FIFO_MAX_SLOTS */
    struct protocol_sizes sizes;
    uint32_t strides[PROTOCOL_COUNT];      /* [protocol]: bytes from one slot to the next */
    size_t slots_at[PROTOCOL_COUNT];       /* [protocol]: offset of the first slot */
    size_t head_at, headers_at, offers_at; /* Offsets of these areas. Tail has offset 0 */
    size_t total_bytes;
};

/* Computes the layout. A long slot gets memory for the larger one of sizes.long_bytes and room_bytes. */
struct fifo_layout fifo_layout_of(uint32_t nslots, struct protocol_sizes sizes, uint32_t room_bytes);

/* The maximum payload bytes of a slot of this protocol. */
static inline uint32_t fifo_payload_bytes(const struct fifo_layout *layout, uint32_t protocol) {
    return protocol_payload_bytes(protocol, &layout->sizes);
}

/* The maximum payload bytes of a slot, over all protocols. */
static inline uint32_t fifo_scratch_bytes(const struct fifo_layout *layout) {
    uint32_t most = 0;
    for (uint32_t p = 0; p < PROTOCOL_COUNT; p++)
        if (fifo_payload_bytes(layout, p) > most)
            most = fifo_payload_bytes(layout, p);
    return most;
}

/* Checks a header that came over a wire: is its protocol known, and does the payload fit into a slot? */
static inline int fifo_header_fits(const struct fifo_layout *layout, uint32_t word) {
    uint32_t protocol = fifo_word_protocol(word);
    return protocol < PROTOCOL_COUNT && fifo_word_bytes(word) <= fifo_payload_bytes(layout, protocol);
}

/* fifo_end_init: makes `end` point into memory with this layout. The end begins at position config->first_step. fifo_memory_init:
 * stores config->first_step in tail and head. Only the consumer's side calls fifo_memory_init. */
void fifo_end_init(struct fifo_end *end, void *memory, const struct fifo_layout *layout, const struct config *config);
void fifo_memory_init(void *memory, const struct fifo_layout *layout, const struct config *config);

#endif
