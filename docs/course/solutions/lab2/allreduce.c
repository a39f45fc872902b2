/* SPDX-License-Identifier: Apache-2.0
 *
 * Lab 2: the ring. Slice s starts at rank s+1 and is complete at rank s.
 */
#include "check/program.h"

void lab_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;
    struct peers next = PEER(prog_wrap(prog, rank + 1)), prev = PEER(prog_wrap(prog, rank - 1));

    prog_slices(prog, n);
    prog_worker(prog);
    prog_step(prog, .local = IN(prog_wrap(prog, rank - 1)), .send = next);
    for (int k = 2; k < n; k++)
        prog_step(prog, .recv = prev, .local = IN(prog_wrap(prog, rank - k)), .local_at = 1, .send = next);
    prog_step(prog, .recv = prev, .local = IN(rank), .local_at = 1, .finish = true, .store = OUT(rank), .send = next);
    for (int k = 1; k < n - 1; k++)
        prog_step(prog, .recv = prev, .store = OUT(prog_wrap(prog, rank - k)), .send = next);
    prog_step(prog, .recv = prev, .store = OUT(prog_wrap(prog, rank + 1)));
}
