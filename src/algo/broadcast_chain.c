/* SPDX-License-Identifier: Apache-2.0
 *
 * Chain broadcast: a pipeline of ranks that starts at the root.
 *
 *      root ──▶ root + 1 ──▶ … ──▶ root + n−1
 *      IN ▼         ▼                   ▼
 *        OUT       OUT                 OUT
 *
 * Every rank receives the buffer once and passes it on piece by piece. Full bandwidth, latency n−1. One slot a
 * connection is enough: a chain has no cycle.
 * After: J. Pješivac-Grbović et al., "Performance analysis of MPI collective operations", Cluster Computing 10 (2007),
 * the pipeline algorithm.
 */
#include "program/program.h"

void broadcast_chain_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;
    /* Distance from the start of the chain. */
    int place = prog_wrap(prog, rank - prog->root);
    struct peers after = {.first = rank + 1, .count = place < n - 1 ? 1 : 0}; /* the last rank has nobody after it */

    prog_worker(prog);
    if (place == 0)
        prog_step(prog, .local = IN(0), .store = OUT(0), .send = after);
    else
        prog_step(prog, .recv = PEER(rank - 1), .store = OUT(0), .send = after);
}
