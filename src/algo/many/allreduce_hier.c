/* SPDX-License-Identifier: Apache-2.0
 *
 * Hierarchical allreduce: inside nodes directly, between nodes by a ring on each rail (rails.h).
 *
 *                   rail 0      rail 1           the buffer is cut into a part for each rail, and each part into a slice
 *      node 0        rank ◀────▶ rank            for each node. Mates are the other ranks of a rank's node
 *                     ▼           ▼              1. inside a node, every rank sends each rail's part to the mate on that
 *      node 1        rank ◀────▶ rank               rail                                           (reduce-scatter)
 *                     ▼           ▼              2. on each rail, the nodes' sums go round a ring, as in
 *      node 2        rank ◀────▶ rank               allreduce_ring.c
 *                     ╰▶ node 0   ╰▶ node 0      3. inside a node, every rank sends results to all mates (all-gather)
 *
 *      worker 0   IN(slice) ──▶ mate on the slice's rail         for all slices of other rails
 *      worker 1   prev, all mates, own IN ── + ──▶ next          1 and 2 in one step
 *                 prev ──▶ OUT, next, all mates                  2 and 3 in one step
 *      worker 2   mate ──▶ OUT(slice)                            for all slices of other rails
 *
 * A node sends 2 (N−1)/N of the buffer to other nodes, if there are N nodes. No allreduce sends less. All ranks of a node send equally
 * much. Slice j of a rail ends its first journey at node j. All ranks get the bits that one rank computed. In place, a result
 * overwrites a slice only after the mate that sends the result has had the slice. Sums travel on one lane, results on another. The
 * ring needs two slots per connection.
 * After: M. Cho et al., "BlueConnect: decomposing all-reduce for deep learning on heterogeneous network hierarchy", IBM
 * J. Res. Dev. 63 (2019), the decomposition; the ring as in allreduce_ring.c.
 */
#include "algo/many/rails.h"
#include "program/program.h"

enum { LANE_SUMS = 0, LANE_RESULTS = 1 };

/* The number of slice `node` of a rail's part. Both numbers wrap around. */
static int slice_of(const struct rails *rails, int rail, int node) {
    return (rail + rails->nrails) % rails->nrails * rails->nnodes + (node + rails->nnodes) % rails->nnodes;
}

/* Worker 0. It sends slices to mates in the order in which the mates' rings need them. */
static void build_scatter(struct prog *prog, const struct rails *rails) {
    prog_worker(prog);
    for (int k = 1; k <= rails->nnodes; k++)
        for (int d = 1; d < rails->nrails; d++)
            prog_step(prog, .local = IN(slice_of(rails, rails->rail + d, rails->node - k)),
                      .send = PEER_LANE(rails_rank(prog, rails, rails->node, rails->rail + d), LANE_SUMS));
}

static void build_ring(struct prog *prog, const struct rails *rails) {
    int nmates = rails->nrails - 1, rail = rails->rail, node = rails->node;
    int next = rails_rank(prog, rails, node + 1, rail), prev = rails_rank(prog, rails, node - 1, rail);
    int sources[1 + RAILS_MAX] = {prev}, targets[1 + RAILS_MAX] = {next};
    rails_list_mates(prog, rails, sources + 1);
    rails_list_mates(prog, rails, targets + 1);
    struct peers from_mates = LISTED(sources + 1, nmates, LANE_SUMS), from_all = LISTED(sources, 1 + nmates, LANE_SUMS);
    struct peers to_mates = LISTED(targets + 1, nmates, LANE_RESULTS),
                 to_all = LISTED(targets, 1 + nmates, LANE_RESULTS);

    prog_worker(prog);
    prog_step(prog, .recv = from_mates, .local = IN(slice_of(rails, rail, node - 1)), .local_at = rail,
              .send = PEER_LANE(next, LANE_SUMS));
    for (int k = 2; k < rails->nnodes; k++)
        prog_step(prog, .recv = from_all, .local = IN(slice_of(rails, rail, node - k)), .local_at = 1 + rail,
                  .send = PEER_LANE(next, LANE_SUMS));
    prog_step(prog, .recv = from_all, .local = IN(slice_of(rails, rail, node)), .local_at = 1 + rail, .finish = true,
              .store = OUT(slice_of(rails, rail, node)), .send = to_all);
    for (int k = 1; k < rails->nnodes; k++)
        prog_step(prog, .recv = PEER_LANE(prev, LANE_RESULTS), .store = OUT(slice_of(rails, rail, node - k)),
                  .send = k < rails->nnodes - 1 ? to_all : to_mates);
}

/* Worker 2. It receives results from mates in the order in which the mates' rings complete them. */
static void build_gather(struct prog *prog, const struct rails *rails) {
    prog_worker(prog);
    for (int k = 0; k < rails->nnodes; k++)
        for (int d = 1; d < rails->nrails; d++)
            prog_step(prog, .recv = PEER_LANE(rails_rank(prog, rails, rails->node, rails->rail - d), LANE_RESULTS),
                      .store = OUT(slice_of(rails, rails->rail - d, rails->node - k)));
}

void allreduce_hier_build(struct prog *prog) {
    struct rails rails = rails_of(prog);
    prog_slices(prog, prog->nranks);
    build_scatter(prog, &rails);
    build_ring(prog, &rails);
    build_gather(prog, &rails);
}
