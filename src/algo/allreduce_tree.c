/* SPDX-License-Identifier: Apache-2.0
 *
 * Double binary tree allreduce. Each of two trees (trees.c) reduces one half of the buffer up to its root and
 * broadcasts the result down again, in a pipeline: while one piece goes down, the next ones go up.
 *
 *                 root                 up and down use separate connections, so that neither waits for the other;
 *             ↑ ╱ ↓  ↑ ╲ ↓             the root does both in one step: reduce, finish, store, send.
 *           node       node
 *        ↑ ╱ ↓ ↑ ╲ ↓                   worker   up:   children and own  ─▶ parent
 *        leaf     leaf                 worker   down: parent            ─▶ own OUT and children
 *
 * Latency grows with log2 n. Every rank sends and receives its buffer about twice, as in a ring. A rank reduces its own
 * contribution between the sums of its children, so contributions are summed in the order of the shape. Each tree has its own lane,
 * because a connection between two ranks may lead up in one tree and down in the other.
 * Every connection works with a single slot: up never waits for down.
 * After: P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
 * Parallel Computing 35 (2009).
 */
#include "topo/trees.h"
#include "program/program.h"

/* The worker that reduces one tree's half of the buffer up to the root. The root also sends the result down. */
static void build_up(struct prog *prog, int tree, const struct tree_place *place) {
    struct peers children = LISTED(place->child, place->nchildren, tree);
    int at = place->nchildren > 0 ? 1 : 0;
    prog_worker(prog);
    if (place->parent < 0)
        prog_step(prog, .recv = children, .local = IN(tree), .local_at = at, .finish = true, .store = OUT(tree),
                  .send = children);
    else
        prog_step(prog, .recv = children, .local = IN(tree), .local_at = at, .send = PEER_LANE(place->parent, tree));
}

static void build_down(struct prog *prog, int tree, const struct tree_place *place) {
    if (place->parent < 0)
        return;
    struct peers children = LISTED(place->child, place->nchildren, tree);
    prog_worker(prog);
    prog_step(prog, .recv = PEER_LANE(place->parent, tree), .store = OUT(tree), .send = children);
}

void allreduce_tree_build(struct prog *prog) {
    struct tree_place place[TREES];
    prog_slices(prog, TREES);
    for (int tree = 0; tree < TREES; tree++)
        place[tree] = tree_of(prog->shape, tree, prog->rank);
    for (int tree = 0; tree < TREES; tree++)
        build_up(prog, tree, &place[tree]);
    for (int tree = 0; tree < TREES; tree++)
        build_down(prog, tree, &place[tree]);
}
