/* SPDX-License-Identifier: Apache-2.0
 *
 * Double binary trees: who is whose parent, as a pure function of n or of a shape. See trees.c for the pictures.
 */
#ifndef COLLET_TOPO_TREES_H
#define COLLET_TOPO_TREES_H

#include "topo/shape.h"

#define TREES 2 /* number of trees of a double tree */

struct tree_place {
    int parent;    /* −1: this rank is the root */
    int child[3];  /* children, smaller side first; a head's child on its own node is last */
    int nchildren; /* 0 … 2; a head has 0 … 3 */
};

/* The place of `rank` in tree `which` (0 or 1) of the double tree over ranks 0 … n−1. */
struct tree_place tree_place(int n, int which, int rank);

/* The places in the double tree over a shape. On one node it is as above, over positions. With several nodes, the heads of nodes form a
 * double tree; the other ranks of a node are below its head, in a double tree or a chain. */
struct tree_place tree_of(const struct prog_shape *shape, int which, int rank);
struct tree_place tree_below(const struct prog_shape *shape, int which, int rank, int root);

#endif
