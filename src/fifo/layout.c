/* SPDX-License-Identifier: Apache-2.0 */
#include "fifo/layout.h"

#define SLOT_PAD_BYTES 256u /* keeps equal offsets of neighbouring slots out of one cache set */

static size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

struct fifo_layout fifo_layout_roomy(uint32_t nslots, uint32_t slot_bytes, uint32_t room_bytes, uint32_t ll_bytes) {
    struct fifo_layout l = {.nslots = nslots, .slot_bytes = slot_bytes, .ll_bytes = ll_bytes};
    l.slot_stride = (uint32_t)round_up(room_bytes, 64) + SLOT_PAD_BYTES;
    l.head_at = FIFO_LINE_BYTES;
    l.headers_at = l.head_at + FIFO_LINE_BYTES;
    l.ll_at = round_up(l.headers_at + nslots * sizeof(struct fifo_slot_header), FIFO_LINE_BYTES);
    l.ll128_at = round_up(l.ll_at + (size_t)nslots * ll_bytes * 2, LL128_LINE_BYTES);
    l.simple_at = round_up(l.ll128_at + (size_t)nslots * fifo_ll128_bytes(ll_bytes), 4096);
    l.total_bytes = round_up(l.simple_at + (size_t)nslots * l.slot_stride, 4096);
    return l;
}

struct fifo_layout fifo_layout_of(uint32_t nslots, uint32_t slot_bytes, uint32_t ll_bytes) {
    return fifo_layout_roomy(nslots, slot_bytes, slot_bytes, ll_bytes);
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
        .ll = (uint64_t *)(void *)(base + layout->ll_at),
        .ll128 = base + layout->ll128_at,
        .simple = base + layout->simple_at,
        .step = (uint64_t)config->first_step,
        .seen = (uint64_t)config->first_step,
        .nslots = layout->nslots,
        .slot_stride = layout->slot_stride,
        .ll_bytes = layout->ll_bytes,
        .ll_flag_mask = (uint32_t)((1ull << config->ll_flag_bits) - 1),
    };
}
