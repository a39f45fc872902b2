/* SPDX-License-Identifier: Apache-2.0
 *
 * Lab 3: an allreduce with as few turns as a tree.
 *
 * This program is a chain: 0 ─▶ 1 ─▶ 2 ─▶ … ─▶ n−1 adds up, and the sum goes back the same way. With n = 33 that takes 66
 * turns. A tree has 2 ⌈log2 n⌉ levels:
 *
 *                  0                       the children of rank r are 2r+1 and 2r+2, its parent is (r−1)/2
 *              ┌───┴───┐
 *              1       2                   up:    receive from all children, add IN, send to the parent
 *            ┌─┴─┐   ┌─┴─┐                 down:  receive from the parent, store, send to all children
 *            3   4   5   6
 */
#include "check/program.h"

void lab_build(struct prog *prog) {
    int rank = prog->rank, last = prog->nranks - 1;
    struct peers nobody = {.count = 0};
    struct peers before = rank > 0 ? PEER(rank - 1) : nobody, after = rank < last ? PEER(rank + 1) : nobody;

    prog_worker(prog);
    if (rank == last) {
        prog_step(prog, .recv = before, .local = IN(0), .finish = true, .store = OUT(0), .send = before);
        return;
    }
    prog_step(prog, .recv = before, .local = IN(0), .send = after, .copied = true);
    prog_step(prog, .recv = after, .store = OUT(0), .send = before);
}
