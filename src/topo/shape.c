/* SPDX-License-Identifier: Apache-2.0
 *
 * The shape of a communicator: its ranks, listed node by node.
 *
 *      rank       0  1  2  3  4  5           order      0  2  3 │ 1  4 │ 5       a ring walks along this list
 *      node_of    a  b  a  a  b  c           position   0  3  1  2  4  5         and back from its end to its start
 *
 * Nodes, and ranks in a node, are listed by number unless the machine suggests another order. A ring may have to walk
 * through every second node backwards (zigzag). It then stays on its rail: it leaves a node by one NIC, and enters the next node
 * at the rank beside the NIC of the same number:
 *
 *      order      0  1  2 │ 3  4  5 │ 6  7  8       ring       0  1  2 │ 5  4  3 │ 6  7  8
 *
 * Read next: ../algo/many/rails.h, for algorithms that know about nodes.
 */
#include "topo/shape.h"

#include "base/err.h"

#include <stdlib.h>

struct node {
    int nranks;
    int number; /* Number of the node in the list. −1: the node is not listed yet. */
    int next;   /* Position that the next rank of the node gets. */
};

/* Counts the ranks of each node. False: node_of has a number out of range. */
static bool count_ranks(int nranks, const int *node_of, struct node *nodes) {
    for (int rank = 0; rank < nranks; rank++)
        nodes[rank] = (struct node){.nranks = 0, .number = -1};
    for (int rank = 0; rank < nranks; rank++) {
        if (node_of[rank] < 0 || node_of[rank] >= nranks)
            return false;
        nodes[node_of[rank]].nranks++;
    }
    return true;
}

/* Appends a node to the list. */
static void list_node(struct prog_shape *shape, struct node *node) {
    node->number = shape->nnodes++;
    node->next = shape->first[node->number];
    shape->first[shape->nnodes] = node->next + node->nranks;
    if (node->nranks != shape->node_ranks)
        shape->node_ranks = 0;
}

static void list_rank(struct prog_shape *shape, struct node *node, int rank) {
    if (node->number < 0)
        list_node(shape, node);
    shape->order[node->next] = rank;
    shape->node[node->next] = node->number;
    shape->position[rank] = node->next++;
}

/* Does `along` have every rank exactly once? */
static bool is_permutation(int nranks, const int *along, int *seen) {
    for (int rank = 0; rank < nranks; rank++)
        seen[rank] = 0;
    for (int k = 0; k < nranks; k++)
        if (along[k] < 0 || along[k] >= nranks || seen[along[k]]++ > 0)
            return false;
    return true;
}

static enum collet_result list_ranks(struct prog_shape *shape, const int *node_of, const int *along,
                                     struct node *nodes) {
    int nranks = shape->nranks;
    if (!count_ranks(nranks, node_of, nodes))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "node_of holds a number beyond 0 … %d", nranks - 1);
    if (along != NULL && !is_permutation(nranks, along, shape->position))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "an order of %d ranks must name each of them once", nranks);
    shape->node_ranks = nodes[node_of[along == NULL ? 0 : along[0]]].nranks;
    for (int k = 0; k < nranks; k++) {
        int rank = along == NULL ? k : along[k];
        list_rank(shape, &nodes[node_of[rank]], rank);
    }
    return COLLET_SUCCESS;
}

enum collet_result prog_shape_init(struct prog_shape *shape, int nranks, const int *node_of, const int *along) {
    if (nranks < 1)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "a shape of %d ranks: at least one is needed", nranks);
    struct prog_shape made = {
        .nranks = nranks,
        .order = malloc((size_t)nranks * sizeof(int)),
        .position = malloc((size_t)nranks * sizeof(int)),
        .first = calloc((size_t)nranks + 1, sizeof(int)),
        .node = malloc((size_t)nranks * sizeof(int)),
    };
    struct node *nodes = malloc((size_t)nranks * sizeof(*nodes));
    enum collet_result result;
    if (made.order == NULL || made.position == NULL || made.first == NULL || made.node == NULL || nodes == NULL)
        result = err_set(COLLET_ERR_NO_MEMORY, "no memory to list %d ranks by node", nranks);
    else
        result = list_ranks(&made, node_of, along, nodes);
    free(nodes);
    if (result == COLLET_SUCCESS)
        *shape = made;
    else
        prog_shape_fini(&made);
    return result;
}

void prog_shape_fini(struct prog_shape *shape) {
    free(shape->order);
    free(shape->position);
    free(shape->first);
    free(shape->node);
    *shape = (struct prog_shape){.nranks = 0};
}

struct prog_span prog_shape_node(const struct prog_shape *shape, int node) {
    if (shape->first != NULL)
        return (struct prog_span){node, shape->first[node], shape->first[node + 1] - shape->first[node]};
    int count = shape->node_ranks > 0 ? shape->node_ranks : shape->nranks;
    return (struct prog_span){node, node * count, count};
}

struct prog_span prog_shape_span(const struct prog_shape *shape, int position) {
    if (shape->node != NULL)
        return prog_shape_node(shape, shape->node[position]);
    return prog_shape_node(shape, shape->node_ranks > 0 ? position / shape->node_ranks : 0);
}

int prog_shape_turn(const struct prog_shape *shape, int position) {
    struct prog_span span = prog_shape_span(shape, position);
    bool backwards = shape->zigzag && span.node % 2 == 1;
    return backwards ? 2 * span.first + span.count - 1 - position : position;
}
