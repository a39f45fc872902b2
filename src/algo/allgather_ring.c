/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring allgather: every rank's block travels round the ring once.
 *
 *      ┌─▶ rank 0 ─▶ rank 1 ─▶ rank 2 ─▶ rank 3 ─┐      block 0:   0 ─▶ 1 ─▶ 2 ─▶ 3      a copy stays at each stop
 *      └─────────────────────────────────────────┘      block 1:   1 ─▶ 2 ─▶ 3 ─▶ 0      all blocks at once
 *
 * Each rank receives exactly the blocks that it lacks, from one neighbour. The ring follows the order of the shape, so it enters
 * and leaves every node once. The steps that receive and send at once form a cycle, so a connection needs at least two slots.
 * After: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", Int. J.
 * High Perform. Comput. Appl. 19 (2005), the ring algorithm for all-gather.
 */
#include "program/program.h"

void allgather_ring_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;
    struct peers next = PEER(prog_after(prog, 1)), prev = PEER(prog_after(prog, -1));

    prog_worker(prog);
    if (n == 1) {
        prog_step(prog, .local = IN(0), .store = OUT(0));
        return;
    }
    prog_step(prog, .local = IN(0), .store = OUT(rank), .send = next);
    for (int k = 1; k < n - 1; k++)
        prog_step(prog, .recv = prev, .store = OUT(prog_after(prog, -k)), .send = next);
    prog_step(prog, .recv = prev, .store = OUT(prog_after(prog, 1)));
}

/* The steps do not depend on the lengths of blocks. */
void allgatherv_ring_build(struct prog *prog) { allgather_ring_build(prog); }
