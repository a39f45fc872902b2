/* SPDX-License-Identifier: Apache-2.0
 *
 * How many slots a connection has, and how long they are.
 *
 *    algorithm          connections of a rank       slots
 *    ring, tree …       as many as 1 or log n       as long as COLLET_BUFFSIZE says, however many ranks there are
 *    hier, hiertree     up to 4 from each mate      halved until all of them stay within a budget
 *    direct, pat …      more, up to n − 1           likewise
 *    twoshot            up to 2 (n − 1)             likewise
 *
 * Slots do not get shorter than some hundred bytes. So for more than 10,240 peers the budget does not do: then the tuner chooses algorithms
 * that connect a rank with fewer (plan/tuner.c). Connections of messages are made as a program sends some.
 *
 * Two ranks that several kinds connect have a connection of each kind, on lanes of their own, so that both ends know which it is.
 */
#include "chan/chan.h"

#define NSLOTS 8
#define SHORT_BYTES 4096u /* payload of a short slot: above this long ones have long won */
#define SHORT_PART 8u     /* where memory is short, no more than this part of a long one */
#define LEAST_LONG_BYTES 1024u
#define LEAST_SHORT_BYTES 512u

/* Payload of a slot of LL128 on a GPU: 512 lines of 128 bytes, eight for each group of the largest block. */
#define GPU_LINES_BYTES (512u * 120)

/* COLLET_BUFFSIZE unless it is set. Slots that stay in the caches between their writer and their reader, or whoever copies
 * them on; but where each is a message, with its own header, answer and look at a completion, or takes system calls at
 * both ends, fewer longer ones. */
#define MEMORY_BUFFER_BYTES (1u << 20)
#define MESSAGES_BUFFER_BYTES (4u << 20)
#define ROAM_BYTES (2u << 20) /* what the payloads that one rank sends go through, lap by lap (fifo_place.h) */
#define SET_LONG_BYTES 4096u  /* however short COLLET_BUFFSIZE is: room for the blocks of many ranks in a message */
/* Of hierarchical algorithms: two trees, with sums and with results; and what goes between nodes. */
#define CONNECTIONS_PER_MATE 4
#define CONNECTIONS_BEYOND 8

uint32_t chan_roam_bytes(int neighbours) { return ROAM_BYTES / NSLOTS / (uint32_t)(neighbours > 0 ? neighbours : 1); }

static uint32_t long_bytes(const struct config *config, bool messages) {
    uint32_t buffer = messages ? MESSAGES_BUFFER_BYTES : MEMORY_BUFFER_BYTES;
    uint32_t bytes = (config->buffsize > 0 ? (uint32_t)config->buffsize : buffer) / NSLOTS / 64 * 64;
    return bytes > SET_LONG_BYTES ? bytes : SET_LONG_BYTES;
}

static struct fifo_layout layout_with(const struct config *config, const struct chan_scale *scale, uint32_t slot_bytes,
                                      uint32_t short_bytes) {
    uint32_t lines_bytes = slot_bytes < GPU_LINES_BYTES ? slot_bytes : GPU_LINES_BYTES;
    struct protocol_sizes sizes = {slot_bytes, short_bytes, scale->on_gpus ? lines_bytes : short_bytes};
    uint32_t room_bytes = scale->messages || config->buffsize > 0 ? 0 : chan_roam_bytes(scale->nranks - 1);
    return fifo_layout_of(NSLOTS, sizes, room_bytes);
}

/* The longest slots with which a connection has no more than budget bytes. */
static struct fifo_layout layout_within(const struct config *config, const struct chan_scale *scale, size_t budget) {
    uint32_t slot_bytes = long_bytes(config, scale->messages), short_bytes = SHORT_BYTES;
    struct fifo_layout layout = layout_with(config, scale, slot_bytes, short_bytes);
    while (layout.total_bytes > budget && slot_bytes > LEAST_LONG_BYTES) {
        slot_bytes = slot_bytes / 2 / 64 * 64;
        short_bytes =
            slot_bytes / SHORT_PART >= short_bytes || short_bytes <= LEAST_SHORT_BYTES ? short_bytes : short_bytes / 2;
        layout = layout_with(config, scale, slot_bytes, short_bytes);
    }
    return layout;
}

void chan_layouts(const struct config *config, const struct chan_scale *scale,
                  struct fifo_layout layouts[PROG_CONNECTS_COUNT]) {
    const int mates = scale->node_ranks < PROG_NODE_RANKS_MAX ? scale->node_ranks : PROG_NODE_RANKS_MAX;
    const int connections[PROG_CONNECTS_COUNT] = {
        [PROG_TO_MATES] = CONNECTIONS_PER_MATE * mates + CONNECTIONS_BEYOND,
        [PROG_TO_MANY] = scale->nranks,
        [PROG_TO_MANY_TWICE] = 2 * scale->nranks,
    };
    layouts[PROG_TO_FEW] = layout_within(config, scale, SIZE_MAX);
    for (int kind = PROG_TO_FEW + 1; kind < PROG_CONNECTS_COUNT; kind++)
        layouts[kind] = layout_within(config, scale, CHAN_BUDGET_BYTES / (size_t)connections[kind]);
}
