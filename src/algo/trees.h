/* SPDX-License-Identifier: Apache-2.0
 *
 * Double binary trees: who is whose parent, as a pure function of n. See trees.c for the picture.
 */
#ifndef COLLET_ALGO_TREES_H
#define COLLET_ALGO_TREES_H

#include "program/program.h"

#define TREES 2 /* of one double tree */

struct tree_place {
    int parent;    /* −1: this rank is the root */
    int child[2];  /* the children, smaller side first */
    int nchildren; /* 0 … 2 */
};

/* The place of `rank` in tree `which` (0 or 1) of the double tree over ranks 0 … n−1. */
struct tree_place tree_place(int n, int which, int rank);

/* The same with a given root: the root stands above the double tree of the other ranks, whose top is its only child in
 * either tree. With n = 1 the root has no child. */
struct tree_place tree_place_below(int n, int which, int rank, int root);

/* The same two over the positions of a shape instead of ranks: neighbours in a tree then share a node as often as they
 * can. */
struct tree_place tree_of(const struct prog_shape *shape, int which, int rank);
struct tree_place tree_below(const struct prog_shape *shape, int which, int rank, int root);

#endif
