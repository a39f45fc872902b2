/* SPDX-License-Identifier: Apache-2.0
 *
 * Lab 4: recursive doubling. What a rank knows waits in OUT.
 */
#include "check/program.h"

void lab_build(struct prog *prog) {
    struct local known = IN(0);

    prog_worker(prog);
    prog_step(prog, .local = known, .send = PEER(prog->rank ^ 1), .copied = true);
    for (int bit = 1; 2 * bit < prog->nranks; bit *= 2) {
        prog_step(prog, .recv = PEER(prog->rank ^ bit), .local = known, .store = OUT(0),
                  .send = PEER(prog->rank ^ (2 * bit)), .copied = true);
        known = OUT(0);
    }
    prog_step(prog, .recv = PEER(prog->rank ^ (prog->nranks / 2)), .local = known, .finish = true, .store = OUT(0));
}
