/* SPDX-License-Identifier: Apache-2.0
 *
 * Recursive halving and doubling. The buffer is cut into one slice per core rank. The number of core ranks is a power of two.
 *
 *      halving                                     doubling                     4 core ranks, in binary; slice c
 *      00 ◀── 2 slices ──▶ 01                      in reverse order:            belongs to core rank c
 *      00 ◀── 1 slice ───▶ 10                      1 slice with 10,
 *                                                  2 slices with 01
 *
 *      slice 00:   01, 11 ─▶ 00, 10     10 ─▶ 00 ═▶ 10     00, 10 ═▶ 01, 11          ─▶ sum, ═▶ result
 *
 * At distance 1 a rank sends half of its slices to its partner: those whose number differs from its own in the lowest bit. It receives
 * the partner's sums of the other half. At distance 2 it does so with half of the remaining slices, and so on. Results come back in
 * reverse order. For a single slice c this is a binomial tree (binomial.h): rank v stands at place v ^ c, and one step receives
 * all children's sums of the slice. So each rank sends (n−1)/n of the buffer twice, as in a ring, in 2 log2 n hops.
 * It sends most of this to near ranks, because core ranks are numbered in the order of the shape.
 *
 * If n is not a power of two there are extra ranks (cube.h). Each sends its contribution to its core rank, slice by slice, and
 * gets the results from it.
 *
 * Each level has two workers, one for the way up and one for the way down, as binomial.h says. A connection needs one slot.
 * After: R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004, LNCS 3036: vector halving with
 * distance doubling, then vector doubling with distance halving.
 */
#include "algo/many/binomial.h"
#include "algo/cube.h"
#include "program/program.h"

/* The lane of a message is LANE_UP plus the level of the worker that receives it, or LANE_DOWN plus the level of the worker that sends
 * it. */
enum { LANE_UP = 0, LANE_DOWN = BINOMIAL_MAX_CHILDREN + 1 };

/* Lists the ranks below a core rank at place x of a slice's tree: its children, and its extra rank. Returns their number. */
static int list_below(const struct prog *prog, const struct cube *cube, int x, int *ranks) {
    int nbelow = binomial_children(cube->nranks, x, ranks);
    for (int i = 0; i < nbelow; i++)
        ranks[i] = cube_rank(prog, cube, cube->self ^ ranks[i] ^ x);
    if (cube->self < cube->nextras)
        ranks[nbelow++] = cube_extra(prog, cube, cube->self);
    return nbelow;
}

static void add_to_slice(struct prog *prog, const struct cube *cube, int level, int x) {
    int below[BINOMIAL_MAX_CHILDREN + 1], nbelow = list_below(prog, cube, x, below);
    int slice = cube->self ^ x, up = binomial_parent(x);
    struct peers sums = LISTED(below, nbelow, LANE_UP + level), results = LISTED(below, nbelow, LANE_DOWN + level);
    if (x == 0)
        prog_step(prog, .recv = sums, .local = IN(slice), .finish = true, .store = OUT(slice), .send = results);
    else
        prog_step(prog, .recv = sums, .local = IN(slice),
                  .send = PEER_LANE(cube_rank(prog, cube, slice ^ up), LANE_UP + binomial_level(cube->nranks, up)));
}

static void pass_slice(struct prog *prog, const struct cube *cube, int level, int x) {
    int below[BINOMIAL_MAX_CHILDREN + 1], nbelow = list_below(prog, cube, x, below);
    int slice = cube->self ^ x, up = binomial_parent(x);
    struct peers results = LISTED(below, nbelow, LANE_DOWN + level);
    prog_step(prog, .recv = PEER_LANE(cube_rank(prog, cube, slice ^ up), LANE_DOWN + binomial_level(cube->nranks, up)),
              .store = OUT(slice), .send = results);
}

static void build_core(struct prog *prog, const struct cube *cube) {
    int n = cube->nranks, levels = binomial_levels(n);
    for (int level = 0; level <= levels; level++) {
        prog_worker(prog);
        for (int i = binomial_count(n, level) - 1; i >= 0; i--)
            add_to_slice(prog, cube, level, binomial_place(n, level, i));
    }
    for (int level = levels - 1; level >= 0; level--) {
        prog_worker(prog);
        for (int i = 0; i < binomial_count(n, level); i++)
            pass_slice(prog, cube, level, binomial_place(n, level, i));
    }
}

static void build_extra(struct prog *prog, const struct cube *cube) {
    int n = cube->nranks, partner = cube_rank(prog, cube, cube->self);
    prog_worker(prog);
    for (int x = n - 1; x >= 0; x--)
        prog_step(prog, .local = IN(cube->self ^ x), .send = PEER_LANE(partner, LANE_UP + binomial_level(n, x)));
    prog_worker(prog);
    for (int x = 0; x < n; x++)
        prog_step(prog, .recv = PEER_LANE(partner, LANE_DOWN + binomial_level(n, x)), .store = OUT(cube->self ^ x));
}

void allreduce_halving_build(struct prog *prog) {
    struct cube cube = cube_of(prog);
    prog_slices(prog, cube.nranks);
    if (cube.extra)
        build_extra(prog, &cube);
    else
        build_core(prog, &cube);
}
