/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/world.h"

#include <stdlib.h>

const struct world worlds[] = {
    {"threads", "", 0},
    {"threads over tcp", "tcp", 0},
    {"processes over shm", "shm", 1},
    {"processes over tcp", "tcp", 1},
    {"processes of two threads", "", 2},
    {NULL, NULL, 0},
};

void world_run(const struct world *world, int nranks, const char *const *variables,
               void (*run)(struct ranks *ranks, int rank), void *argument) {
    char why[RANKS_TEXT_BYTES];
    int threads = world->ranks_per_process > 0 ? world->ranks_per_process : nranks;
    if (nranks % threads != 0)
        threads = 1;
    struct ranks_job job = {.processes = nranks / threads, .threads = threads, .run = run, .argument = argument};
    setenv("COLLET_TRANSPORT", world->transport, 1);
    for (const char *const *v = variables; v != NULL && *v != NULL; v += 2)
        setenv(v[0], v[1], 1);
    bool good = ranks_run(&job, why);
    for (const char *const *v = variables; v != NULL && *v != NULL; v += 2)
        unsetenv(v[0]);
    unsetenv("COLLET_TRANSPORT");
    if (!good)
        fail_msg("%d ranks as %s: %s", nranks, world->name, why);
}

void world_run_all(unsigned exclude, int nranks, const char *const *variables,
                   void (*run)(struct ranks *ranks, int rank), void *argument) {
    for (const struct world *world = worlds; world->name != NULL; world++)
        if (!(exclude & WORLD_NO_THREADS) || world->ranks_per_process == 1)
            world_run(world, nranks, variables, run, argument);
}
