/* SPDX-License-Identifier: Apache-2.0
 *
 * Bruck's alltoall: for each bit that is set in its distance, a block travels one hop, together with all other blocks with this bit set.
 *
 *      distance of a block        1    2    3    4    5           6 ranks
 *      level 0: to rank + 1       x         x         x           one message with the blocks of distances 1, 3, 5
 *      level 1: to rank + 2            x    x                     one message with 2, 3
 *      level 2: to rank + 4                      x    x           one message with 4, 5
 *
 *      IN of rank+d ──▶ TMP of d          first, for all distances d
 *      TMP of a set ──▶ rank + 2^k        at level k, for all d whose bit k is set. The blocks from rank − 2^k take the places
 *      TMP of a set ◀── rank − 2^k        of these: they have the same hops before them.
 *      TMP of d ──▶ OUT of rank−d         last
 *
 * A rank sends ⌈log2 n⌉ messages, for any n. The direct algorithm sends n−1. But here a block is sent once for each bit that is set in
 * its distance, log2 n / 2 times on average. So this algorithm is for small blocks and many ranks. A connection needs one slot.
 * After: J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", IEEE
 * Trans. Parallel Distrib. Syst. 8 (1997), the index operation with radix 2.
 */
#include "program/program.h"

/* How many distances below n have this bit set? */
static int count_with(int n, int bit) {
    int whole = n / (2 * bit), rest = n % (2 * bit);
    return whole * bit + (rest > bit ? rest - bit : 0);
}

void alltoall_bruck_build(struct prog *prog) {
    int n = prog->nranks, rank = prog->rank;
    struct run distances = ROW(0, n), targets = ROW(rank, n);
    struct run sources = {.first = rank, .count = n, .stride = -1, .group = 1};

    prog_tmp(prog, n);
    prog_worker(prog);
    prog_step(prog, .local = IN_RUN(targets), .store = TMP_RUN(distances));
    for (int bit = 1; bit < n; bit *= 2) {
        struct run set = {.first = bit, .count = count_with(n, bit), .stride = 2 * bit, .group = bit};
        prog_step(prog, .local = TMP_RUN(set), .length_of = IN_RUN(set), .send = PEER(rank + bit));
        prog_step(prog, .recv = PEER(rank - bit), .length_of = IN_RUN(set), .store = TMP_RUN(set));
    }
    prog_step(prog, .local = TMP_RUN(distances), .store = OUT_RUN(sources));
}
