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

/* Offsets and lengths, in bytes. Both ends compute the same numbers. */
struct fifo_layout {
    uint32_t nslots; /* number of slots: a power of two, at most FIFO_MAX_SLOTS */
    struct protocol_sizes sizes;
    uint32_t strides[PROTOCOL_COUNT];      /* [protocol]: from one slot to the next */
    size_t slots_at[PROTOCOL_COUNT];       /* [protocol]: offset of the first slot */
    size_t head_at, headers_at, offers_at; /* offsets; tail has offset 0 */
    size_t total_bytes;
};

/* room_bytes: least room of a long slot, if it is more than sizes.long_bytes. */
struct fifo_layout fifo_layout_of(uint32_t nslots, struct protocol_sizes sizes, uint32_t room_bytes);

/* Maximum payload of a slot of one protocol. */
static inline uint32_t fifo_payload_bytes(const struct fifo_layout *layout, uint32_t protocol) {
    return protocol_payload_bytes(protocol, &layout->sizes);
}

/* Maximum payload of a slot of any protocol. */
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

/* fifo_end_init: makes `end` point into memory with this layout, with its counters at config's first_step. fifo_memory_init: writes
 * first_step into the counters in the memory. Only the consumer's side calls it. */
void fifo_end_init(struct fifo_end *end, void *memory, const struct fifo_layout *layout, const struct config *config);
void fifo_memory_init(void *memory, const struct fifo_layout *layout, const struct config *config);

#endif
