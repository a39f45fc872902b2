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
    int node_ranks; /* how many ranks every node has; 0: not the same everywhere */
    int *order;     /* [position]: the rank there; NULL: ranks are numbered node by node */
    int *position;  /* [rank]: where it stands in order; NULL like it */
    int *first;     /* [nnodes + 1]: the position at which each node begins; NULL: all have node_ranks */
    int *node;      /* [position]: number of its node in the list; NULL like it */
    bool zigzag;    /* a ring walks through every second node backwards, to come in where it went out of the last */
    bool chains;    /* inside nodes trees are chains: ranks have a link to the next, and share it with what is beyond */
};
#define PROG_NODE_RANKS_MAX 64 /* hierarchical algorithms take no larger nodes */
#define PROG_FLAT(n) ((struct prog_shape){.nranks = (n), .nnodes = 1, .node_ranks = (n)}) /* all on one node */

/* node_of[rank] is any number in 0 … nranks−1 that only the ranks of its node have. Nodes are listed in the order of
 * their lowest ranks, and in each its ranks by number. Errors: INVALID_ARGUMENT (nranks, a number out of range),
 * NO_MEMORY; *shape is then unwritten. */
enum collet_result prog_shape_init(struct prog_shape *shape, int nranks, const int *node_of);
/* Lists nodes and the ranks of each in the order in which they first appear in `along`, all ranks in any order.
 * Errors: also INVALID_ARGUMENT if a rank is missing there. */
enum collet_result prog_shape_init_along(struct prog_shape *shape, int nranks, const int *node_of, const int *along);
void prog_shape_fini(struct prog_shape *shape);

/* The part of the list that is one node. */
struct prog_span {
    int node, first, count;
};
struct prog_span prog_shape_span(const struct prog_shape *shape, int position);
struct prog_span prog_shape_node(const struct prog_shape *shape, int node);

/* From a position to its place on the ring, and back: the same swap of what is walked backwards. */
int prog_shape_turn(const struct prog_shape *shape, int position);

static inline int prog_shape_rank(const struct prog_shape *shape, int position) {
    return shape->order != NULL ? shape->order[position] : position;
}
static inline int prog_shape_position(const struct prog_shape *shape, int rank) {
    return shape->position != NULL ? shape->position[rank] : rank;
}

#endif
