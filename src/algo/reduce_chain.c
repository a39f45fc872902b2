/* SPDX-License-Identifier: Apache-2.0
 *
 * Chain reduce: a pipeline of ranks that ends at the root.
 *
 *      root + n−1 ──▶ root + n−2 ──▶ … ──▶ root + 1 ──▶ root
 *         IN             + IN                + IN        + IN ──▶ OUT
 *      + d: d positions behind the root in the order of the shape
 *
 * Every rank sends a buffer once and receives one once, piece by piece. While one piece is at the root, the next pieces are
 * on their way. The bandwidth is that of one link, the latency n−1 hops. Only the root's OUT is written. One slot per connection
 * is enough, because a chain has no cycle.
 * After: J. Pješivac-Grbović et al., "Performance analysis of MPI collective operations", Cluster Computing 10 (2007),
 * the pipeline algorithm.
 */
#include "program/program.h"

void reduce_chain_build(struct prog *prog) {
    int place = prog_behind_root(prog);
    bool first = place == prog->nranks - 1;
    struct peers before = {.first = prog_after(prog, 1), .count = first ? 0 : 1};

    prog_worker(prog);
    if (place > 0)
        prog_step(prog, .recv = before, .local = IN(0), .local_at = before.count, .send = PEER(prog_after(prog, -1)));
    else
        prog_step(prog, .recv = before, .local = IN(0), .local_at = before.count, .finish = true, .store = OUT(0));
}
