/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct scatter: the root sends every rank its block. This is gather_direct.c, backwards.
 *
 *               ╭ IN(1) ──▶ rank 1
 *        root 0 ┤ IN(2) ──▶ rank 2        at the root: a worker per block, which copies its own block
 *               ╰ IN(3) ──▶ rank 3        elsewhere: one step
 *
 * One hop. Workers of the root proceed independently, so a slow rank delays only its own block. A connection needs one
 * slot.
 */
#include "program/program.h"

void scatter_direct_build(struct prog *prog) {
    int root = prog->root;

    prog_worker(prog);
    if (prog->rank != root) {
        prog_step(prog, .recv = PEER(root), .store = OUT(0));
        return;
    }
    prog_step(prog, .local = IN(root), .store = OUT(0));
    for (int d = 1; d < prog->nranks; d++) {
        prog_worker(prog);
        prog_step(prog, .local = IN(prog_wrap(prog, root + d)), .send = PEER(root + d));
    }
}
