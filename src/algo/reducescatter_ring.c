/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring reducescatter: block c starts behind its owner, gathers one contribution at each stop, and comes home complete.
 *
 *      ┌─▶ rank 0 ─▶ rank 1 ─▶ rank 2 ─▶ rank 3 ─┐      block 0:   1 ─▶ 2 ─▶ 3 ─▶ 0
 *      └─────────────────────────────────────────┘      block 1:   2 ─▶ 3 ─▶ 0 ─▶ 1      all blocks at once
 *
 * This is the first half of a ring allreduce. Each rank sends every block once, except its own. The ring follows the order of the
 * shape, so it enters and leaves every node once. In place only the rank's own block is overwritten, in the step that
 * reads it last. The steps that receive and send at once form a cycle, so a connection needs at least two slots.
 * After: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", J. Parallel
 * Distrib. Comput. 69 (2009).
 */
#include "program/program.h"

void reducescatter_ring_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;
    struct peers next = PEER(prog_after(prog, 1)), prev = PEER(prog_after(prog, -1));

    prog_worker(prog);
    if (n == 1) {
        prog_step(prog, .local = IN(0), .store = OUT(0), .finish = true);
        return;
    }
    prog_step(prog, .local = IN(prog_after(prog, -1)), .send = next);
    for (int k = 2; k < n; k++)
        prog_step(prog, .recv = prev, .local = IN(prog_after(prog, -k)), .local_at = 1, .send = next);
    prog_step(prog, .recv = prev, .local = IN(rank), .local_at = 1, .finish = true, .store = OUT(0));
}

/* The steps do not depend on the lengths of blocks. */
void reducescatterv_ring_build(struct prog *prog) { reducescatter_ring_build(prog); }
