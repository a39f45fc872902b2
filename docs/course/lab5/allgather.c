/* SPDX-License-Identifier: Apache-2.0
 *
 * Lab 5: mend a deadlock.
 *
 * In a ring allgather every block travels round once. The steps in the loop receive and send at once: each waits for a slot
 * that is free at the next rank, and for a message from the rank before. With two slots per connection this works. With one
 * slot, every rank waits for the next rank to free its slot:
 *
 *      rank 0 ── waits for room at ──▶ rank 1 ── waits for room at ──▶ rank 2 ── waits for room at ──▶ rank 0
 *
 * `build/bin/collet-prog --html allgather_ring 4 --slots 1 > page.html` shows it move by move. Write the ring so that one slot
 * is enough.
 */
#include "check/program.h"

void lab_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;
    struct peers next = PEER(prog_wrap(prog, rank + 1)), prev = PEER(prog_wrap(prog, rank - 1));

    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = OUT(rank), .send = next);
    for (int k = 1; k < n - 1; k++)
        prog_step(prog, .recv = prev, .store = OUT(prog_wrap(prog, rank - k)), .send = next);
    prog_step(prog, .recv = prev, .store = OUT(prog_wrap(prog, rank + 1)));
}
