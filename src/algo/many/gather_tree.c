/* SPDX-License-Identifier: Apache-2.0
 *
 * Binomial gather: blocks go up a binomial tree (binomial.h). A rank collects the blocks of its subtree and sends them on in one
 * message.
 *
 *      root 0, n = 6          0                       places behind the root; a subtree is a run of neighbours:
 *                     ┌───────┼────┐
 *                     4       2    1                  5 ─▶ 4:  5            3 ─▶ 2:  3
 *                     │       │                       4 ─▶ 0:  4 5          2 ─▶ 0:  2 3         1 ─▶ 0:  1
 *                     5       3
 *
 *      rank at place p:   IN ──▶ TMP 0       children, nearest first ──▶ TMP behind it       all of TMP ──▶ parent
 *      root:              IN ──▶ OUT         children ──▶ OUT
 *
 * The root receives ⌈log2 n⌉ messages, not n−1. But a block is sent again at each hop, so this algorithm is for small blocks. The blocks of
 * a message share a slot, so a slot has less room for each. A connection needs one slot.
 * After: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", Int. J.
 * High Perform. Comput. Appl. 19 (2005), the binomial tree for gather.
 */
#include "algo/many/binomial.h"
#include "program/program.h"

void gather_tree_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank, child[BINOMIAL_MAX_CHILDREN];
    int place = prog_wrap(prog, rank - prog->root), blocks = binomial_span(n, place);
    int nchildren = binomial_children(n, place, child);
    bool passes_on = place > 0 && nchildren > 0;

    prog_tmp(prog, passes_on ? blocks : 0);
    prog_longest_run(prog, binomial_longest_span(n));
    prog_worker(prog);
    if (place == 0)
        prog_step(prog, .local = IN(0), .store = OUT(rank));
    else if (nchildren == 0)
        prog_step(prog, .local = IN(0), .send = PEER(prog->root + binomial_parent(place)));
    else
        prog_step(prog, .local = IN(0), .store = TMP(0));
    for (int k = 0; k < nchildren; k++) {
        int first = prog_wrap(prog, prog->root + child[k]), count = binomial_span(n, child[k]);
        struct local there = OUT_RUN(ROW(first, count)), here = TMP_RUN(ROW(child[k] - place, count));
        prog_step(prog, .recv = PEER(first), .store = place == 0 ? there : here, .length_of = there);
    }
    if (passes_on)
        prog_step(prog, .local = TMP_RUN(ROW(0, blocks)), .length_of = OUT_RUN(ROW(rank, blocks)),
                  .send = PEER(prog->root + binomial_parent(place)));
}
