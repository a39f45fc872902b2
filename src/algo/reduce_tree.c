/* SPDX-License-Identifier: Apache-2.0
 *
 * Double binary tree reduce: two complementary trees (trees.c) below the root, each reduces one half of the buffer.
 *
 *        tree 0:  root            tree 1:  root             a rank that is interior in one tree is a leaf in the other;
 *                  ↑                        ↑               the root only reduces what the two tops send
 *                 top 0                    top 1
 *                ↑     ↑                  ↑     ↑           worker `tree`:  children and own ─▶ parent
 *               …       …                …       …                          at the root:     ─▶ OUT
 *
 * Latency grows with log2 n; one slot a connection is enough.
 * After: P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
 * Parallel Computing 35 (2009).
 */
#include "topo/trees.h"
#include "program/program.h"

void reduce_tree_build(struct prog *prog) {
    prog_slices(prog, TREES);
    for (int tree = 0; tree < TREES; tree++) {
        struct tree_place place = tree_below(prog->shape, tree, prog->rank, prog->root);
        struct peers children = LISTED(place.child, place.nchildren, tree);
        int at = place.nchildren > 0 ? 1 : 0; /* Between the two children: so contributions are summed in order */
        prog_worker(prog);
        if (place.parent >= 0)
            prog_step(prog, .recv = children, .local = IN(tree), .local_at = at, .send = PEER_LANE(place.parent, tree));
        else
            prog_step(prog, .recv = children, .local = IN(tree), .local_at = at, .finish = true, .store = OUT(tree));
    }
}
