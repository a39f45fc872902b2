/* SPDX-License-Identifier: Apache-2.0
 *
 * Hierarchical allreduce with trees: inside nodes directly, between nodes by a double binary tree on each rail.
 *
 *                   rail 0          rail 1          the buffer is cut into a part for each rail (rails.h), and each part
 *      node 1        rank ◀────────▶ rank           into a slice for each of two trees over the nodes (trees.h)
 *                 ↑ ╱ ↓ ↑ ╲ ↓     ↑ ╱ ↓ ↑ ╲ ↓
 *      node 0    rank ◀─────────▶ rank              worker 0         IN(slice) ──▶ mate on the slice's rail
 *      node 2           rank ◀────────▶ rank        worker up t      children, mates and own ── + ──▶ parent
 *                                                   worker down t    parent ──▶ OUT, children and mates
 *                                                   last worker      mate ──▶ OUT(slice)
 *
 * This is allreduce_hier.c with trees instead of rings: hops grow with log2 of the number of nodes instead of with the
 * number. A rank sends its rail's part to other nodes at most twice. Each tree has two lanes, for up and down. Every connection
 * works with a single slot: up never waits for down.
 * After: P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
 * Parallel Computing 35 (2009), the trees.
 */
#include "algo/many/rails.h"
#include "topo/trees.h"
#include "program/program.h"

enum { LANE_UP = 0, LANE_DOWN = TREES };

static int slice_of(const struct rails *rails, int rail, int tree) {
    return (rail + rails->nrails) % rails->nrails * TREES + tree;
}

/* This rank's place in a tree over the ranks of its rail. Its mates are below it, too, like children. */
struct branch {
    int parent; /* −1: this rank is the root */
    int below[RAILS_MAX + 2], nbelow;
    int at; /* This rank's contribution comes after so many of the sums from below */
};

/* Ranks below stand in this order: first child, mates in the order of rails, second child. */
static struct branch branch_of(const struct prog *prog, const struct rails *rails, int tree) {
    struct tree_place place = tree_place(rails->nnodes, tree, rails->node);
    struct branch branch = {.parent = -1, .at = rails->rail};
    if (place.parent >= 0)
        branch.parent = rails_rank(prog, rails, place.parent, rails->rail);
    if (place.nchildren > 0) {
        branch.below[branch.nbelow++] = rails_rank(prog, rails, place.child[0], rails->rail);
        branch.at++;
    }
    rails_list_mates(prog, rails, branch.below + branch.nbelow);
    branch.nbelow += rails->nrails - 1;
    if (place.nchildren > 1)
        branch.below[branch.nbelow++] = rails_rank(prog, rails, place.child[1], rails->rail);
    return branch;
}

static void build_scatter(struct prog *prog, const struct rails *rails) {
    prog_worker(prog);
    for (int tree = 0; tree < TREES; tree++)
        for (int d = 1; d < rails->nrails; d++)
            prog_step(prog, .local = IN(slice_of(rails, rails->rail + d, tree)),
                      .send = PEER_LANE(rails_rank(prog, rails, rails->node, rails->rail + d), LANE_UP + tree));
}

/* The worker that sums towards the root. At the root it also sends the result down. */
static void build_up(struct prog *prog, const struct rails *rails, int tree) {
    struct branch branch = branch_of(prog, rails, tree);
    struct peers sums = LISTED(branch.below, branch.nbelow, LANE_UP + tree);
    struct peers results = LISTED(branch.below, branch.nbelow, LANE_DOWN + tree);
    int slice = slice_of(rails, rails->rail, tree);
    prog_worker(prog);
    if (branch.parent < 0)
        prog_step(prog, .recv = sums, .local = IN(slice), .local_at = branch.at, .finish = true, .store = OUT(slice),
                  .send = results);
    else
        prog_step(prog, .recv = sums, .local = IN(slice), .local_at = branch.at,
                  .send = PEER_LANE(branch.parent, LANE_UP + tree));
}

static void build_down(struct prog *prog, const struct rails *rails, int tree) {
    struct branch branch = branch_of(prog, rails, tree);
    struct peers results = LISTED(branch.below, branch.nbelow, LANE_DOWN + tree);
    if (branch.parent < 0)
        return;
    prog_worker(prog);
    prog_step(prog, .recv = PEER_LANE(branch.parent, LANE_DOWN + tree),
              .store = OUT(slice_of(rails, rails->rail, tree)), .send = results);
}

static void build_gather(struct prog *prog, const struct rails *rails) {
    prog_worker(prog);
    for (int tree = 0; tree < TREES; tree++)
        for (int d = 1; d < rails->nrails; d++)
            prog_step(prog, .recv = PEER_LANE(rails_rank(prog, rails, rails->node, rails->rail - d), LANE_DOWN + tree),
                      .store = OUT(slice_of(rails, rails->rail - d, tree)));
}

void allreduce_hiertree_build(struct prog *prog) {
    struct rails rails = rails_of(prog);
    prog_slices(prog, rails.nrails * TREES);
    build_scatter(prog, &rails);
    for (int tree = 0; tree < TREES; tree++)
        build_up(prog, &rails, tree);
    for (int tree = 0; tree < TREES; tree++)
        build_down(prog, &rails, tree);
    build_gather(prog, &rails);
}
