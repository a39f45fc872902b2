/* SPDX-License-Identifier: Apache-2.0
 *
 * A warp and its splits: which one goes on, where they part and join, and how they wait for each other. Nothing is assumed to
 * run together but what an instruction with .sync has brought together, and only up to the next branch.
 */
#include "gpusim/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t *row_of(const struct warp *warp, const struct frame *frame, int32_t row) {
    return row >= 0 ? warp->rows + ((size_t)frame->row + (uint32_t)row) * PTX_LANES
                    : frame->f->constants + (size_t)~row * PTX_LANES;
}

struct view warp_view(const struct warp *warp, uint32_t lane) {
    struct block *block = warp->block;
    return (struct view){&block->lane_lists[warp->first_thread + lane],
                         &block->pending,
                         &block->sm->device->pending,
                         &block->aliased,
                         block->sm->l1,
                         block->sm->alias_l1};
}

void warp_fault(struct warp *warp, const struct split *split, uint32_t lane, const char *format, ...) {
    struct gpusim_grid *grid = warp->block->grid;
    const struct frame *frame = &split->frames[split->depth];
    char reason[512], text[1024];
    va_list arguments;
    if (grid->fault != NULL)
        return;
    va_start(arguments, format);
    vsnprintf(reason, sizeof(reason), format, arguments);
    va_end(arguments);
    snprintf(text, sizeof(text), "%.200s: line %u of the PTX, GPU %u, block %u, lane %u: %s", frame->f->name,
             frame->f->code[frame->pc].line, grid->device->number, warp->block->index.x, warp->first_thread + lane,
             reason);
    grid->fault = strdup(text);
}

/* ---- parting ---- */

/* Takes the lanes of the mask out of the split, into one of their own that is at the same place. */
struct split *split_off(struct warp *warp, struct split *split, uint32_t mask) {
    struct split *other = &warp->splits[warp->nsplits++];
    *other = *split;
    other->mask = mask;
    split->mask &= ~mask;
    return other;
}

void split_at_random(struct warp *warp, struct split *split) {
    uint32_t some = split->mask & (uint32_t)chance_number();
    if (some != 0 && some != split->mask)
        split_off(warp, split, some);
}

static void forget_empty_splits(struct warp *warp) {
    for (uint32_t k = 0; k < warp->nsplits;)
        if (warp->splits[k].mask == 0)
            warp->splits[k] = warp->splits[--warp->nsplits];
        else
            k++;
}

/* ---- joining ---- */

static bool same_place(const struct split *a, const struct split *b) {
    if (a->depth != b->depth)
        return false;
    for (uint32_t k = 0; k <= a->depth; k++)
        if (a->frames[k].f != b->frames[k].f || a->frames[k].pc != b->frames[k].pc)
            return false;
    return true;
}

static void join_those_in(struct warp *warp, struct split *split, enum split_state state) {
    for (uint32_t k = 0; k < warp->nsplits; k++) {
        struct split *other = &warp->splits[k];
        if (other == split || other->mask == 0 || other->state != state || !same_place(split, other))
            continue;
        split->mask |= other->mask;
        other->mask = 0;
    }
}

/* At a place where lanes may join: others that have waited here come along. Does the split wait for more? */
bool split_parks(struct warp *warp, struct split *split, uint32_t order) {
    if (chance(meanness.apart))
        return false;
    join_those_in(warp, split, PARKED);
    for (uint32_t k = 0; k < warp->nsplits; k++) {
        const struct split *other = &warp->splits[k];
        if (other != split && other->mask != 0 && other->state == READY) {
            split->state = PARKED;
            split->order = order;
            return true;
        }
    }
    return false;
}

/* ---- turns ---- */

bool warp_can_run(const struct warp *warp) {
    for (uint32_t k = 0; k < warp->nsplits; k++)
        if (warp->splits[k].state <= PARKED)
            return true;
    return false;
}

static struct split *any_in(struct warp *warp, enum split_state state) {
    struct split *found[PTX_LANES];
    uint32_t n = 0;
    for (uint32_t k = 0; k < warp->nsplits; k++)
        if (warp->splits[k].state == state)
            found[n++] = &warp->splits[k];
    return n == 0 ? NULL : n == 1 ? found[0] : found[chance_number() % n];
}

/* Of those that wait for others to join, the one that may still meet most. */
static struct split *first_parked(struct warp *warp) {
    struct split *first = NULL;
    for (uint32_t k = 0; k < warp->nsplits; k++) {
        struct split *split = &warp->splits[k];
        if (split->state == PARKED && (first == NULL || split->depth > first->depth ||
                                       (split->depth == first->depth && split->order < first->order)))
            first = split;
    }
    return first;
}

/* Others that wait for each other must go on some time, even if those that are ready never come. */
#define PATIENCE 64u

uint32_t warp_turn(struct warp *warp, uint32_t instructions) {
    struct split *split = chance(PATIENCE) ? any_in(warp, PARKED) : NULL;
    if (split == NULL)
        split = any_in(warp, READY);
    if (split == NULL)
        split = first_parked(warp);
    if (split == NULL)
        return 0;
    split->state = READY;
    uint32_t executed = split_run(warp, split, instructions);
    forget_empty_splits(warp);
    return executed;
}

/* ---- the block's barriers ---- */

static bool reduction_of(const struct barrier *barrier, uint8_t kind, uint64_t *result) {
    *result = kind == REDUCE_AND ? barrier->count == barrier->all : barrier->count;
    if (kind == REDUCE_OR)
        *result = barrier->count != 0;
    return true;
}

static void leave_barrier(struct warp *warp, struct split *split, const struct barrier *barrier) {
    struct frame *frame = &split->frames[split->depth];
    const struct ptx_insn *insn = &frame->f->code[frame->pc];
    uint64_t result;
    if (insn->op == OP_BARRIER_REDUCE && insn->dst[0] != PTX_NO_ROW && reduction_of(barrier, insn->kind, &result)) {
        uint64_t *row = row_of(warp, frame, insn->dst[0]);
        FOR_LANES(lane, split->mask)
        row[lane] = result;
    }
    split->state = READY;
    frame->pc++;
}

static void join_behind_barrier(struct warp *warp) {
    for (uint32_t k = 0; k < warp->nsplits; k++)
        if (warp->splits[k].mask != 0 && warp->splits[k].state == READY && !chance(meanness.apart))
            join_those_in(warp, &warp->splits[k], READY);
}

static void barrier_check(struct block *block, uint32_t number) {
    struct barrier *barrier = &block->barriers[number];
    uint32_t expected = barrier->expected != 0 ? barrier->expected : block->live;
    if (barrier->arrived == 0 || barrier->arrived < expected)
        return;
    for (uint32_t w = 0; w < block->nwarps; w++) {
        struct warp *warp = &block->warps[w];
        bool left = false;
        for (uint32_t k = 0; k < warp->nsplits; k++)
            if (warp->splits[k].mask != 0 && warp->splits[k].state == AT_BARRIER && warp->splits[k].barrier == number) {
                leave_barrier(warp, &warp->splits[k], barrier);
                left = true;
            }
        if (left && warp->nsplits > 1)
            join_behind_barrier(warp);
    }
    *barrier = (struct barrier){0};
    block->grid->device->counts.barriers++;
    block->grid->device->counts.beside += block->fenced ? block->loaded : 0;
    block->loaded = 0;
    block->fenced = false;
}

void split_at_barrier(struct warp *warp, struct split *split, const struct ptx_insn *insn) {
    struct barrier *barrier = &warp->block->barriers[insn->target];
    const struct frame *frame = &split->frames[split->depth];
    barrier->arrived += (uint32_t)__builtin_popcount(split->mask);
    barrier->all = barrier->arrived;
    if (insn->src[1] != PTX_NO_ROW)
        barrier->expected = (uint32_t)row_of(warp, frame, insn->src[1])[__builtin_ctz(split->mask)];
    FOR_LANES(lane, split->mask) {
        struct view view = warp_view(warp, lane);
        memory_share(&view);
        if (insn->op == OP_BARRIER_REDUCE)
            barrier->count += row_of(warp, frame, insn->src[0])[lane] & 1;
    }
    if (insn->op == OP_BARRIER_ARRIVE) {
        split->frames[split->depth].pc++;
    } else {
        split->state = AT_BARRIER;
        split->barrier = (uint8_t)insn->target;
    }
    barrier_check(warp->block, insn->target);
}

void split_exit(struct warp *warp, struct split *split, uint32_t mask) {
    FOR_LANES(lane, mask) {
        struct view view = warp_view(warp, lane);
        memory_share(&view);
    }
    split->mask &= ~mask;
    warp->live &= ~mask;
    warp->block->live -= (uint32_t)__builtin_popcount(mask);
    for (uint32_t k = 0; k < BARRIERS; k++)
        if (warp->block->barriers[k].arrived > 0)
            barrier_check(warp->block, k);
}

/* ---- the warp's ---- */

/* Does another split wait for the same? Lanes meet at any bar.warp.sync, and else at the same instruction. */
static bool meets(const struct split *split, const struct split *other, const struct ptx_insn *insn) {
    const struct frame *frame = &other->frames[other->depth];
    if (other->mask == 0 || other->state != AT_SYNC)
        return false;
    return same_place(split, other) || (insn->op == OP_WARP_SYNC && frame->f->code[frame->pc].op == OP_WARP_SYNC);
}

/* Lanes of the split of which all companions are among `here`, with them. */
static uint32_t complete_lanes(struct warp *warp, const struct split *split, const struct ptx_insn *insn,
                               uint32_t here) {
    const uint64_t *masks = row_of(warp, &split->frames[split->depth], insn->src[0]);
    uint32_t complete = 0;
    FOR_LANES(lane, split->mask) {
        uint32_t named = (uint32_t)masks[lane];
        if (!(named >> lane & 1))
            warp_fault(warp, split, lane, "its mask 0x%x does not name the lane itself", named);
        if ((named & warp->live & ~here) == 0)
            complete |= named & warp->live;
    }
    return complete;
}

/* Lanes of another split that waited for this one. */
static void release_others(struct warp *warp, struct split *split, struct split *other, uint32_t lanes) {
    if (same_place(split, other)) {
        split->mask |= lanes;
        other->mask &= ~lanes;
        return;
    }
    struct split *released = lanes == other->mask ? other : split_off(warp, other, lanes);
    released->state = READY;
    released->frames[released->depth].pc++;
}

/* Is the split, or what remains of it, at one with all lanes that its masks name? Else it waits. Whoever waited for it and is
 * at the same place becomes part of it. */
bool split_syncs(struct warp *warp, struct split *split, const struct ptx_insn *insn) {
    uint32_t here = split->mask;
    uint32_t complete = complete_lanes(warp, split, insn, here);
    if (complete != split->mask) {
        for (uint32_t k = 0; k < warp->nsplits; k++)
            if (&warp->splits[k] != split && meets(split, &warp->splits[k], insn))
                here |= warp->splits[k].mask;
        complete = complete_lanes(warp, split, insn, here);
        if ((complete & split->mask) == 0) {
            split->state = AT_SYNC;
            return false;
        }
        if (split->mask & ~complete)
            split_off(warp, split, split->mask & ~complete)->state = AT_SYNC;
        for (uint32_t k = 0, n = warp->nsplits; k < n; k++)
            if (&warp->splits[k] != split && meets(split, &warp->splits[k], insn) && (warp->splits[k].mask & complete))
                release_others(warp, split, &warp->splits[k], warp->splits[k].mask & complete);
    }
    FOR_LANES(lane, split->mask) {
        struct view view = warp_view(warp, lane);
        memory_share(&view);
    }
    return true;
}
