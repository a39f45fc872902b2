/* SPDX-License-Identifier: Apache-2.0
 *
 * block.cuh, instantiated for the host. See emulated_kernels.h.
 */
#define PORT_EMULATED 1
#include "kernels/block.cuh"

#include "common/emulated_kernels.h"
#include "common/lanes.h"

#include <stdlib.h>

struct grid {
    const struct work_launch *launch;
    struct block_memory *memory; /* one a block */
    struct block_lists lists;
    uint64_t count;
};

template <class R> static void run_launch(void *argument, uint32_t block) {
    struct grid *grid = (struct grid *)argument;
    launch_run<R>(&grid->memory[block], grid->launch, block);
}

template <class R> static void run_reduce(void *argument, uint32_t) {
    struct grid *grid = (struct grid *)argument;
    block_reduce<R>(&grid->lists, grid->count);
}

struct bodies {
    lanes_body *launch, *reduce;
};

#define KERNEL(TYPE, OP)                                                                                               \
    {run_launch<reduction<COLLET_##TYPE, COLLET_##OP>>, run_reduce<reduction<COLLET_##TYPE, COLLET_##OP>>},
#define KERNEL_SUM(TYPE, ...) KERNEL(TYPE, SUM)
#define KERNEL_PROD(TYPE, ...) KERNEL(TYPE, PROD)
#define KERNEL_MIN(TYPE, ...) KERNEL(TYPE, MIN)
#define KERNEL_MAX(TYPE, ...) KERNEL(TYPE, MAX)
#define KERNEL_AVG KERNEL_SUM
#define ROW(OP, op) {COLLET_TYPES(KERNEL_##OP)},
static const struct bodies reducing[COLLET_OP_COUNT][COLLET_TYPE_COUNT] = {COLLET_OPS(ROW)};
static const struct bodies moving = {run_launch<copying>, run_reduce<copying>};

static const struct bodies *bodies_of(int reduces, enum collet_type type, enum collet_op op) {
    return reduces ? &reducing[op][type] : &moving;
}

void emulated_launch(const struct work_launch *launch, int reduces, enum collet_type type, enum collet_op op,
                     uint32_t lanes, uint64_t seed) {
    struct grid grid = {};
    uint32_t blocks = 0;
    for (uint32_t k = 0; k < launch->nworks; k++)
        blocks += launch->works[k].nblocks;
    grid.launch = launch;
    grid.memory = (struct block_memory *)calloc(blocks, sizeof(*grid.memory));
    if (grid.memory == NULL)
        abort();
    memset((void *)grid.memory, 0xa5, blocks * sizeof(*grid.memory)); /* as shared memory is found: full of anything */
    lanes_run(blocks, lanes, seed, bodies_of(reduces, type, op)->launch, &grid);
    free(grid.memory);
}

void emulated_reduce(int reduces, enum collet_type type, enum collet_op op, void *const *dst, uint32_t ndst,
                     const void *const *src, uint32_t nsrc, uint64_t count, uint32_t divisor, uint32_t lanes,
                     uint64_t seed) {
    struct grid grid = {};
    grid.lists.src = src;
    grid.lists.dst = dst;
    grid.lists.nsrc = nsrc;
    grid.lists.ndst = ndst;
    grid.lists.divisor = divisor;
    grid.count = count;
    lanes_run(1, lanes, seed, bodies_of(reduces, type, op)->reduce, &grid);
}
