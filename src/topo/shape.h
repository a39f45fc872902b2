/* SPDX-License-Identifier: Apache-2.0
 *
 * The shape of a communicator: a list of its ranks, node by node. All ranks have the same list. A ring walks along the list, so it enters
 * and leaves every node once, however ranks are numbered. See shape.c for the picture.
 */
#ifndef COLLET_TOPO_SHAPE_H
#define COLLET_TOPO_SHAPE_H

#include "collet.h"

#include <stdbool.h>
#include <stddef.h>

struct prog_shape {
    int nranks, nnodes;
    int node_ranks; /* Ranks per node. 0: nodes have different numbers of ranks. */
    int *order;     /* [position]: the rank there. NULL: ranks are numbered node by node. */
    int *position;  /* [rank]: its position in `order`. NULL: `order` is NULL. */
    int *first;     /* [nnodes + 1]: first position of each node. NULL: every node has node_ranks ranks. */
    int *node;      /* [position]: number of the node there. NULL: `first` is NULL. */
    /* A ring walks through every second node backwards. So it enters a node beside the NIC of the same number as the one by
     * which it left the node before. */
    bool zigzag;
    /* Inside a node, trees are chains. It is set if ranks are on GPUs: there a rank has a link of its own to the next rank
     * only. */
    bool chains;
};
#define PROG_NODE_RANKS_MAX 64 /* Maximum number of ranks per node for hierarchical algorithms. */
/* A shape of n ranks on one node. */
#define PROG_FLAT(n) ((struct prog_shape){.nranks = (n), .nnodes = 1, .node_ranks = (n)})

/* node_of[rank] is any number in 0 … nranks−1 that only the ranks of its node have. Nodes, and the ranks of each node, are listed in the
 * order of their first appearance in `along`, a list of all ranks; NULL: by number. Errors: INVALID_ARGUMENT (nranks, a number out of range, a
 * rank that is missing in `along`), NO_MEMORY; *shape is then not written. */
enum collet_result prog_shape_init(struct prog_shape *shape, int nranks, const int *node_of, const int *along);
void prog_shape_fini(struct prog_shape *shape);

/* A node with its positions: first … first + count − 1. */
struct prog_span {
    int node, first, count;
};
struct prog_span prog_shape_span(const struct prog_shape *shape, int position);
struct prog_span prog_shape_node(const struct prog_shape *shape, int node);

/* Converts a position to its place on the ring, and a place on the ring to its position. Both are the same swap: inside a
 * node that the ring walks backwards, the first and the last change places, and so on. */
int prog_shape_turn(const struct prog_shape *shape, int position);

static inline int prog_shape_rank(const struct prog_shape *shape, int position) {
    return shape->order != NULL ? shape->order[position] : position;
}
static inline int prog_shape_position(const struct prog_shape *shape, int rank) {
    return shape->position != NULL ? shape->position[rank] : rank;
}

#endif
