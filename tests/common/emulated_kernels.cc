/* SPDX-License-Identifier: Apache-2.0
 *
 * block.cuh, instantiated for the host. See emulated_kernels.h.
 */
#define PORT_EMULATED 1
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/signals.cuh"

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

#define ROW_OF_LAUNCHES(OP, op, runs, kernel, types, sign) {BLOCK_KERNELS(run_launch, kernel, types, sign)},
#define ROW_OF_LOOPS(OP, op, runs, kernel, types, sign) {BLOCK_KERNELS(run_reduce, kernel, types, sign)},
static lanes_body *const launches[COLLET_OP_COUNT][COLLET_TYPE_COUNT] = {COLLET_OPS(ROW_OF_LAUNCHES)};
static lanes_body *const loops[COLLET_OP_COUNT][COLLET_TYPE_COUNT] = {COLLET_OPS(ROW_OF_LOOPS)};
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
    lanes_run(blocks, lanes, seed, reduces ? launches[op][type] : run_launch<copying>, &grid);
    free(grid.memory);
}

static void run_signals(void *argument, uint32_t) { signals_run((const struct signal_launch *)argument); }

void emulated_signals(const struct signal_launch *launch) {
    struct signal_launch copy = *launch;
    lanes_run(1, 1, 0, run_signals, &copy);
}

static void run_pieces(void *argument, uint32_t block) { pieces_run((const struct piece_launch *)argument, block); }

void emulated_pieces(const struct piece_launch *launch, uint32_t lanes) {
    struct piece_launch copy = *launch;
    lanes_run((uint32_t)launch->nblocks, lanes, 0, run_pieces, &copy);
}

void emulated_reduce(int reduces, enum collet_type type, enum collet_op op, void *const *dst, uint32_t ndst,
                     const void *const *src, uint32_t nsrc, uint64_t count, uint32_t divisor, uint64_t mirror,
                     uint32_t lanes, uint64_t seed) {
    struct grid grid = {};
    memcpy(grid.lists.src, src, nsrc * sizeof(*src));
    memcpy(grid.lists.dst, dst, ndst * sizeof(*dst));
    grid.lists.nsrc = nsrc;
    grid.lists.ndst = ndst;
    grid.lists.divisor = divisor;
    grid.lists.scaled = -1;
    grid.lists.mirror = mirror;
    grid.count = count;
    lanes_run(1, lanes, seed, reduces ? loops[op][type] : run_reduce<copying>, &grid);
}
