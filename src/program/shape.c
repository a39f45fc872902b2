/* SPDX-License-Identifier: Apache-2.0
 *
 * The shape of a communicator: its ranks, listed node by node.
 *
 *      rank       0  1  2  3  4  5           order      0  2  3 │ 1  4 │ 5       a ring walks along this list
 *      node_of    a  b  a  a  b  c           position   0  3  1  2  4  5         and back from its end to its start
 *
 * Read next: ../algo/rails.h, for algorithms that know about nodes.
 */
#include "base/err.h"
#include "program/program.h"

#include <stdlib.h>

struct node {
    int nranks;
    int next; /* position of its next rank; −1: the node is not listed yet */
};

/* Counts the ranks of each node; false if node_of holds a number out of range. */
static bool count_ranks(int nranks, const int *node_of, struct node *nodes) {
    for (int rank = 0; rank < nranks; rank++)
        nodes[rank] = (struct node){.nranks = 0, .next = -1};
    for (int rank = 0; rank < nranks; rank++) {
        if (node_of[rank] < 0 || node_of[rank] >= nranks)
            return false;
        nodes[node_of[rank]].nranks++;
    }
    return true;
}

static void list_ranks(struct prog_shape *shape, const int *node_of, struct node *nodes) {
    int nlisted = 0;
    shape->node_ranks = nodes[node_of[0]].nranks;
    for (int rank = 0; rank < shape->nranks; rank++) {
        struct node *node = &nodes[node_of[rank]];
        if (node->next < 0) { /* this is its lowest rank */
            node->next = nlisted;
            nlisted += node->nranks;
            shape->nnodes++;
            if (node->nranks != shape->node_ranks)
                shape->node_ranks = 0;
        }
        shape->order[node->next] = rank;
        shape->position[rank] = node->next++;
    }
}

enum collet_result prog_shape_init(struct prog_shape *shape, int nranks, const int *node_of) {
    if (nranks < 1)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "a shape of %d ranks: at least one is needed", nranks);
    struct prog_shape made = {
        .nranks = nranks,
        .order = malloc((size_t)nranks * sizeof(int)),
        .position = malloc((size_t)nranks * sizeof(int)),
    };
    struct node *nodes = malloc((size_t)nranks * sizeof(*nodes));
    enum collet_result result = COLLET_SUCCESS;
    if (made.order == NULL || made.position == NULL || nodes == NULL)
        result = err_set(COLLET_ERR_NO_MEMORY, "no memory to list %d ranks by node", nranks);
    else if (!count_ranks(nranks, node_of, nodes))
        result = err_set(COLLET_ERR_INVALID_ARGUMENT, "node_of holds a number beyond 0 … %d", nranks - 1);
    else
        list_ranks(&made, node_of, nodes);
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
    *shape = (struct prog_shape){.nranks = 0};
}
