/* SPDX-License-Identifier: Apache-2.0
 *
 * What is certain to happen before what. Workers of a rank run concurrently and share its buffers; what one writes and
 * another reads must be ordered by the program itself: by messages on their way from the one to the other, through
 * whatever ranks. One run of the programs cannot show that, since it happens in one order; vector clocks can:
 *
 *      worker a   1 ──── 2 read X ──── 3 send ─╮            each worker counts its steps and keeps, for every other
 *      worker b        1 ──── 2 ──── 3 receive ◀╯ write X   worker, the last step of it that is surely over; messages
 *                                      knows: a is past 3   carry that knowledge along. X was read at a's step 2: fine.
 *
 * Credit is not counted as a message: a program must be right with any number of slots.
 */
#ifndef COLLET_PROGRAM_ORDER_H
#define COLLET_PROGRAM_ORDER_H

#include "base/memory.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct order_place {
    int32_t writer; /* the last worker that wrote here, −1: none … */
    uint32_t wrote; /* … and at which of its steps */
};

struct order {
    size_t nworkers, group; /* all workers; most workers of one rank */
    struct arena arena;     /* has the arrays */
    uint32_t *clocks;       /* [worker][worker] */
    uint32_t *carried;      /* [slot][worker]: what the message in a slot knows */
    struct order_place *places;
    uint32_t *read_at; /* [place][worker of the rank]: step of its last read */
};

/* Workers are numbered rank by rank, at most `group` each. false: no memory (destroy it all the same). */
bool order_create(struct order *order, size_t nworkers, size_t group, size_t nslots, size_t nplaces);
void order_destroy(struct order *order);

void order_step(struct order *order, int worker); /* a new step of worker begins */
void order_receive(struct order *order, int worker, size_t slot);
void order_send(struct order *order, int worker, size_t slot);

/* The worker accesses a place of its rank's memory; first is the number of that rank's first worker. Returns another
 * worker whose access to the place is not ordered against this one; −1 if all is well. */
int order_read(struct order *order, int worker, int first, size_t place);
int order_write(struct order *order, int worker, int first, size_t place);

#endif
