/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of algorithms, made from the table in ../program/registry.h. Printers, tests and the tuner walk this list. The file
 * <collective>_<name>.c defines the function <collective>_<name>_build().
 */
#include "program/program.h"
#include "program/registry.h"
#include "seams/many.h"

#include <string.h>

/* Conditions: for which shapes does an algorithm work? Each has the condition as a function and in words. An algorithm has a maximum number
 * of ranks if its steps or connections grow with the number of ranks. */
static bool up_to_64(const struct prog_shape *shape) { return shape->nranks <= 64; }
static bool up_to_256(const struct prog_shape *shape) { return shape->nranks <= 256; }
static bool many_apply_to_256(const struct prog_shape *shape) { return many_apply(shape) && up_to_256(shape); }

#define ANYWHERE NULL, "any number of ranks"
#define UP_TO_64 up_to_64, "up to 64 ranks"
#define UP_TO_256 up_to_256, "up to 256 ranks"
/* Conditions for algorithms of the layer "many". Without this layer they apply to no shape. */
#define MANY many_apply, "any number of ranks"
#define MANY_UP_TO_256 many_apply_to_256, "up to 256 ranks"
#define ON_RAILS rails_apply, "2 or more nodes of equally many ranks, 2 to 64"

#define X(COLLECTIVE, collective, name, where, connects, order, about)                                                 \
    void collective##_##name##_build(struct prog *prog);
ALGORITHMS(X)
#undef X

const struct algorithm algorithms[] = {
#define X(COLLECTIVE, collective, name, where, connects, order, about)                                                 \
    {#name, PROG_##COLLECTIVE, collective##_##name##_build, where, PROG_##connects, PROG_##order, about, 0, NULL},
    ALGORITHMS(X)
#undef X
        {.name = NULL},
};
_Static_assert(sizeof(algorithms) / sizeof(*algorithms) - 1 <= ALGORITHMS_MAX, "arrays by index hold all algorithms");

const struct algorithm *algorithm_find(enum prog_collective collective, const char *name) {
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        if (a->collective == collective && strcmp(a->name, name) == 0)
            return a;
    return NULL;
}
