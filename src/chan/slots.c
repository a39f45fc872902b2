/* SPDX-License-Identifier: Apache-2.0
 *
 * How many slots a connection has, and how long they are.
 *
 *    algorithm             connections of a rank       slots
 *    ring, tree …          1 to log n                  as long as COLLET_BUFFSIZE says, however many ranks there are
 *    hier, hiertree        up to 4 from each mate      halved until all of them stay within a budget, or are short
 *    halving, pat …        more, up to n − 1           as hier
 *    direct, messages …    n − 1                       as hier; then slots become fewer, and then shorter still
 *    twoshot               2 (n − 1)                   as direct
 *
 * A user's messages may need a connection with each rank. So slots of this kind get as short as necessary: all connections stay
 * within the budget up to some 100,000 ranks. A collective has a choice of algorithms. From 10,240 peers on, slots of direct algorithms
 * are too short to be useful: then the tuner chooses algorithms that connect a rank with fewer others (layers/tuner/tuner.c).
 *
 * If algorithms of several kinds connect two ranks, these have a connection of each kind. The lane tells both ends the kind.
 */
#include "chan/slots.h"

#define NSLOTS 8
#define SHORT_BYTES 4096u /* Payload of a short slot. Long slots are faster for larger messages */
#define SHORT_PART 8u     /* If memory is scarce, a short slot has at most 1/SHORT_PART of a long slot's payload */
#define LEAST_LONG_BYTES 1024u
#define LEAST_SHORT_BYTES 512u

/* The smallest connection. One of its two slots is filled while the other is emptied. A short slot holds one line of LL128. */
#define FEWEST_SLOTS 2u
#define TINY_LONG_BYTES 256u
#define TINY_SHORT_BYTES 128u

/* Slots of processes that take turns on a GPU. A process works until its slots are full or empty, but the other processes wait until its
 * time slice ends. So slots are long, to hold all that a channel must carry. Few slots are enough, because only one process runs at a
 * time. */
#define TURN_SLOTS FEWEST_SLOTS
#define TURN_LONG_BYTES (1u << 20)

/* Payload of a slot of LL128 on a GPU: 512 lines of 128 bytes, eight per group of the largest block. */
#define GPU_LINES_BYTES (512u * 120)

/* Defaults of COLLET_BUFFSIZE. MEMORY: slots in shared memory should stay in the caches until they are read. MESSAGES: slots that
 * are sent as messages have their own headers and completions, or need system calls at both ends. So longer slots are better. */
#define MEMORY_BUFFER_BYTES (1u << 20)
#define MESSAGES_BUFFER_BYTES (4u << 20)
#define ROAM_BYTES (2u << 20) /* Bytes through which the payloads of one rank roam, lap by lap (fifo_place.h) */
/* Minimum payload of a long slot, even if COLLET_BUFFSIZE is less: room for blocks of many ranks. */
#define SET_LONG_BYTES 4096u
/* Connections of a rank in hierarchical algorithms: to each mate of its node (two trees, up and down), and to other nodes. */
#define CONNECTIONS_PER_MATE 4
#define CONNECTIONS_BEYOND 8

uint32_t chan_roam_bytes(int neighbours) { return ROAM_BYTES / NSLOTS / (uint32_t)(neighbours > 0 ? neighbours : 1); }

static uint32_t long_bytes(const struct config *config, bool messages) {
    uint32_t buffer = messages ? MESSAGES_BUFFER_BYTES : MEMORY_BUFFER_BYTES;
    uint32_t bytes = (config->buffsize > 0 ? (uint32_t)config->buffsize : buffer) / NSLOTS / 64 * 64;
    return bytes > SET_LONG_BYTES ? bytes : SET_LONG_BYTES;
}

struct slots {
    uint32_t count, long_bytes, short_bytes;
};

static struct fifo_layout layout_with(const struct config *config, const struct chan_scale *scale,
                                      const struct slots *slots) {
    uint32_t lines_bytes = slots->long_bytes < GPU_LINES_BYTES ? slots->long_bytes : GPU_LINES_BYTES;
    struct protocol_sizes sizes = {slots->long_bytes, slots->short_bytes,
                                   scale->on_gpus ? lines_bytes : slots->short_bytes};
    uint32_t room_bytes = scale->messages || config->buffsize > 0 ? 0 : chan_roam_bytes(scale->nranks - 1);
    return fifo_layout_of(slots->count, sizes, room_bytes);
}

/* Makes slots shorter. False: they are already short. */
static bool shorten(struct slots *slots) {
    if (slots->long_bytes <= LEAST_LONG_BYTES)
        return false;
    slots->long_bytes = slots->long_bytes / 2 / 64 * 64;
    if (slots->long_bytes / SHORT_PART < slots->short_bytes && slots->short_bytes > LEAST_SHORT_BYTES)
        slots->short_bytes /= 2;
    return true;
}

/* Halves the number of slots, then makes them tiny. False: they are already tiny. */
static bool squeeze(struct slots *slots) {
    if (slots->count > FEWEST_SLOTS) {
        slots->count /= 2;
        return true;
    }
    if (slots->long_bytes <= TINY_LONG_BYTES)
        return false;
    slots->long_bytes /= 2;
    slots->short_bytes = slots->short_bytes / 2 > TINY_SHORT_BYTES ? slots->short_bytes / 2 : TINY_SHORT_BYTES;
    return true;
}

/* The layout with the largest slots with which nconns connections stay within the budget. If no slots do, it has the smallest slots. */
static struct fifo_layout layout_of_kind(const struct config *config, const struct chan_scale *scale, size_t nconns,
                                         bool tiny) {
    struct slots slots = {NSLOTS, long_bytes(config, scale->messages), SHORT_BYTES};
    if (scale->turns && config->buffsize == 0)
        slots = (struct slots){TURN_SLOTS, TURN_LONG_BYTES, SHORT_BYTES};
    struct fifo_layout layout = layout_with(config, scale, &slots);
    while (layout.total_bytes * nconns > CHAN_BUDGET_BYTES && (shorten(&slots) || (tiny && squeeze(&slots))))
        layout = layout_with(config, scale, &slots);
    return layout;
}

void chan_layouts(const struct config *config, const struct chan_scale *scale,
                  struct fifo_layout layouts[PROG_CONNECTS_COUNT]) {
    const int mates = scale->node_ranks < PROG_NODE_RANKS_MAX ? scale->node_ranks : PROG_NODE_RANKS_MAX;
    const int connections[PROG_CONNECTS_COUNT] = {
        [PROG_TO_FEW] = 0, /* There are few connections, so the budget does not limit their slots */
        [PROG_TO_MATES] = CONNECTIONS_PER_MATE * mates + CONNECTIONS_BEYOND,
        [PROG_TO_MANY] = scale->nranks,
        [PROG_TO_ALL] = scale->nranks,
        [PROG_TO_ALL_TWICE] = 2 * scale->nranks,
    };
    for (int kind = 0; kind < PROG_CONNECTS_COUNT; kind++)
        layouts[kind] = layout_of_kind(config, scale, (size_t)connections[kind], kind >= PROG_TO_ALL);
}
