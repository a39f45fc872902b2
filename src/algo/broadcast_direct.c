/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct broadcast: the root sends the buffer to every rank.
 *
 *               ╭──▶ rank 1   OUT
 *        root 0 ┼──▶ rank 2   OUT         every rank: one step
 *           IN  ╰──▶ rank 3   OUT         at the root, IN is copied to OUT too
 *
 * There is one hop: no rank waits for a rank that itself waits. On one host the root writes the buffer once, and all others read it there
 * (fifo/fan.h). Over a network the root sends the buffer n−1 times, where a chain's root sends it once. So over networks this
 * algorithm is for small buffers. A connection needs one slot.
 * After: J. Pješivac-Grbović et al., "Performance analysis of MPI collective operations", Cluster Computing 10 (2007),
 * the linear algorithm.
 */
#include "program/program.h"

void broadcast_direct_build(struct prog *prog) {
    struct peers others_behind = {.first = prog->rank + 1, .count = OTHERS, .lane = PROG_LANE_ALL};

    prog_worker(prog);
    if (prog->rank == prog->root)
        prog_step(prog, .local = IN(0), .store = OUT(0), .send = others_behind);
    else
        prog_step(prog, .recv = PEER_LANE(prog->root, PROG_LANE_ALL), .store = OUT(0));
}
