/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rank is on which node and rail. rails.h has the picture.
 */
#include "algo/many/rails.h"

static int wrap(int i, int n) { return (i % n + n) % n; }

struct rails rails_of(const struct prog *prog) {
    const struct prog_shape *shape = prog->shape;
    int position = prog_shape_position(shape, prog->rank), nrails = prog->nranks;
    if (shape->node_ranks > 0)
        nrails = shape->node_ranks;
    return (struct rails){
        .nnodes = prog->nranks / nrails,
        .nrails = nrails,
        .node = position / nrails,
        .rail = position % nrails,
    };
}

int rails_rank(const struct prog *prog, const struct rails *rails, int node, int rail) {
    int position = wrap(node, rails->nnodes) * rails->nrails + wrap(rail, rails->nrails);
    return prog_shape_rank(prog->shape, position);
}

void rails_list_mates(const struct prog *prog, const struct rails *rails, int mate[RAILS_MAX]) {
    int nmates = 0;
    for (int rail = 0; rail < rails->nrails; rail++)
        if (rail != rails->rail)
            mate[nmates++] = rails_rank(prog, rails, rails->node, rail);
}

bool rails_apply(const struct prog_shape *shape) {
    return shape->nnodes > 1 && shape->node_ranks > 1 && shape->node_ranks <= RAILS_MAX;
}

bool many_apply(const struct prog_shape *shape) { return shape->nranks > 0; }
