/* SPDX-License-Identifier: Apache-2.0
 *
 * Double binary trees: the parent and the children of each rank, as a pure function of n or of a shape. See trees.c for the pictures.
 */
#ifndef COLLET_TOPO_TREES_H
#define COLLET_TOPO_TREES_H

#include "topo/shape.h"

#define TREES 2 /* Number of trees in a double tree. */

struct tree_place {
    int parent; /* Rank of the parent. −1: this rank is the root. */
    /* Ranks of the children, the one with the smaller positions first. A head's child on its own node is last. */
    int child[3];
    int nchildren; /* 0 … 2. A head of a node has 0 … 3. */
};

/* The place of `rank` in tree `which` (0 or 1) of the double tree over ranks 0 … n−1. */
struct tree_place tree_place(int n, int which, int rank);

/* tree_of() gives the place of a rank in the double tree over a shape; tree_below() does so for a tree with a given root. On
 * one node without chains, the tree is the double tree over positions. Otherwise the heads of nodes form a double tree, and
 * the other ranks of a node are below their head, in a double tree or a chain. */
struct tree_place tree_of(const struct prog_shape *shape, int which, int rank);
struct tree_place tree_below(const struct prog_shape *shape, int which, int rank, int root);

#endif
