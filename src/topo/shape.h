/* SPDX-License-Identifier: Apache-2.0
 *
 * Where ranks are, as all of them see it alike: listed node by node, so that a ring, which walks along the list, enters and leaves
 * every node once, however ranks are numbered. See shape.c for the picture.
 */
#ifndef COLLET_TOPO_SHAPE_H
#define COLLET_TOPO_SHAPE_H

#include "collet.h"

#include <stdbool.h>
#include <stddef.h>

struct prog_shape {
    int nranks, nnodes;
    int node_ranks; /* ranks per node; 0: nodes differ */
    int *order;     /* [position] rank; NULL: ranks are numbered node by node */
    int *position;  /* [rank] position in order; NULL if order is NULL */
    int *first;     /* [nnodes + 1] first position of each node; NULL: all nodes have node_ranks */
    int *node;      /* [position] number of its node; NULL if first is NULL */
    bool zigzag;    /* a ring goes through every second node backwards, so that it enters where it left the last one */
    bool chains;    /* trees in nodes are chains: a rank's link leads to the next one, and ranks beyond share it */
};
#define PROG_NODE_RANKS_MAX 64 /* maximum ranks per node for hierarchical algorithms */
#define PROG_FLAT(n) ((struct prog_shape){.nranks = (n), .nnodes = 1, .node_ranks = (n)}) /* n ranks on one node */

/* node_of[rank]: any number in 0 … nranks−1 that only the ranks of its node have. Nodes are listed by their lowest ranks, and the ranks
 * of a node by number. Errors: INVALID_ARGUMENT (nranks, or a number out of range), NO_MEMORY; *shape is then
 * not written. */
enum collet_result prog_shape_init(struct prog_shape *shape, int nranks, const int *node_of);
/* Lists nodes, and the ranks of each node, in the order of their first appearance in `along`, a list of all ranks. Further error:
 * INVALID_ARGUMENT if a rank is missing there. */
enum collet_result prog_shape_init_along(struct prog_shape *shape, int nranks, const int *node_of, const int *along);
void prog_shape_fini(struct prog_shape *shape);

/* The positions of one node. */
struct prog_span {
    int node, first, count;
};
struct prog_span prog_shape_span(const struct prog_shape *shape, int position);
struct prog_span prog_shape_node(const struct prog_shape *shape, int node);

/* Converts a position to its place on the ring, and back: both are the same swap, in nodes that the ring walks backwards. */
int prog_shape_turn(const struct prog_shape *shape, int position);

static inline int prog_shape_rank(const struct prog_shape *shape, int position) {
    return shape->order != NULL ? shape->order[position] : position;
}
static inline int prog_shape_position(const struct prog_shape *shape, int rank) {
    return shape->position != NULL ? shape->position[rank] : rank;
}

#endif
