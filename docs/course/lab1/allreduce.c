/* SPDX-License-Identifier: Apache-2.0
 *
 * Lab 1: an allreduce that is right.
 *
 *      rank 1 ─┐                       ┌─▶ rank 1
 *      rank 2 ─┼─▶ rank 0 adds all ────┼─▶ rank 2        the picture of what you want
 *      rank 3 ─┘                       └─▶ rank 3
 *
 * Something is missing here. Run `make lab1`, and read what the verifier says.
 */
#include "check/program.h"

void lab_build(struct prog *prog) {
    prog_worker(prog);
    if (prog->rank == 0) {
        struct peers others = {.first = 1, .count = OTHERS};
        prog_step(prog, .recv = others, .local = IN(0), .finish = true, .store = OUT(0));
    } else {
        prog_step(prog, .local = IN(0), .send = PEER(0));
    }
}
