/* SPDX-License-Identifier: Apache-2.0
 *
 * Two-shot allreduce: a direct reduce-scatter, then a direct all-gather. The buffer is cut into one slice per rank;
 * rank r owns slice r.
 *
 *      first hop: slice p to its owner p               second hop: the owner's result to everyone
 *
 *      worker 0   IN(p) ──▶ p, for every other p
 *      worker 1   all others' slice r, own IN(r) ── reduce in rank order ──▶ OUT(r), all others
 *      worker 2   p ──▶ OUT(p), for every other p
 *
 * There are two hops, and as much traffic as in a ring. So this algorithm suits middle sizes, if n−1 connections per rank are not too
 * many. Three workers send, reduce and receive, so that none of these waits for another one. In place, slice p of the result overwrites
 * slice p of the input only after owner p has had the input, because the result comes from owner p. A connection needs one slot.
 * After: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", Int. J.
 * High Perform. Comput. Appl. 19 (2005), reduce-scatter by pairwise exchange; with the exchange done at once.
 */
#include "program/program.h"

enum { LANE_SLICES = 0, LANE_RESULTS = PROG_LANE_ALL };

void allreduce_twoshot_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;
    struct peers slices_in_order = {.first = 0, .count = OTHERS, .lane = LANE_SLICES};
    struct peers others_behind = {.first = rank + 1, .count = OTHERS, .lane = LANE_RESULTS};

    prog_slices(prog, n);
    prog_peers(prog, slices_in_order);
    if (n > 1)
        prog_worker(prog);
    for (int d = 1; d < n; d++)
        prog_step(prog, .local = IN(prog_wrap(prog, rank + d)), .send = PEER_LANE(rank + d, LANE_SLICES));

    prog_worker(prog);
    prog_step(prog, .recv = slices_in_order, .local = IN(rank), .local_at = rank, .finish = true, .store = OUT(rank),
              .send = others_behind);

    if (n > 1)
        prog_worker(prog);
    for (int d = 1; d < n; d++)
        prog_step(prog, .recv = PEER_LANE(rank - d, LANE_RESULTS), .store = OUT(prog_wrap(prog, rank - d)));
}
