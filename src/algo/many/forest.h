/* SPDX-License-Identifier: Apache-2.0
 *
 * A binomial tree from every rank: first over the nodes, on the rank's rail (rails.h), then inside each node.
 *
 *      tree of rank r, 4 nodes of 4 ranks             in (node, rail), counted from r, both wrapping around
 *
 *      r = 0,0 ──▶ 2,0 ──▶ 3,0        over the nodes: to each other node once, by a binomial tree (binomial.h)
 *           ╰────▶ 1,0
 *      0,0 1,0 2,0 3,0 each ──▶ y,2 ──▶ y,3           inside each node y: by another binomial tree
 *                      ╰──────▶ y,1
 *
 * All trees are shifted copies of one tree, so every rank stands at every place of one tree or another. Each rank
 * talks to ranks at distances that are powers of two, in nodes or in rails. ⌈log2 nnodes⌉ + ⌈log2 nrails⌉ hops reach all ranks. A block
 * crosses to each other node once, which is the minimum, and the ranks of a node share this traffic evenly. If nodes have different sizes,
 * all ranks count as one node.
 *
 * Programs go through places level by level, as binomial.h says. The levels inside nodes come first, then the levels over nodes, then the
 * root.
 */
#ifndef COLLET_ALGO_MANY_FOREST_H
#define COLLET_ALGO_MANY_FOREST_H

#include "algo/many/binomial.h"
#include "algo/many/rails.h"

struct forest {
    struct rails rails;
    /* rail_levels: number of levels inside nodes. levels: number of all levels but the root's, and so the number of the root's level. */
    int rail_levels, levels;
};

struct forest forest_of(const struct prog *prog);

/* A rank's place in the tree of rank `root`. */
struct forest_place {
    int root;
    int parent, parent_level;         /* Parent rank, and the level of its place. parent −1: this rank is the root */
    int below[BINOMIAL_MAX_CHILDREN]; /* Ranks of the children, nearest first */
    int nbelow;
};

/* forest_count: on how many places of a level does the program's rank stand, in all trees? forest_place: the i-th of these places. */
int forest_count(const struct forest *forest, int level);
struct forest_place forest_place(const struct prog *prog, const struct forest *forest, int level, int i);

#endif
