/* SPDX-License-Identifier: Apache-2.0
 *
 * The ways in which the ranks of a test can live, one rank a thread each: for tests that do the same in all of them.
 */
#ifndef COLLET_TESTS_WORLD_H
#define COLLET_TESTS_WORLD_H

#include "common/ranks.h"

struct world {
    const char *name;
    const char *transport; /* COLLET_TRANSPORT; "" for any */
    int ranks_per_process; /* 0: all in one */
};

enum { WORLD_THREADS, WORLD_SHM, WORLD_TCP, WORLD_THREADS_TCP, WORLD_MIXED, WORLD_COUNT };
extern const struct world worlds[WORLD_COUNT];

/* Runs nranks ranks in each world (at LEVEL_FAST in the first three) that is not excluded, with these variables set (a
 * list NAME, value … NULL, or NULL), and fails the cmocka test if a rank fails. */
#define WORLD_NO_THREADS 1u /* excludes worlds where ranks share a process */
void world_run_all(unsigned exclude, int nranks, const char *const *variables,
                   void (*run)(struct ranks *ranks, int rank), void *argument);

/* The same in one world. */
void world_run(const struct world *world, int nranks, const char *const *variables,
               void (*run)(struct ranks *ranks, int rank), void *argument);

#endif
