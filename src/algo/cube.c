/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ranks are core ranks, and which are extra ranks. cube.h has the picture.
 */
#include "algo/cube.h"

struct cube cube_of(const struct prog *prog) {
    int position = prog_shape_position(prog->shape, prog->rank);
    struct cube cube = {.nranks = 1};
    while (cube.nranks <= prog->nranks / 2)
        cube.nranks *= 2;
    cube.nextras = prog->nranks - cube.nranks;
    bool paired = position < 2 * cube.nextras;
    cube.self = paired ? position / 2 : position - cube.nextras;
    cube.extra = paired && position % 2 == 1;
    return cube;
}

int cube_rank(const struct prog *prog, const struct cube *cube, int number) {
    return prog_shape_rank(prog->shape, number < cube->nextras ? 2 * number : number + cube->nextras);
}

int cube_extra(const struct prog *prog, const struct cube *cube, int number) {
    return number < cube->nextras ? prog_shape_rank(prog->shape, 2 * number + 1) : -1;
}
