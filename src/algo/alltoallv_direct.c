/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct alltoallv: a worker per peer and direction, as if each pair of ranks sent and received messages.
 *
 *      workers of rank r:     IN(r+d) ──▶ rank r+d        for every distance d
 *                             IN(r) ──▶ OUT(r)
 *                             OUT(r−d) ◀── rank r−d       for every distance d
 *
 * Only the two ranks of a pair know how much they exchange. So a worker has one step, and runs as many rounds as its own block needs. It
 * sends at least one slot, even an empty one: the header of that slot tells the peer the counts of the pair
 * (../exec/exec_pairs.c). Workers that send come first: so a rank that finds a mismatch has already told its peers its own counts.
 * A connection needs one slot.
 */
#include "program/program.h"

void alltoallv_direct_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;

    for (int d = 1; d < n; d++) {
        prog_worker(prog);
        prog_step(prog, .local = IN(prog_wrap(prog, rank + d)), .send = PEER(rank + d));
    }
    prog_worker(prog);
    prog_step(prog, .local = IN(rank), .store = OUT(rank));
    for (int d = 1; d < n; d++) {
        prog_worker(prog);
        prog_step(prog, .recv = PEER(rank - d), .store = OUT(prog_wrap(prog, rank - d)));
    }
}
