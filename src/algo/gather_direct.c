/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct gather: every rank sends its block to the root.
 *
 *      rank 1 ──▶ OUT(1) ╮
 *      rank 2 ──▶ OUT(2) ├ root 0         at the root: a worker per block, which copies its own block
 *      rank 3 ──▶ OUT(3) ╯                elsewhere: one step
 *
 * One hop. Workers of the root proceed independently, so a slow rank delays only its own block. A connection needs one
 * slot.
 */
#include "program/program.h"

void gather_direct_build(struct prog *prog) {
    int root = prog->root;

    prog_worker(prog);
    if (prog->rank != root) {
        prog_step(prog, .local = IN(0), .send = PEER(root));
        return;
    }
    prog_step(prog, .local = IN(0), .store = OUT(root));
    for (int d = 1; d < prog->nranks; d++) {
        prog_worker(prog);
        prog_step(prog, .recv = PEER(root + d), .store = OUT(prog_wrap(prog, root + d)));
    }
}
