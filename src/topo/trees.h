/* SPDX-License-Identifier: Apache-2.0
 *
 * Double binary trees: who is whose parent, as a pure function of n or of a shape. See trees.c for the pictures.
 */
#ifndef COLLET_TOPO_TREES_H
#define COLLET_TOPO_TREES_H

#include "topo/shape.h"

#define TREES 2 /* of one double tree */

struct tree_place {
    int parent;    /* −1: this rank is the root */
    int child[3];  /* the children, smaller side first; a head's on its own node last */
    int nchildren; /* 0 … 2, of a head 0 … 3 */
};

/* The place of `rank` in tree `which` (0 or 1) of the double tree over ranks 0 … n−1. */
struct tree_place tree_place(int n, int which, int rank);

/* The same with a given root: the root stands above the double tree of the other ranks, whose top is its only child in
 * either tree. With n = 1 the root has no child. */
struct tree_place tree_place_below(int n, int which, int rank, int root);

/* The same two over a shape. On one node they are those trees over positions. Between nodes, the heads of nodes are
 * ranks of a double tree; inside a node, the others stand below its head: in a double tree again, or in a chain. */
struct tree_place tree_of(const struct prog_shape *shape, int which, int rank);
struct tree_place tree_below(const struct prog_shape *shape, int which, int rank, int root);

#endif
