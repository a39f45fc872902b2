/* SPDX-License-Identifier: Apache-2.0
 *
 * Logarithmic allgather: every block goes down its own tree (forest.h). All trees run at once.
 *
 *      block of rank r, 8 ranks      r ──▶ r+4 ──▶ r+6 ──▶ r+7        the few first hops are long, the many last hops
 *      on one node                   │      ╰────▶ r+5                are short
 *                                    ├───▶ r+2 ──▶ r+3
 *                                    ╰───▶ r+1                        one step per tree, which stores and passes on
 *
 *      worker `level`:   parent ──▶ OUT of the tree's root, and all children;   for each place of the level
 *                        at the root: IN ──▶ own OUT and all children
 *
 * For any n there are about log2 n hops, and a rank sends to about log2 n other ranks. Every rank sends and receives n−1 blocks, and a
 * block enters each node once. The lane of a message is the level of its sender, since each level has its own worker. A connection
 * needs one slot. If it has fewer slots than blocks to carry, blocks wait; for large n the time is then no longer
 * logarithmic.
 * After: S. Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", arXiv:2506.20252
 * (2025): parallel trees, far first, for any n. PAT also aggregates: it packs blocks of several trees into one message.
 * Here a message carries one block, and time is saved because the trees run side by side. With the nearest hops first, this exchange is
 * the concatenation of J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport
 * message-passing systems", IEEE Trans. Parallel Distrib. Syst. 8 (1997).
 */
#include "algo/many/forest.h"
#include "program/program.h"

void allgather_pat_build(struct prog *prog) {
    struct forest forest = forest_of(prog);
    for (int level = forest.levels; level >= 0; level--) {
        prog_worker(prog);
        for (int i = 0; i < forest_count(&forest, level); i++) {
            struct forest_place place = forest_place(prog, &forest, level, i);
            struct peers children = LISTED(place.below, place.nbelow, level);
            if (place.parent < 0)
                prog_step(prog, .local = IN(0), .store = OUT(place.root), .send = children);
            else
                prog_step(prog, .recv = PEER_LANE(place.parent, place.parent_level), .store = OUT(place.root),
                          .send = children);
        }
    }
}
