/* SPDX-License-Identifier: Apache-2.0
 *
 * Recursive doubling: at each of log2 n levels two ranks exchange their sums, and both add the two.
 *
 *      core rank     00      01      10      11
 *      level 0        ╰── ◀▶ ─╯       ╰── ◀▶ ─╯        now both know the sum of 2
 *      level 1        ╰────── ◀▶ ─────╯                now all know the sum of 4
 *                             ╰────── ◀▶ ─────╯
 *
 *      one step per level:   partner's sum + its sum ──▶ OUT, and to the partner of the next level
 *
 * No allreduce with one message per hop has fewer hops. But every hop carries the whole buffer, so this algorithm is for small
 * buffers. Both partners compute the same a + b, so all ranks get the same bits. A rank keeps its sum in OUT. If n is not a power of
 * two there are extra ranks (cube.h), which cost one hop at the beginning and one at the end. A connection needs one slot.
 * After: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", Int. J.
 * High Perform. Comput. Appl. 19 (2005), the recursive-doubling algorithm for all-reduce.
 */
#include "algo/cube.h"

#define NOBODY ((struct peers){.count = 0})
#define NOWHERE ((struct local){STEP_NONE})

static void build_extra(struct prog *prog, const struct cube *cube) {
    struct peers core = PEER(cube_rank(prog, cube, cube->self));
    prog_step(prog, .local = IN(0), .send = core);
    prog_step(prog, .recv = core, .store = OUT(0));
}

static void build_core(struct prog *prog, const struct cube *cube) {
    int extra_rank = cube_extra(prog, cube, cube->self);
    struct peers extra = extra_rank < 0 ? NOBODY : PEER(extra_rank), from = extra;
    struct local own = IN(0);
    for (int bit = 1; bit < cube->nranks; bit *= 2) {
        struct peers partner = PEER(cube_rank(prog, cube, cube->self ^ bit));
        bool adds = from.count > 0;
        /* .copied: the next step overwrites this sum in OUT while the partner may still read it. */
        prog_step(prog, .recv = from, .local = own, .store = adds ? OUT(0) : NOWHERE, .send = partner, .copied = true);
        own = adds ? OUT(0) : own;
        from = partner;
    }
    prog_step(prog, .recv = from, .local = own, .finish = true, .store = OUT(0), .send = extra);
}

void allreduce_doubling_build(struct prog *prog) {
    struct cube cube = cube_of(prog);
    prog_worker(prog);
    if (cube.extra)
        build_extra(prog, &cube);
    else
        build_core(prog, &cube);
}
