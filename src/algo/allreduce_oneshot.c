/* SPDX-License-Identifier: Apache-2.0
 *
 * One-shot allreduce: every rank sends its whole buffer to all others, and every rank reduces all buffers by itself.
 *
 *      rank 0   rank 1   rank 2            every rank, in one step:   IN ──▶ all others
 *         │╲  ╱   │   ╲  ╱│                then, in one step:         0 + 1 + 2 + … ──▶ OUT
 *         │  ╳    │     ╳ │                                               ▲
 *         ▼╱  ╲   ▼   ╱  ╲▼                                               the rank's own IN stands at its own place
 *
 * There is one hop, so no allreduce has a lower latency. Each rank reads n−1 buffers, and over a network it sends n−1 buffers: this
 * algorithm is for small ones. (If all ranks are on one host, each writes its buffer once: fifo/fan.h.) All ranks reduce the operands in rank order, so
 * they get the same bits. One worker does both steps in this order, because in place the result overwrites what the first step sends. A
 * connection needs one slot.
 * The oldest idea of all: an all-gather with the reduction at its end.
 */
#include "program/program.h"

void allreduce_oneshot_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;
    struct peers others_in_order = {.first = 0, .count = OTHERS, .lane = PROG_LANE_ALL};
    struct peers others_behind = {.first = rank + 1, .count = OTHERS, .lane = PROG_LANE_ALL};

    prog_worker(prog);
    if (n > 1) /* In place, the sum overwrites IN while other ranks may still read it */
        prog_step(prog, .local = IN(0), .send = others_behind, .copied_in_place = true);
    prog_step(prog, .recv = others_in_order, .local = IN(0), .local_at = rank, .finish = true, .store = OUT(0));
}
