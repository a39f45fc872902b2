/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct reducescatter: everyone sends each block to its owner, and the owner reduces them all.
 *
 *      rank 0   rank 1   rank 2
 *         │╲  ╱   │   ╲  ╱│            worker 0   IN(p) ──▶ p, for every other p, nearest first
 *         │  ╳    │     ╳ │            worker 1   all others' block r, own IN(r) ── in rank order ──▶ OUT
 *         ▼╱  ╲   ▼   ╱  ╲▼
 *
 * One hop, and n−1 connections per rank. In place, only the rank's block is overwritten, and this block is sent to no other
 * rank. A connection needs one slot.
 * After: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", Int. J.
 * High Perform. Comput. Appl. 19 (2005), reduce-scatter by pairwise exchange; with the exchange done at once.
 */
#include "program/program.h"

void reducescatter_direct_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;
    struct peers others_in_order = {.first = 0, .count = OTHERS};

    if (n > 1)
        prog_worker(prog);
    for (int d = 1; d < n; d++)
        prog_step(prog, .local = IN(prog_wrap(prog, rank + d)), .send = PEER(rank + d));
    prog_worker(prog);
    prog_step(prog, .recv = others_in_order, .local = IN(rank), .local_at = rank, .finish = true, .store = OUT(0));
}

/* The steps do not depend on the lengths of blocks. */
void reducescatterv_direct_build(struct prog *prog) { reducescatter_direct_build(prog); }
