/* SPDX-License-Identifier: Apache-2.0
 *
 * Binomial scatter: blocks go down a binomial tree (binomial.h). A rank gets the blocks of its subtree in one message, and sends
 * each child the blocks of the child's subtree. This is gather_tree.c, backwards.
 *
 *      root 0, n = 6          0                       places behind the root; a subtree is a run of neighbours:
 *                     ┌───────┼────┐
 *                     4       2    1                  0 ─▶ 4:  4 5          0 ─▶ 2:  2 3         0 ─▶ 1:  1
 *                     │       │                       4 ─▶ 5:  5            2 ─▶ 3:  3
 *                     5       3
 *
 *      root:              IN ──▶ children, farthest first         IN ──▶ OUT
 *      rank at place p:   parent ──▶ TMP       TMP behind its first block ──▶ children       TMP 0 ──▶ OUT
 *
 * The root sends ⌈log2 n⌉ messages, not n−1. But a block is sent again at each hop, so this algorithm is for small blocks. The blocks of
 * a message share a slot, so a slot has less room for each. A connection needs one slot.
 * After: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", Int. J.
 * High Perform. Comput. Appl. 19 (2005), the binomial tree for scatter.
 */
#include "algo/many/binomial.h"
#include "program/program.h"

void scatter_tree_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank, child[BINOMIAL_MAX_CHILDREN];
    int place = prog_wrap(prog, rank - prog->root), blocks = binomial_span(n, place);
    int nchildren = binomial_children(n, place, child);

    prog_tmp(prog, place > 0 ? blocks : 0);
    prog_longest_run(prog, binomial_longest_span(n));
    prog_worker(prog);
    if (place > 0)
        prog_step(prog, .recv = PEER(prog->root + binomial_parent(place)), .store = TMP_RUN(ROW(0, blocks)),
                  .length_of = IN_RUN(ROW(rank, blocks)));
    for (int k = nchildren - 1; k >= 0; k--) {
        int first = prog_wrap(prog, prog->root + child[k]), count = binomial_span(n, child[k]);
        struct local there = IN_RUN(ROW(first, count)), here = TMP_RUN(ROW(child[k] - place, count));
        prog_step(prog, .local = place == 0 ? there : here, .length_of = there, .send = PEER(first));
    }
    prog_step(prog, .local = place == 0 ? IN(rank) : TMP(0), .store = OUT(0));
}
