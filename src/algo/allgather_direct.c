/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct allgather: everyone sends its block to everyone.
 *
 *      rank 0   rank 1   rank 2
 *         │╲  ╱   │   ╲  ╱│            worker 0   IN ──▶ own block of OUT, and all others, in one step
 *         │  ╳    │     ╳ │            worker 1   block p of OUT ◀── p, for every other p, nearest first
 *         ▼╱  ╲   ▼   ╱  ╲▼
 *
 * One hop, and n−1 connections per rank. A rank reads its block once and writes it to all places. Receiving has a worker of
 * its own, so a rank that waits for credit still receives. A connection needs one slot.
 */
#include "program/program.h"

void allgather_direct_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;
    struct peers others_behind = {.first = rank + 1, .count = OTHERS}; /* each rank starts with another peer */

    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = OUT(rank), .send = others_behind);
    if (n > 1)
        prog_worker(prog);
    for (int d = 1; d < n; d++)
        prog_step(prog, .recv = PEER(rank - d), .store = OUT(prog_wrap(prog, rank - d)));
}

/* The steps do not depend on the lengths of blocks. */
void allgatherv_direct_build(struct prog *prog) { allgather_direct_build(prog); }
