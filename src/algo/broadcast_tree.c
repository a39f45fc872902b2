/* SPDX-License-Identifier: Apache-2.0
 *
 * Double binary tree broadcast: two complementary trees (trees.c) below the root, each carries one half of the buffer.
 *
 *        tree 0:  root            tree 1:  root             a rank that is interior in one tree is a leaf in the other;
 *                  ↓                        ↓               the root sends each half once
 *                 top 0                    top 1
 *                ↓     ↓                  ↓     ↓           worker `tree`:  parent ─▶ own OUT and children
 *               …       …                …       …                          at the root: IN ─▶ OUT and top
 *
 * Latency grows with log2 n; one slot a connection is enough.
 * After: P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
 * Parallel Computing 35 (2009).
 */
#include "topo/trees.h"
#include "program/program.h"

void broadcast_tree_build(struct prog *prog) {
    prog_slices(prog, TREES);
    for (int tree = 0; tree < TREES; tree++) {
        struct tree_place place = tree_below(prog->shape, tree, prog->rank, prog->root);
        struct peers children = LISTED(place.child, place.nchildren, tree);
        prog_worker(prog);
        if (place.parent >= 0)
            prog_step(prog, .recv = PEER_LANE(place.parent, tree), .store = OUT(tree), .send = children);
        else
            prog_step(prog, .local = IN(tree), .store = OUT(tree), .send = children);
    }
}
