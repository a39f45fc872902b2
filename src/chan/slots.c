/* SPDX-License-Identifier: Apache-2.0
 *
 * How many slots a connection has, and how long they are.
 */
#include "chan/chan.h"

#define NSLOTS 8
#define SHORT_BYTES 4096u /* payload of a short slot: above this long ones have long won */
#define MIN_SLOT_BYTES 4096u

/* Payload of a slot of LL128 on a GPU: 512 lines of 128 bytes, eight for each group of the largest block. */
#define GPU_LINES_BYTES (512u * 120)

/* COLLET_BUFFSIZE unless it is set. Slots that stay in the caches between their writer and their reader, or whoever copies
 * them on; but where each is a message, with its own header, answer and look at a completion, or takes system calls at
 * both ends, fewer longer ones. */
#define MEMORY_BUFFER_BYTES (1u << 20)
#define MESSAGES_BUFFER_BYTES (4u << 20)
#define ROAM_BYTES (2u << 20)          /* what the payloads that one rank sends go through, lap by lap (fifo_place.h) */
#define RANK_BUDGET_BYTES (256u << 20) /* Simple slots of one rank's connections to all others, on one channel */

/* Less than wanted where many ranks would make it too much. */
static uint32_t slot_bytes_for(const struct config *config, int nranks, bool messages) {
    size_t wanted = messages ? MESSAGES_BUFFER_BYTES : MEMORY_BUFFER_BYTES, budget = RANK_BUDGET_BYTES / (size_t)nranks;
    if (config->buffsize > 0)
        wanted = (size_t)config->buffsize;
    size_t buffer = wanted < budget ? wanted : budget;
    size_t slot = buffer / NSLOTS / 64 * 64;
    return (uint32_t)(slot < MIN_SLOT_BYTES ? MIN_SLOT_BYTES : slot);
}

uint32_t chan_roam_bytes(int neighbours) { return ROAM_BYTES / NSLOTS / (uint32_t)(neighbours > 0 ? neighbours : 1); }

struct fifo_layout chan_layout(const struct config *config, int nranks, bool messages, bool on_gpus) {
    uint32_t slot_bytes = slot_bytes_for(config, nranks, messages);
    uint32_t lines_bytes = slot_bytes < GPU_LINES_BYTES ? slot_bytes : GPU_LINES_BYTES;
    struct protocol_sizes sizes = {slot_bytes, SHORT_BYTES, on_gpus ? lines_bytes : SHORT_BYTES};
    uint32_t room_bytes = messages || config->buffsize > 0 ? 0 : chan_roam_bytes(nranks - 1);
    return fifo_layout_of(NSLOTS, sizes, room_bytes);
}
