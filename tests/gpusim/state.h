/* SPDX-License-Identifier: Apache-2.0
 *
 * What runs: GPUs with SMs, on which blocks lie, of which warps take turns; and in a warp, splits: lanes that are at the same
 * place and step together.
 *
 *    split   READY ──▶ PARKED        where lanes may join, as long as others of the warp are on their way
 *                  ──▶ AT_BARRIER    until all lanes of the block have come
 *                  ──▶ AT_SYNC       until all lanes that the mask names have come
 *    Lanes that end leave their split; one without lanes is gone.
 */
#ifndef COLLET_GPUSIM_STATE_H
#define COLLET_GPUSIM_STATE_H

#include "gpusim/memory.h"

#define CALLS_DEEP 6
#define BARRIERS 16

struct frame {
    const struct ptx_function *f;
    uint32_t pc, row, local; /* the first row of the warp's; bytes into the lane's local memory */
};

enum split_state { READY, PARKED, AT_BARRIER, AT_SYNC };
struct split {
    uint32_t mask;
    enum split_state state;
    uint32_t depth;
    struct frame frames[CALLS_DEEP];
    uint32_t order;  /* PARKED: of the block of code; what is earlier goes on first */
    uint8_t torn;    /* a load of which one half is done: 1 + that half */
    uint8_t barrier; /* AT_BARRIER */
};

struct warp {
    struct chains *chains; /* NULL: they are not counted */
    struct block *block;
    uint32_t first_thread, live; /* lanes that have not ended */
    uint64_t *rows;
    uint8_t *locals; /* a lane's begin at lane × local_bytes */
    uint32_t nsplits;
    struct split splits[PTX_LANES];
    const struct range *range; /* where a lane was last */
    uint64_t polled[PTX_LANES];
};

struct barrier {
    uint32_t arrived, expected; /* expected 0: all lanes that have not ended */
    uint32_t count, all;        /* of a reduction */
};

struct block {
    struct gpusim_grid *grid;
    struct sm *sm;
    struct gpusim_dim index;
    uint32_t nwarps, nthreads, live;
    struct warp *warps;
    uint8_t *shared;
    uint32_t shared_bytes;
    struct barrier barriers[BARRIERS];
    uint64_t loaded;   /* bytes, by weak loads since the last barrier */
    bool fenced;       /* for the system, since then */
    struct chain last; /* see chain.c */
    struct pending_list pending, aliased, *lane_lists;
    struct pending *entries;
};

struct sm {
    struct device *device;
    uint32_t number;
    struct gpusim_use used; /* by this process */
    struct l1 *l1, *alias_l1;
};

struct device {
    uint32_t number;
    struct sm *sms;
    struct pending_list pending;
    struct pending entries[DEVICE_PENDING];
    struct gpusim_grid *first, **end; /* grids with blocks that have not begun */
    struct gpusim_counts counts;
    uint32_t nblocks, busy_sms; /* that lie on its SMs; SMs with blocks */
    uint64_t clock;             /* in 1/256 ns */
    bool is_paused;
};

struct gpusim_grid {
    struct device *device;
    const struct ptx_function *f;
    struct gpusim_dim grid, block;
    uint32_t nblocks, begun, ended, threads, registers, shared_bytes;
    uint32_t occupied_bytes; /* of shared memory, as SMs count it */
    uint8_t *args;
    struct gpusim_grid *next; /* of those with blocks that have not begun */
    char *fault;
};

/* warp.c */
bool warp_can_run(const struct warp *warp);
/* How many instructions it has executed. */
uint32_t warp_turn(struct warp *warp, uint32_t instructions);
struct view warp_view(const struct warp *warp, uint32_t lane);
/* exec.c: until the split waits, ends, or has executed so many. */
uint32_t split_run(struct warp *warp, struct split *split, uint32_t instructions);
/* warp.c, for exec.c */
struct split *split_off(struct warp *warp, struct split *split, uint32_t mask);
void split_at_random(struct warp *warp, struct split *split);
bool split_parks(struct warp *warp, struct split *split, uint32_t order);
void split_exit(struct warp *warp, struct split *split, uint32_t mask);
void split_at_barrier(struct warp *warp, struct split *split, const struct ptx_insn *insn);
bool split_syncs(struct warp *warp, struct split *split, const struct ptx_insn *insn);
uint64_t *row_of(const struct warp *warp, const struct frame *frame, int32_t row);
void warp_fault(struct warp *warp, const struct split *split, uint32_t lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* chain.c */
enum loaded_from { FROM_ARGUMENTS, FROM_SM, FROM_MEMORY };
struct chains *chains_create(const struct ptx_function *f, struct chain *last);
void chains_count(const struct block *block, struct gpusim_counts *counts);
void chains_step(struct chains *chains, const struct frame *frame, const struct ptx_insn *insn, uint32_t mask,
                 uint32_t executing);
void chains_load(struct chains *chains, const struct frame *frame, const struct ptx_insn *insn, uint32_t lane,
                 enum loaded_from from, uint64_t address);
/* access.c */
bool split_load(struct warp *warp, struct split *split, const struct ptx_insn *insn); /* false: only half of it */
void split_store(struct warp *warp, struct split *split, const struct ptx_insn *insn);
void split_multi_load(struct warp *warp, struct split *split, const struct ptx_insn *insn);
void split_multi_store(struct warp *warp, struct split *split, const struct ptx_insn *insn);
void split_atomic(struct warp *warp, struct split *split, const struct ptx_insn *insn);
void split_alias_fence(struct warp *warp, struct split *split);
void split_fence(struct warp *warp, struct split *split, const struct ptx_insn *insn);

#define FOR_LANES(lane, mask)                                                                                          \
    for (uint32_t left_ = (mask), lane; left_ != 0 && (lane = (uint32_t)__builtin_ctz(left_), true); left_ &= left_ - 1)

#endif
