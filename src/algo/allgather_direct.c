/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct allgather: everyone sends its block to everyone.
 *
 *      rank 0   rank 1   rank 2
 *         │╲  ╱   │   ╲  ╱│            worker 0   IN ──▶ own block of OUT, and all others, in one step
 *         │  ╳    │     ╳ │            worker 1   block p of OUT ◀── p, for every other p, nearest first
 *         ▼╱  ╲   ▼   ╱  ╲▼
 *
 * There is one hop. A rank reads its block once. On one host it writes the block to one slot that all others read (fifo/fan.h). Otherwise
 * it writes to n−1 connections. A separate worker receives, so a rank that waits for credit still receives. A connection needs one slot.
 */
#include "program/program.h"

void allgather_direct_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;
    struct peers others_behind = {.first = rank + 1, .count = OTHERS, .lane = PROG_LANE_ALL};

    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = OUT(rank), .send = others_behind);
    if (n > 1)
        prog_worker(prog);
    for (int d = 1; d < n; d++)
        prog_step(prog, .recv = PEER_LANE(rank - d, PROG_LANE_ALL), .store = OUT(prog_wrap(prog, rank - d)));
}

/* The steps do not depend on the lengths of blocks. */
void allgatherv_direct_build(struct prog *prog) { allgather_direct_build(prog); }
