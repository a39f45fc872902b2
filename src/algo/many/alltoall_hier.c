/* SPDX-License-Identifier: Apache-2.0
 *
 * Hierarchical alltoall: blocks for other nodes change rails (rails.h) inside the node, then nodes inside the rail.
 *
 *      node 0     rank 0 ── block for 3 ──▶ rank 1           rank 1 gathers its node's blocks for rank 3, and is the only
 *                                             │              rank of its node that sends to rank 3. Rank 3 stores each
 *      node 1     rank 2                    rank 3           block at its final place: nothing is left to scatter
 *
 *      worker `gather`    IN of every rank of another node and another rail ──▶ the mate on its rail
 *      worker `relay`     node by node: own IN ──▶ rank of that node on this rail, then each mate's block for it
 *      worker `deliver`   node by node: all blocks of that node, from its rank on this rail ──▶ OUT
 *      worker 0, and one for each mate: blocks that stay inside the node, as in alltoall_direct.c
 *
 * A rank has connections to one rank of each other node, instead of to all ranks there. The network carries as many bytes as in the direct
 * algorithm, and blocks that change rails go through memory once more. A block is passed on when it comes, and never stored on its way.
 * Gather, relay and deliver go through nodes and rails in one order: by the distance of the nodes, then by the distance of the
 * rails. A connection needs one slot.
 * After: the two-phase exchange on a grid, as in S. H. Bokhari, H. Berryman, "Complete exchange on a circuit switched
 * mesh", SHPCC 1992, with nodes for rows.
 */
#include "algo/many/rails.h"
#include "program/program.h"

enum { LANE_BLOCKS = 0, LANE_RELAYED = 1 };

/* Worker 0, and the workers for blocks that stay inside the node. */
static void build_direct(struct prog *prog, const struct rails *rails) {
    prog_worker(prog);
    prog_step(prog, .local = IN(prog->rank), .store = OUT(prog->rank));
    for (int d = 1; d < rails->nrails; d++) {
        int to = rails_rank(prog, rails, rails->node, rails->rail + d);
        int from = rails_rank(prog, rails, rails->node, rails->rail - d);
        prog_worker(prog);
        prog_step(prog, .local = IN(to), .send = PEER_LANE(to, LANE_BLOCKS));
        prog_step(prog, .recv = PEER_LANE(from, LANE_BLOCKS), .store = OUT(from));
    }
}

/* Sends blocks for other nodes to the mate on the destination's rail, node by node: e is the distance to the node. */
static void build_gather(struct prog *prog, const struct rails *rails) {
    prog_worker(prog);
    for (int e = 1; e < rails->nnodes; e++)
        for (int d = 1; d < rails->nrails; d++)
            prog_step(prog, .local = IN(rails_rank(prog, rails, rails->node + e, rails->rail + d)),
                      .send = PEER_LANE(rails_rank(prog, rails, rails->node, rails->rail + d), LANE_RELAYED));
}

static void build_relay(struct prog *prog, const struct rails *rails) {
    prog_worker(prog);
    for (int e = 1; e < rails->nnodes; e++) {
        int to = rails_rank(prog, rails, rails->node + e, rails->rail);
        prog_step(prog, .local = IN(to), .send = PEER_LANE(to, LANE_BLOCKS));
        for (int d = 1; d < rails->nrails; d++)
            prog_step(prog, .recv = PEER_LANE(rails_rank(prog, rails, rails->node, rails->rail - d), LANE_RELAYED),
                      .length_of = IN(to), .send = PEER_LANE(to, LANE_BLOCKS));
    }
}

/* Receives blocks from other nodes, node by node: e is the distance to the node. */
static void build_deliver(struct prog *prog, const struct rails *rails) {
    prog_worker(prog);
    for (int e = 1; e < rails->nnodes; e++)
        for (int d = 0; d < rails->nrails; d++)
            prog_step(prog, .recv = PEER_LANE(rails_rank(prog, rails, rails->node - e, rails->rail), LANE_BLOCKS),
                      .store = OUT(rails_rank(prog, rails, rails->node - e, rails->rail - d)));
}

void alltoall_hier_build(struct prog *prog) {
    struct rails rails = rails_of(prog);
    build_direct(prog, &rails);
    build_gather(prog, &rails);
    build_relay(prog, &rails);
    build_deliver(prog, &rails);
}
