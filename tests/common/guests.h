/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulated guests: one process says, over as many connections, what the processes of ranks 1 … nranks−1 say while a
 * communicator is created. They share no memory with rank 0, which is real. Those that stand below it in the tree take the
 * table from it; the others only need their seats.
 */
#ifndef COLLET_TESTS_GUESTS_H
#define COLLET_TESTS_GUESTS_H

#include "collet.h"

#include <stdbool.h>
#include <stddef.h>

struct guests_result {
    int done;            /* guests that heard the end of init */
    int tables;          /* … that got a whole table, from the process of rank 0 */
    int news;            /* how often the guest that asks was told who is missing; others must not be */
    const char *trouble; /* NULL: none */
};

/* Brings them to the meeting point of this id, which is in another process, and returns when all are done, or after
 * limit_s. asks: so often the guest in the middle asks who is missing; only then the last guest sets out. */
struct guests_result guests_bring(const struct collet_unique_id *id, int nranks, int asks, int limit_s);

/* What the process of rank 0 has used until its init is complete. */
struct guests_host_cost {
    double seconds, cpu_seconds;
    size_t peak_bytes; /* resident */
    int descriptors;
};
/* Is rank 0 of nranks. False: init failed; see err_last(). */
bool guests_host(const struct collet_unique_id *id, int nranks, struct guests_host_cost *cost);

#endif
