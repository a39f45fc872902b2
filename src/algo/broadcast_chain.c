/* SPDX-License-Identifier: Apache-2.0
 *
 * Chain broadcast: a pipeline of ranks that starts at the root.
 *
 *      root ──▶ root + 1 ──▶ … ──▶ root + n−1           + d: d positions behind the root in the order of the shape
 *      IN ▼         ▼                   ▼
 *        OUT       OUT                 OUT
 *
 * Every rank receives the buffer once and passes it on piece by piece. The bandwidth is that of one link, the latency n−1 hops. One
 * slot per connection is enough, because a chain has no cycle.
 * After: J. Pješivac-Grbović et al., "Performance analysis of MPI collective operations", Cluster Computing 10 (2007),
 * the pipeline algorithm.
 */
#include "program/program.h"

void broadcast_chain_build(struct prog *prog) {
    int place = prog_behind_root(prog);
    bool last = place == prog->nranks - 1;
    struct peers after = {.first = prog_after(prog, 1), .count = last ? 0 : 1};

    prog_worker(prog);
    if (place == 0)
        prog_step(prog, .local = IN(0), .store = OUT(0), .send = after);
    else
        prog_step(prog, .recv = PEER(prog_after(prog, -1)), .store = OUT(0), .send = after);
}
