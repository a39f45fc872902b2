/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct barrier: every rank tells rank 0 that it has come. When the last rank has come, rank 0 tells all.
 *
 *      rank 1 ──╮           ╭──▶ rank 1
 *      rank 2 ──┼─▶ rank 0 ─┼──▶ rank 2       2(n−1) empty messages; recursive doubling has n·log2 n
 *      rank 3 ──╯           ╰──▶ rank 3
 *
 * There are two hops. If ranks share CPUs, each rank needs a CPU twice: to say that it has come, and to learn that all have
 * come. With doubling, a rank needs a CPU at each hop.
 * After: J. M. Mellor-Crummey, M. L. Scott, "Algorithms for scalable synchronization on shared-memory multiprocessors", ACM
 * Trans. Comput. Syst. 9 (1991), the central barrier; with a place per rank instead of a counter.
 */
#include "program/program.h"

void barrier_direct_build(struct prog *prog) {
    struct peers others = {.first = 0, .count = OTHERS}, all = {.first = 1, .count = OTHERS, .lane = PROG_LANE_ALL};
    prog_worker(prog);
    if (prog->rank == 0) {
        prog_step(prog, .recv = others, .local = IN(0), .finish = true, .store = OUT(0), .send = all);
        return;
    }
    prog_step(prog, .local = IN(0), .send = PEER(0));
    prog_step(prog, .recv = PEER_LANE(0, PROG_LANE_ALL), .store = OUT(0));
}
