/* SPDX-License-Identifier: Apache-2.0
 *
 * A binomial tree from every rank: first over the nodes, on the rank's rail (rails.h), then inside each node.
 *
 *      tree of rank r, 4 nodes of 4 ranks             in (node, rail), counted from r, both wrapping around
 *
 *      r = 0,0 ──▶ 2,0 ──▶ 3,0        over the nodes: to each of the others once, by a binomial tree (binomial.h)
 *           ╰────▶ 1,0
 *      0,0 1,0 2,0 3,0 each ──▶ y,2 ──▶ y,3           inside node y: by another one
 *                      ╰──────▶ y,1
 *
 * All trees are copies of one another, shifted, so every rank stands at every place of one tree or another. Each rank
 * talks to others at distances that are powers of two, in nodes or in rails, and log2 nnodes + log2 nrails hops
 * (rounded up, each) reach all. What crosses nodes is the least there can be, and evenly spread over the ranks of a
 * node. Nodes of different sizes are taken for one node.
 *
 * Places are worked on level by level, as binomial.h says: levels inside nodes are below those over nodes, below the
 * root.
 */
#ifndef COLLET_ALGO_MANY_FOREST_H
#define COLLET_ALGO_MANY_FOREST_H

#include "algo/many/binomial.h"
#include "algo/many/rails.h"

struct forest {
    struct rails rails;
    int rail_levels, levels; /* levels inside nodes; all but the root's, which is number `levels` */
};

struct forest forest_of(const struct prog *prog);

/* A rank's place in the tree of rank `root`. */
struct forest_place {
    int root;
    int parent, parent_level;         /* −1: it is the root */
    int below[BINOMIAL_MAX_CHILDREN]; /* its children, nearest first */
    int nbelow;
};

/* The places of the program's rank on a level, in all trees: i = 0 … count−1. */
int forest_count(const struct forest *forest, int level);
struct forest_place forest_place(const struct prog *prog, const struct forest *forest, int level, int i);

#endif
