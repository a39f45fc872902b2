/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct alltoall: a worker for each distance.
 *
 *      worker d of rank r:    IN(r+d) ──▶ rank r+d        on every rank at once, distance d is a shift round the ring:
 *                             OUT(r−d) ◀── rank r−d       everyone sends to one rank and receives from one
 *      the last worker copies the rank's own block, while the others' messages are under way.
 *
 * Workers proceed independently, so a slow peer delays only its own blocks. Sending comes before receiving and needs
 * only a free slot: a connection needs one.
 * After: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", Int. J.
 * High Perform. Comput. Appl. 19 (2005), all-to-all by pairwise exchange.
 */
#include "program/program.h"

void alltoall_direct_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;

    for (int d = 1; d < n; d++) {
        prog_worker(prog);
        prog_step(prog, .local = IN(prog_wrap(prog, rank + d)), .send = PEER(rank + d));
        prog_step(prog, .recv = PEER(rank - d), .store = OUT(prog_wrap(prog, rank - d)));
    }
    prog_worker(prog);
    prog_step(prog, .local = IN(rank), .store = OUT(rank));
}
