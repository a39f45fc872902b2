/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring allreduce. The buffer is cut into one slice per rank. Every slice travels round the ring twice.
 *
 *      ┌─▶ rank 0 ─▶ rank 1 ─▶ rank 2 ─▶ rank 3 ─┐      slice 0 starts at rank 1, gathers one contribution at each
 *      └─────────────────────────────────────────┘      stop, is complete at rank 0, and travels on as a result.
 *
 *      slice 0:   1 ─▶ 2 ─▶ 3 ─▶ 0 ═▶ 1 ═▶ 2 ═▶ 3       ─▶ partial sum (reduce-scatter), ═▶ result (all-gather)
 *      slice 1:   2 ─▶ 3 ─▶ 0 ─▶ 1 ═▶ 2 ═▶ 3 ═▶ 0       all slices at once, so every connection is always busy
 *
 * Each rank sends every slice twice, except one slice. No allreduce sends less. The price is a latency that grows with n.
 * The ring follows the order of the shape, so it enters and leaves every node once; slice r ends its first journey at
 * rank r.
 * All ranks get the bits that one rank computed. The steps that receive and send at once form a cycle. So a connection needs at
 * least two slots: with one, every rank would wait for credit from the next.
 * After: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", J. Parallel
 * Distrib. Comput. 69 (2009).
 */
#include "program/program.h"

void allreduce_ring_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;
    struct peers next = PEER(prog_after(prog, 1)), prev = PEER(prog_after(prog, -1));

    prog_slices(prog, n);
    prog_worker(prog);
    if (n == 1) {
        prog_step(prog, .local = IN(0), .store = OUT(0), .finish = true);
        return;
    }
    /* Reduce-scatter: the slice arriving from prev is numbered one lower than the slice just sent to next. */
    prog_step(prog, .local = IN(prog_after(prog, -1)), .send = next);
    for (int k = 2; k < n; k++)
        prog_step(prog, .recv = prev, .local = IN(prog_after(prog, -k)), .local_at = 1, .send = next);
    /* Slice `rank` has been at all ranks: its sum is complete here, and its second journey begins. */
    prog_step(prog, .recv = prev, .local = IN(rank), .local_at = 1, .finish = true, .store = OUT(rank), .send = next);
    /* All-gather. */
    for (int k = 1; k < n - 1; k++)
        prog_step(prog, .recv = prev, .store = OUT(prog_after(prog, -k)), .send = next);
    prog_step(prog, .recv = prev, .store = OUT(prog_after(prog, 1)));
}
