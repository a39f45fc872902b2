/* SPDX-License-Identifier: Apache-2.0
 *
 * Lab 2: an allreduce that sends as little as a ring.
 *
 * This program is right, but rank 0 sends n−1 buffers while the others wait. A ring shares the work:
 *
 *      ┌─▶ rank 0 ─▶ rank 1 ─▶ rank 2 ─▶ rank 3 ─┐     cut the buffer into n slices: prog_slices(prog, n)
 *      └─────────────────────────────────────────┘     every slice travels round the ring twice
 *
 * In the first n−1 steps each slice gathers a contribution at each stop. Then it is complete somewhere. In the next n−1
 * steps the complete slice travels on, and each stop stores it. So each rank sends 2 (n−1) slices: 2 (n−1)/n buffers.
 */
#include "check/program.h"

void lab_build(struct prog *prog) {
    prog_worker(prog);
    if (prog->rank == 0) {
        struct peers others = {.first = 1, .count = OTHERS};
        prog_step(prog, .recv = others, .local = IN(0), .finish = true, .store = OUT(0), .send = others);
    } else {
        prog_step(prog, .local = IN(0), .send = PEER(0), .copied = true);
        prog_step(prog, .recv = PEER(0), .store = OUT(0));
    }
}
