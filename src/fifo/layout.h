/* SPDX-License-Identifier: Apache-2.0
 *
 * Where everything is in a connection's memory. Each protocol has an area of its own, computed from the table of protocols:
 *
 *    │ tail │ head │ headers[] │ offers[] │ slots of the last protocol │ … │ slots of Simple │
 *
 * Simple, the first protocol, has the last area: a transport may put it elsewhere.
 */
#ifndef COLLET_FIFO_LAYOUT_H
#define COLLET_FIFO_LAYOUT_H

#include "base/config.h"
#include "fifo/fifo.h"

/* Offsets and lengths in bytes; the same computation at both ends. */
struct fifo_layout {
    uint32_t nslots; /* a power of two ≤ FIFO_MAX_SLOTS */
    struct protocol_sizes sizes;
    uint32_t strides[PROTOCOL_COUNT];      /* from a slot to the next */
    size_t slots_at[PROTOCOL_COUNT];       /* where a protocol's slots begin */
    size_t head_at, headers_at, offers_at; /* tail is at 0 */
    size_t total_bytes;
};

/* room_bytes: of a long slot, at least sizes.long_bytes; 0: just those. */
struct fifo_layout fifo_layout_of(uint32_t nslots, struct protocol_sizes sizes, uint32_t room_bytes);

/* Most payload of a slot. */
static inline uint32_t fifo_payload_bytes(const struct fifo_layout *layout, uint32_t protocol) {
    return protocol_payload_bytes(protocol, &layout->sizes);
}

/* Most payload of a slot. */
static inline uint32_t fifo_scratch_bytes(const struct fifo_layout *layout) {
    uint32_t most = 0;
    for (uint32_t p = 0; p < PROTOCOL_COUNT; p++)
        if (fifo_payload_bytes(layout, p) > most)
            most = fifo_payload_bytes(layout, p);
    return most;
}

/* Is this header, which came over a wire, that of a slot which can be? */
static inline int fifo_header_fits(const struct fifo_layout *layout, uint32_t word) {
    uint32_t protocol = fifo_word_protocol(word);
    return protocol < PROTOCOL_COUNT && fifo_word_bytes(word) <= fifo_payload_bytes(layout, protocol);
}

/* Points end into memory laid out so, with both counters at config's first_step. The consumer's side also initialises
 * memory. */
void fifo_end_init(struct fifo_end *end, void *memory, const struct fifo_layout *layout, const struct config *config);
void fifo_memory_init(void *memory, const struct fifo_layout *layout, const struct config *config);

#endif
