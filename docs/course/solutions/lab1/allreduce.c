/* SPDX-License-Identifier: Apache-2.0
 *
 * Lab 1: rank 0 adds, and sends the result to all others.
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
