/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tuner/sim_queue.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 64
#define BLOCK_EVENTS 31

/* A bucket is a list of blocks. Blocks come from a pool that is large enough for all events, whatever buckets they are in. */
struct event_block {
    int32_t next; /* Number of the next block of the list. −1: none. */
    int32_t count;
    struct sim_event events[BLOCK_EVENTS];
};
struct bucket {
    int32_t first, last; /* Numbers of the first and the last block. −1: the bucket is empty. */
};

struct sim_queue {
    int64_t last_ps; /* Time of the event that was taken last. */
    uint64_t filled; /* Bit b: bucket b is not empty. */
    struct bucket buckets[BUCKETS];
    int32_t taken; /* Number of events taken from the first block of bucket 0. */
    int32_t free;  /* First block of the list of free blocks. */
    size_t nblocks;
    struct event_block blocks[];
};

/* ---- blocks ---- */

static int32_t take_block(struct sim_queue *queue) {
    int32_t number = queue->free;
    queue->free = queue->blocks[number].next;
    queue->blocks[number].next = -1;
    queue->blocks[number].count = 0;
    return number;
}

static void give_block(struct sim_queue *queue, int32_t number) {
    queue->blocks[number].next = queue->free;
    queue->free = number;
}

static void append(struct sim_queue *queue, int b, struct sim_event event) {
    struct bucket *bucket = &queue->buckets[b];
    if (bucket->last < 0 || queue->blocks[bucket->last].count == BLOCK_EVENTS) {
        int32_t number = take_block(queue);
        if (bucket->last < 0)
            bucket->first = number;
        else
            queue->blocks[bucket->last].next = number;
        bucket->last = number;
        queue->filled |= UINT64_C(1) << b;
    }
    struct event_block *block = &queue->blocks[bucket->last];
    block->events[block->count++] = event;
}

/* Takes all blocks out of a bucket. Returns the first one. */
static int32_t empty_bucket(struct sim_queue *queue, int b) {
    int32_t first = queue->buckets[b].first;
    queue->buckets[b] = (struct bucket){-1, -1};
    queue->filled &= ~(UINT64_C(1) << b);
    return first;
}

/* ---- life ---- */

struct sim_queue *sim_queue_create(size_t events) {
    /* In every bucket the last block may be partly empty, and in bucket 0 also the first one. While sim_queue_delay() moves
     * all events, old and new buckets exist side by side. */
    size_t nblocks = events / BLOCK_EVENTS + 2 * BUCKETS + 3;
    struct sim_queue *queue = malloc(sizeof *queue + nblocks * sizeof queue->blocks[0]);
    if (queue == NULL)
        return NULL;
    queue->nblocks = nblocks;
    sim_queue_reset(queue);
    return queue;
}

void sim_queue_destroy(struct sim_queue *queue) { free(queue); }

void sim_queue_reset(struct sim_queue *queue) {
    queue->last_ps = 0;
    queue->filled = 0;
    queue->taken = 0;
    for (int b = 0; b < BUCKETS; b++)
        queue->buckets[b] = (struct bucket){-1, -1};
    queue->free = -1;
    for (size_t k = queue->nblocks; k > 0; k--)
        give_block(queue, (int32_t)(k - 1));
}

/* ---- putting and taking ---- */

void sim_queue_put(struct sim_queue *queue, struct sim_event event) {
    uint64_t differs = (uint64_t)(event.at_ps ^ queue->last_ps);
    append(queue, differs == 0 ? 0 : 64 - __builtin_clzll(differs), event);
}

static int64_t earliest(const struct sim_queue *queue, int32_t chain) {
    int64_t at_ps = INT64_MAX;
    for (int32_t number = chain; number >= 0; number = queue->blocks[number].next)
        for (int k = 0; k < queue->blocks[number].count; k++)
            if (queue->blocks[number].events[k].at_ps < at_ps)
                at_ps = queue->blocks[number].events[k].at_ps;
    return at_ps;
}

/* Puts the events of a list of blocks, except the first `done`, into the buckets where they belong now. Events keep their
 * order. */
static void deal(struct sim_queue *queue, int32_t chain, int32_t done, int64_t by_ps) {
    for (int32_t number = chain, next; number >= 0; number = next, done = 0) {
        struct event_block *block = &queue->blocks[number];
        for (int32_t k = done; k < block->count; k++)
            sim_queue_put(queue, (struct sim_event){block->events[k].at_ps + by_ps, block->events[k].worker});
        next = block->next;
        give_block(queue, number);
    }
}

bool sim_queue_take(struct sim_queue *queue, struct sim_event *event_p) {
    if (queue->filled == 0)
        return false;
    if ((queue->filled & 1) == 0) {
        int32_t chain = empty_bucket(queue, __builtin_ctzll(queue->filled));
        queue->last_ps = earliest(queue, chain);
        deal(queue, chain, 0, 0);
    }
    struct bucket *bucket = &queue->buckets[0];
    int32_t number = bucket->first;
    struct event_block *block = &queue->blocks[number];
    *event_p = block->events[queue->taken++];
    if (queue->taken < block->count)
        return true;
    queue->taken = 0;
    if (block->next < 0)
        empty_bucket(queue, 0);
    else
        bucket->first = block->next;
    give_block(queue, number);
    return true;
}

void sim_queue_delay(struct sim_queue *queue, int64_t by_ps) {
    int32_t chains[BUCKETS], done = queue->taken;
    for (int b = 0; b < BUCKETS; b++)
        chains[b] = empty_bucket(queue, b);
    queue->last_ps += by_ps;
    queue->taken = 0;
    for (int b = 0; b < BUCKETS; b++, done = 0)
        deal(queue, chains[b], done, by_ps);
}
