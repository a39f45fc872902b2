/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/level.h"
#include "common/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct world worlds[WORLD_COUNT] = {
    [WORLD_THREADS] = {"threads", "", 0},
    [WORLD_SHM] = {"processes over shm", "shm", 1},
    [WORLD_TCP] = {"processes over tcp", "tcp", 1},
    [WORLD_THREADS_TCP] = {"threads over tcp", "tcp", 0},
    [WORLD_MIXED] = {"processes of two threads", "", 2},
};

static const char *list_variables(const char *const *variables, char *list, size_t room) {
    list[0] = '\0';
    for (const char *const *v = variables; v != NULL && *v != NULL; v += 2)
        snprintf(list + strlen(list), room - strlen(list), " %s=%s", v[0], v[1]);
    return list;
}

void world_run(const struct world *world, int nranks, const char *const *variables,
               void (*run)(struct ranks *ranks, int rank), void *argument) {
    char why[RANKS_TEXT_BYTES], list[256];
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
        fail_msg("%d ranks as %s%s: %s", nranks, world->name, list_variables(variables, list, sizeof(list)), why);
}

void world_run_all(unsigned exclude, int nranks, const char *const *variables,
                   void (*run)(struct ranks *ranks, int rank), void *argument) {
    int nworlds = level_now() == LEVEL_FAST ? WORLD_TCP + 1 : WORLD_COUNT;
    for (int k = 0; k < nworlds; k++)
        if (!(exclude & WORLD_NO_THREADS) || worlds[k].ranks_per_process == 1)
            world_run(&worlds[k], nranks, variables, run, argument);
}
