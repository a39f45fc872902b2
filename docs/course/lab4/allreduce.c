/* SPDX-License-Identifier: Apache-2.0
 *
 * Lab 4: an allreduce by recursive doubling, for 2, 4, 8, … ranks.
 *
 * A tree goes up and down again. Can it go up alone, so that all ranks know the sum at the top? At each level two ranks swap
 * what they know, and both add it up:
 *
 *      rank          0       1       2       3
 *      level 0       ╰── ◀▶ ─╯       ╰── ◀▶ ─╯        now both know the sum of 2
 *      level 1       ╰────── ◀▶ ─────╯                now all know the sum of 4
 *                            ╰────── ◀▶ ─────╯
 *
 * This program does level 0 only. So it is right for 2 ranks.
 */
#include "check/program.h"

void lab_build(struct prog *prog) {
    struct peers partner = PEER(prog->rank ^ 1);

    prog_worker(prog);
    prog_step(prog, .local = IN(0), .send = partner, .copied = true);
    prog_step(prog, .recv = partner, .local = IN(0), .finish = true, .store = OUT(0));
}
