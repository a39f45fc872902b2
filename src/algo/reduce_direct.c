/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct reduce: every rank sends its buffer to the root, and the root reduces them all.
 *
 *      rank 1   IN ──▶ ╮
 *      rank 2   IN ──▶ ┼ root 0   0 + 1 + 2 + 3 ──▶ OUT         every rank: one step
 *      rank 3   IN ──▶ ╯
 *
 * There is one hop: no rank waits for a rank that itself waits. The root receives n−1 buffers, where a chain's root receives one. So
 * this algorithm is for small buffers. The root reduces the operands in rank order. A connection needs one slot.
 * After: J. Pješivac-Grbović et al., "Performance analysis of MPI collective operations", Cluster Computing 10 (2007),
 * the linear algorithm.
 */
#include "program/program.h"

void reduce_direct_build(struct prog *prog) {
    int rank = prog->rank;
    struct peers others_in_order = {.first = 0, .count = OTHERS};

    prog_worker(prog);
    if (rank == prog->root)
        prog_step(prog, .recv = others_in_order, .local = IN(0), .local_at = rank, .finish = true, .store = OUT(0));
    else
        prog_step(prog, .local = IN(0), .send = PEER(prog->root));
}
