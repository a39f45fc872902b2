/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler of lanes, each on a stack of its own. See lanes.h.
 */
#define PORT_EMULATED 1 /* what this file defines */

#include "common/lanes.h"

#include "common/level.h"
#include "kernels/cuda/port.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>

#if LEVEL_ASAN
#include <sanitizer/common_interface_defs.h>
#define STACK_BYTES (256u << 10)
#else
#define STACK_BYTES (64u << 10)
#endif

enum lane_state { LANE_READY, LANE_AT_BARRIER, LANE_IN_GROUP, LANE_PAUSED, LANE_DONE };

#define GROUP 8u

struct lane {
    ucontext_t context;
    void *fake_stack; /* of the address sanitizer */
    char *stack;
    enum lane_state state;
    uint32_t block, number;
};

struct block {
    uint32_t arrived, ended;
    int any, result; /* gathered now; of the barrier that was passed last */
};

/* 8 neighbouring lanes at something they do together. */
struct group {
    uint32_t arrived;
    int any, result;
    uint64_t parts[GROUP][2]; /* of a line */
};

struct run {
    uint32_t blocks, lanes, left;
    uint64_t random;
    lanes_body *body;
    void *argument;
    struct lane *lane; /* blocks · lanes */
    struct block *block;
    struct group *group; /* blocks · groups_of_block() */
    struct lane *current;
    ucontext_t scheduler;
    void *scheduler_fake;
    const void *scheduler_stack;
    size_t scheduler_bytes;
};

static _Thread_local struct run *run;

/* The address sanitizer is told about each change of stack. */
static void switch_begin(void **fake, const void *stack, size_t bytes) {
#if LEVEL_ASAN
    __sanitizer_start_switch_fiber(fake, stack, bytes);
#else
    (void)fake, (void)stack, (void)bytes;
#endif
}

static void switch_end(void *fake, const void **from, size_t *bytes) {
#if LEVEL_ASAN
    __sanitizer_finish_switch_fiber(fake, from, bytes);
#else
    (void)fake, (void)from, (void)bytes;
#endif
}

/* The thread sanitizer counts calls that have not returned. A lane that is done never returns from these two. */
#define NEVER_RETURNS __attribute__((no_sanitize("thread")))

NEVER_RETURNS static void leave(enum lane_state state) {
    struct lane *self = run->current;
    self->state = state;
    switch_begin(state == LANE_DONE ? NULL : &self->fake_stack, run->scheduler_stack, run->scheduler_bytes);
    swapcontext(&self->context, &run->scheduler);
    switch_end(self->fake_stack, &run->scheduler_stack, &run->scheduler_bytes);
}

NEVER_RETURNS static void lane_main(void) {
    switch_end(NULL, &run->scheduler_stack, &run->scheduler_bytes);
    run->body(run->argument, run->current->block);
    leave(LANE_DONE);
}

static void lane_enter(struct lane *lane) {
    run->current = lane;
    lane->state = LANE_READY;
    switch_begin(&run->scheduler_fake, lane->stack, STACK_BYTES);
    swapcontext(&run->scheduler, &lane->context);
    switch_end(run->scheduler_fake, NULL, NULL);
    if (lane->state == LANE_DONE) {
        run->left--;
        run->block[lane->block].ended++;
    }
}

/* ---- what port.h asks for ---- */

uint32_t port_lane(void) { return run->current->number; }
uint32_t port_lanes(void) { return run->lanes; }
void port_pause(uint32_t looks) {
    (void)looks;
    leave(LANE_PAUSED);
}

uint64_t port_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int port_any(int condition) {
    struct lane *self = run->current;
    struct block *block = &run->block[self->block];
    block->any |= condition != 0;
    if (++block->arrived < run->lanes) {
        leave(LANE_AT_BARRIER);
        return block->result;
    }
    block->result = block->any;
    block->any = 0;
    block->arrived = 0;
    for (uint32_t k = 0; k < run->lanes; k++) {
        struct lane *lane = &run->lane[self->block * run->lanes + k];
        if (lane->state == LANE_AT_BARRIER)
            lane->state = LANE_READY;
    }
    return block->result;
}

/* ---- groups ---- */

static uint32_t groups_of_block(const struct run *r) { return (r->lanes + GROUP - 1) / GROUP; }

static struct group *own_group(void) {
    return &run->group[run->current->block * groups_of_block(run) + run->current->number / GROUP];
}

/* True for the lane that comes last, which does what the group does; the others return behind that. */
static int group_arrive(struct group *group) {
    struct lane *self = run->current, *first = self - self->number % GROUP;
    if (run->lanes % GROUP != 0)
        abort(); /* a group is whole */
    if (++group->arrived < GROUP) {
        leave(LANE_IN_GROUP);
        return 0;
    }
    group->arrived = 0;
    for (uint32_t k = 0; k < GROUP; k++)
        first[k].state = LANE_READY;
    return 1;
}

void port_sync(void) { (void)port_any(0); }

/* Its warps are of one group each. */
int port_warp_any(int condition) {
    struct group *group = own_group();
    group->any |= condition != 0;
    if (group_arrive(group)) {
        group->result = group->any;
        group->any = 0;
    }
    return group->result;
}

/* A line is stored at once and loaded at once: so no lane sees part of one. Between threads, its flag goes last and comes
 * first. */
void port_line128_store(int present, char *line, uint64_t first, uint64_t second) {
    struct group *group = own_group();
    uint64_t *words = (uint64_t *)(void *)line, *part = group->parts[run->current->number % GROUP];
    part[0] = first;
    part[1] = second;
    if (!group_arrive(group) || !present)
        return;
    for (uint32_t k = 0; k < 2 * GROUP; k++)
        __atomic_store_n(&words[k], group->parts[k / 2][k % 2], __ATOMIC_RELEASE);
}

void port_line128_load(int present, const char *line, uint64_t *first, uint64_t *second) {
    struct group *group = own_group();
    const uint64_t *words = (const uint64_t *)(const void *)line, *part = group->parts[run->current->number % GROUP];
    if (group_arrive(group) && present)
        for (uint32_t k = 2 * GROUP; k-- > 0;)
            group->parts[k / 2][k % 2] = __atomic_load_n(&words[k], __ATOMIC_ACQUIRE);
    *first = part[0];
    *second = part[1];
}

/* ---- the scheduler ---- */

static uint32_t draw(uint32_t below) {
    run->random ^= run->random << 13;
    run->random ^= run->random >> 7;
    run->random ^= run->random << 17;
    return (uint32_t)(run->random >> 33) % below;
}

static void lane_create(struct lane *lane, uint32_t block, uint32_t number) {
    lane->block = block;
    lane->number = number;
    lane->state = LANE_READY;
    lane->stack = malloc(STACK_BYTES);
    if (lane->stack == NULL)
        abort();
    getcontext(&lane->context);
    lane->context.uc_stack.ss_sp = lane->stack;
    lane->context.uc_stack.ss_size = STACK_BYTES;
    lane->context.uc_link = NULL;
    makecontext(&lane->context, lane_main, 0);
}

/* One turn over all lanes, from a drawn one on, forwards or backwards. False: nobody but pausing lanes got on. */
static int turn(uint32_t total) {
    uint32_t first = run->random ? draw(total) : 0;
    int backwards = run->random ? (int)draw(2) : 0, moved = 0;
    for (uint32_t k = 0; k < total; k++) {
        struct lane *lane = &run->lane[(backwards ? first + total - k : first + k) % total];
        if (lane->state == LANE_AT_BARRIER || lane->state == LANE_IN_GROUP || lane->state == LANE_DONE)
            continue;
        moved |= lane->state == LANE_READY;
        if (run->random && draw(4) == 0)
            continue; /* some lag behind */
        lane_enter(lane);
        moved |= lane->state != LANE_PAUSED;
    }
    return moved;
}

/* Lanes that wait at a barrier for lanes that have ended would never go on. */
static void check_barriers(void) {
    for (uint32_t b = 0; b < run->blocks; b++)
        if (run->block[b].arrived > 0 && run->block[b].arrived + run->block[b].ended == run->lanes) {
            fprintf(stderr, "block %u: %u lanes have ended, the others wait for them at a barrier\n", b,
                    run->block[b].ended);
            abort();
        }
}

void lanes_run(uint32_t blocks, uint32_t lanes, uint64_t seed, lanes_body *body, void *argument) {
    uint32_t total = blocks * lanes;
    struct run here = {
        .blocks = blocks, .lanes = lanes, .left = total, .random = seed, .body = body, .argument = argument};
    struct run *outer = run;
    here.lane = calloc(total, sizeof(*here.lane));
    here.block = calloc(blocks, sizeof(*here.block));
    here.group = calloc((size_t)blocks * groups_of_block(&here), sizeof(*here.group));
    if (here.lane == NULL || here.block == NULL || here.group == NULL)
        abort();
    run = &here;
    for (uint32_t k = 0; k < total; k++)
        lane_create(&here.lane[k], k / lanes, k % lanes);
    while (here.left > 0) {
        if (!turn(total))
            sched_yield(); /* what all wait for comes from another thread or process */
        check_barriers();
    }
    for (uint32_t k = 0; k < total; k++)
        free(here.lane[k].stack);
    free(here.lane);
    free(here.block);
    free(here.group);
    run = outer;
}
