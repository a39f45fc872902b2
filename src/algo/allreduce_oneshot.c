/* SPDX-License-Identifier: Apache-2.0
 *
 * One-shot allreduce: everyone sends its whole buffer to everyone, and everyone reduces all of them by itself.
 *
 *      rank 0   rank 1   rank 2            every rank, in one step:   IN ──▶ all others
 *         │╲  ╱   │   ╲  ╱│                then, in one step:         0 + 1 + 2 + … ──▶ OUT
 *         │  ╳    │     ╳ │                                               ▲
 *         ▼╱  ╲   ▼   ╱  ╲▼                                               the rank's own IN stands at its own place
 *
 * One hop: the lowest latency there is; n−1 times the traffic of a buffer: for small ones. The operands are reduced in
 * rank order everywhere, so all ranks get the same bits. Both steps are one worker's: in place, the result overwrites
 * what the first step sends. A connection needs one slot.
 * The oldest idea of all: an all-gather with the reduction at its end.
 */
#include "program/program.h"

void allreduce_oneshot_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;
    struct peers others_in_order = {.first = 0, .count = OTHERS};
    struct peers others_behind = {.first = rank + 1, .count = OTHERS}; /* each rank starts with another peer */

    prog_worker(prog);
    if (n > 1) /* in place, the sum overwrites IN while other ranks may still read it */
        prog_step(prog, .local = IN(0), .send = others_behind, .copied_in_place = true);
    prog_step(prog, .recv = others_in_order, .local = IN(0), .local_at = rank, .finish = true, .store = OUT(0));
}
