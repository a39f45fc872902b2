/* SPDX-License-Identifier: Apache-2.0
 *
 * The limit: what the bytes that a collective must move cost where nothing else has to be done. Every rank copies, at the
 * same time as the others, as many bytes as it must at least get from other ranks. Bytes of a buffer of S among n ranks:
 *
 *   allreduce                              2(n−1)/n · S    every part is gathered at one rank, and its sum goes to all
 *   allgather, reducescatter, alltoall      (n−1)/n · S    a block of every other rank
 *   broadcast, reduce                                 S
 *
 * It is no limit where a library reads a peer's buffer and adds in the same pass.
 */
#define _GNU_SOURCE
#include "loop.h"

#include <sched.h>
#include <string.h>

struct copying {
    struct board *board;
};

/* A barrier that does not sleep: the last one to arrive begins a new multiple of the number of ranks. */
static void align(void *state) {
    struct board *board = ((struct copying *)state)->board;
    unsigned ranks = (unsigned)board->nranks;
    unsigned mine = __atomic_fetch_add(&board->spinning, 1, __ATOMIC_RELAXED); /* only times depend on it */
    while (__atomic_load_n(&board->spinning, __ATOMIC_RELAXED) / ranks == mine / ranks)
        sched_yield();
}

static size_t others(void *state) { return (size_t)((struct copying *)state)->board->nranks - 1; }

/* Buffers of whole blocks: one block from each other rank. */
static void blocks(void *state, const float *in, float *out, size_t count) {
    memcpy(out, in, others(state) * count * sizeof(float));
}

static void whole(void *state, const float *in, float *out, size_t count) {
    (void)state;
    memcpy(out, in, count * sizeof(float));
}

/* A share of each other rank's input, and a share of the result from each of them. */
static void twice(void *state, const float *in, float *out, size_t count) {
    size_t share_bytes = others(state) * count / (others(state) + 1) * sizeof(float);
    memcpy(out, in, share_bytes);
    __asm__ volatile("" ::: "memory"); /* the compiler must not see that the second copy changes nothing */
    memcpy(out, in, share_bytes);
}

int main(int argc, char **argv) {
    int rank;
    struct loop_options options = loop_options_read(argc, argv);
    struct copying state = {board_fork(options.nranks, options.pinned, &rank)};
    const struct loop_library library = {
        .state = &state,
        .align = align,
        .calls = {twice, blocks, blocks, blocks, whole, whole},
        .unchecked = true,
    };
    loop_run(&options, &library, state.board, rank);
    if (rank == 0)
        board_join(state.board);
    return 0;
}
