/* SPDX-License-Identifier: Apache-2.0
 *
 * Lab 3: a binary tree.
 */
#include "check/program.h"

void lab_build(struct prog *prog) {
    int rank = prog->rank, n = prog->nranks, first = 2 * rank + 1;
    int nchildren = first >= n ? 0 : first + 1 >= n ? 1 : 2;
    struct peers children = {.first = first < n ? first : 0, .count = nchildren}, parent = PEER((rank - 1) / 2);

    prog_worker(prog);
    if (rank == 0) {
        prog_step(prog, .recv = children, .local = IN(0), .finish = true, .store = OUT(0), .send = children);
        return;
    }
    prog_step(prog, .recv = children, .local = IN(0), .send = parent, .copied = true);
    prog_step(prog, .recv = parent, .store = OUT(0), .send = children);
}
