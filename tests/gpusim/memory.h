/* SPDX-License-Identifier: Apache-2.0
 *
 * What lanes see of memory outside of their SM.
 *
 *    a lane's store ──▶ its own list ──▶ the block's ──▶ the GPU's ──▶ memory        in any order, unless fenced
 *                       seen by it       by the block    by the GPU    by all
 *    a weak load    ◀── these lists, over the L1 of the SM, which is filled from memory and never told of changes
 *    a strong load  ◀── these lists, over memory
 *
 * A barrier moves the lanes' lists to the block's. A release or fence empties what its scope names: what the lane has seen of
 * others in its block and on its GPU becomes visible with its own stores. An acquire makes the lines of L1 forgotten; some of
 * them are fetched again at once, and are old when they are loaded.
 *
 *    a store by a multicast address ──▶ a list of the block ─ ─ ─▶ memory
 *    a load by one                  ◀── an L1 of its own, which is filled from memory or, weakly, from that of the SM
 *
 * To these, no barrier, fence or acquire means anything: only a fence between aliases moves their list to the block's, and makes their
 * L1 forgotten, which outlives kernels.
 *
 * Lists hold granules: 8 aligned bytes with a mask. So 16 bytes are two entries, and may become visible one by one.
 */
#ifndef COLLET_GPUSIM_MEMORY_H
#define COLLET_GPUSIM_MEMORY_H

#include "gpusim/ptx.h"

/* ---- ranges ---- */

struct range {
    uint64_t base, bytes;
    enum gpusim_kind kind;
    uint32_t owner;
    uint32_t readers, writers; /* GPUs, by bits */
    bool freed;
    uint32_t nreplicas; /* of a multicast range: where each begins; 0: nowhere */
    uint64_t replicas[GPUSIM_DEVICES_MAX];
};
/* NULL: none. It stays until gpusim_reset(), freed or not. */
const struct range *memory_range_of(uint64_t address);
void memory_reset(void);
/* As their names in machine.h, without a lock. */
bool memory_range_add(void *base, size_t bytes, enum gpusim_kind kind, uint32_t owner);
void memory_range_grant(void *base, uint32_t device, bool may_read, bool may_write);
void memory_range_bind(void *base, uint32_t k, uint32_t nreplicas, void *memory);
void memory_range_free(void *base);
void memory_peer_access(uint32_t device, uint32_t owner, bool allowed);
/* Is memory of the range on this GPU? */
static inline bool range_is_local(const struct range *range, uint32_t device) {
    return range->kind != GPUSIM_HOST_MEMORY && range->kind != GPUSIM_MULTICAST && range->owner == device;
}

/* ---- what a lane sees ---- */

#define L1_LINES 512u
#define L1_LINE_BYTES 128u
#define L1_PREFETCHES 16

struct l1_line {
    uint64_t tag;
    uint32_t generation;
    uint8_t first, end; /* bytes that are there */
    uint8_t data[L1_LINE_BYTES];
};

struct l1 {
    uint32_t generation; /* lines of an earlier one are forgotten */
    struct l1_line lines[L1_LINES];
};

struct pending {
    uint64_t granule, value;
    struct l1 *l1; /* of the SM that stored it */
    uint8_t mask;
};

#define LANE_PENDING 8u
#define BLOCK_PENDING 64u
#define DEVICE_PENDING 128u

struct pending_list {
    uint64_t filter; /* no bit of a granule: it is not here */
    uint32_t n, room;
    struct pending *entries;
};

struct view {
    struct pending_list *lane, *block, *device, *aliased;
    struct l1 *l1, *alias_l1;
};

uint64_t memory_load(const struct view *view, const struct range *range, uint64_t address, uint32_t bytes, bool strong);
void memory_store(const struct view *view, uint64_t address, uint32_t bytes, uint64_t value);
/* The same, visible to all at once. */
void memory_store_now(const struct view *view, uint64_t address, uint32_t bytes, uint64_t value);
/* Both by a multicast address, of one replica. */
uint64_t memory_alias_load(const struct view *view, const struct range *range, uint64_t address, uint32_t bytes,
                           bool strong);
void memory_alias_store(const struct view *view, uint64_t address, uint32_t bytes, uint64_t value);
/* Between accesses by different addresses of one memory. */
void memory_alias_fence(const struct view *view);
/* Whatever is pending for these bytes is in memory afterwards. */
void memory_settle(const struct view *view, uint64_t address);
/* The lane's stores are the block's: at a barrier. */
void memory_share(const struct view *view);
void memory_release(const struct view *view, enum ptx_scope scope);
void memory_acquire(const struct view *view, enum ptx_scope scope);
/* One entry of a list, if there is any, goes to memory. */
void memory_drain_one(const struct view *view, struct pending_list *list);
void memory_drain_all(const struct view *view, struct pending_list *list);
/* At the end of a block: what is left becomes the GPU's. */
void memory_pass_on(const struct view *view);

/* ---- chance ---- */

uint64_t chance_number(void);
/* One time in n; 0: never. */
static inline bool chance(uint32_t n) { return n != 0 && chance_number() % n == 0; }
void chance_seed(uint64_t seed);
extern struct gpusim_meanness meanness;

#endif
