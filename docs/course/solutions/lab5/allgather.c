/* SPDX-License-Identifier: Apache-2.0
 *
 * Lab 5: receive, which frees the slot, and only then send. The price is a step more per block.
 */
#include "check/program.h"

void lab_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;
    struct peers next = PEER(prog_wrap(prog, rank + 1)), prev = PEER(prog_wrap(prog, rank - 1));

    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = OUT(rank), .send = next);
    for (int k = 1; k < n; k++) {
        struct local block = OUT(prog_wrap(prog, rank - k));
        prog_step(prog, .recv = prev, .store = block);
        if (k < n - 1)
            prog_step(prog, .local = block, .send = next);
    }
}
