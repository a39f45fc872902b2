/* SPDX-License-Identifier: Apache-2.0 */
#include "fifo/layout.h"

_Static_assert(sizeof(struct fifo_slot_header) == 64, "a cache line");
_Static_assert(sizeof(struct loan_offer) == 64, "a cache line");

#define PAGE_BYTES 4096
/* Pad behind each long slot: otherwise neighbouring slots would compete for the same cache sets */
#define SLOT_PAD_BYTES 256u

#define NAME_OF(NAME, name, text, slots, unit, line, costs) [PROTOCOL_##NAME] = text,
const char *const protocol_names[PROTOCOL_COUNT] = {PROTOCOLS(NAME_OF)};

static size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

/* Areas of at least one page begin at a page; shorter areas may share a page. */
static size_t round_up_to_page(size_t at, size_t bytes) {
    return round_up(at, bytes < PAGE_BYTES ? FIFO_LINE_BYTES : PAGE_BYTES);
}

static uint32_t stride_of(uint32_t protocol, uint32_t payload_bytes) {
    uint32_t pad = protocol_slots(protocol) == PROTOCOL_LONG ? SLOT_PAD_BYTES : 0;
    return (uint32_t)round_up(protocol_memory_bytes(protocol, payload_bytes), FIFO_LINE_BYTES) + pad;
}

struct fifo_layout fifo_layout_of(uint32_t nslots, struct protocol_sizes sizes, uint32_t room_bytes) {
    struct fifo_layout l = {.nslots = nslots, .sizes = sizes};
    sizes.long_bytes = room_bytes > sizes.long_bytes ? room_bytes : sizes.long_bytes;
    l.head_at = FIFO_LINE_BYTES;
    l.headers_at = l.head_at + FIFO_LINE_BYTES;
    l.offers_at = l.headers_at + nslots * sizeof(struct fifo_slot_header);
    size_t at = l.offers_at + nslots * sizeof(struct loan_offer);
    for (uint32_t protocol = PROTOCOL_COUNT; protocol-- > 0;) {
        l.strides[protocol] = stride_of(protocol, protocol_payload_bytes(protocol, &sizes));
        const size_t bytes = (size_t)nslots * l.strides[protocol];
        l.slots_at[protocol] = round_up_to_page(at, bytes);
        at = l.slots_at[protocol] + bytes;
    }
    l.total_bytes = round_up_to_page(at, at);
    return l;
}

void fifo_memory_init(void *memory, const struct fifo_layout *layout, const struct config *config) {
    char *base = memory;
    *(uint64_t *)(void *)base = (uint64_t)config->first_step;
    *(uint64_t *)(void *)(base + layout->head_at) = (uint64_t)config->first_step;
}

void fifo_end_init(struct fifo_end *end, void *memory, const struct fifo_layout *layout, const struct config *config) {
    char *base = memory;
    *end = (struct fifo_end){
        .tail = (uint64_t *)(void *)base,
        .head = (uint64_t *)(void *)(base + layout->head_at),
        .headers = (struct fifo_slot_header *)(void *)(base + layout->headers_at),
        .position = (uint64_t)config->first_step,
        .seen = (uint64_t)config->first_step,
        .nslots = layout->nslots,
        .loans.until = (uint64_t)config->first_step,
        .loans.landings_end = (uint64_t)config->first_step,
        .loans.offers = (struct loan_offer *)(void *)(base + layout->offers_at),
        .turn_mask = (uint32_t)((1ull << config->ll_flag_bits) - 1),
    };
    for (uint32_t protocol = 0; protocol < PROTOCOL_COUNT; protocol++) {
        end->slots[protocol] = base + layout->slots_at[protocol];
        end->strides[protocol] = layout->strides[protocol];
        end->turns[protocol] = (uint32_t)config->first_step;
    }
}
