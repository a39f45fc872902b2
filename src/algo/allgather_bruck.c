/* SPDX-License-Identifier: Apache-2.0
 *
 * Bruck's allgather: a rank that knows k blocks gets k more in one message.
 *
 *      blocks that rank 0 of 6 knows        at first    0
 *      level 0: 1 block from rank 1                     0 1
 *      level 1: 2 blocks from rank 2                    0 1 2 3
 *      level 2: the last 2 from rank 4                  0 1 2 3 4 5
 *
 *      every rank r, at distance d = 1, 2, 4 …:    blocks r, r+1 … that it knows ──▶ r−d
 *                                                  OUT of r+d, r+d+1 …          ◀── r+d
 *
 * A rank sends ⌈log2 n⌉ messages, for any n. No allgather sends fewer. Each message is a run of blocks, which may wrap around.
 * Every block arrives at its final place. The blocks of a message share a slot, so a slot has less room for each: this algorithm is
 * for small blocks. A connection needs one slot.
 * After: J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", IEEE
 * Trans. Parallel Distrib. Syst. 8 (1997), the concatenation; without its rotation at the end, since a run may begin
 * anywhere.
 */
#include "program/program.h"

void allgather_bruck_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;

    prog_worker(prog);
    prog_step(prog, .local = IN(0), .store = OUT(rank), .send = {.first = rank - 1, .count = n > 1 ? 1 : 0});
    for (int known = 1; known < n; known *= 2) {
        int more = known < n - known ? known : n - known;
        if (known > 1)
            prog_step(prog, .local = OUT_RUN(ROW(rank, more)), .send = PEER(rank - known));
        prog_step(prog, .recv = PEER(rank + known), .store = OUT_RUN(ROW(prog_wrap(prog, rank + known), more)));
    }
}

/* The steps do not depend on the lengths of blocks. */
void allgatherv_bruck_build(struct prog *prog) { allgather_bruck_build(prog); }
