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
 *
 * What a step lends (layers/memory/loan.h), a worker of another rank reads in this rank's memory, at its own step. Whoever writes there
 * must know that this step is over, too.
 *
 * What lands early, a worker of another rank writes in this rank's memory, at any time from its own step on until the message is
 * received:
 *
 *      worker a   1 ──── 2 use X ──── 3 receive: it is in X         b may write X from its step 1 on, and does not know by then
 *      worker b        1 send ──────────▲                           that a is past 2: X is used while it is written
 */
#ifndef COLLET_LAYERS_VERIFIER_ORDER_H
#define COLLET_LAYERS_VERIFIER_ORDER_H

#include "base/memory.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct order_place {
    int32_t writer; /* the last worker that wrote here, −1: none … */
    uint32_t wrote; /* … and at which of its steps */
    int32_t loan;   /* the newest of its loans; −1: none */
};

struct order_loan {
    size_t place;
    int32_t reader;
    uint32_t read_at; /* step of the reader; 0: not yet */
    int32_t older;    /* of the same place */
};

struct order {
    size_t nworkers, group; /* all workers; most workers of one rank */
    struct arena arena;     /* has the arrays */
    uint32_t *clocks;       /* [worker][worker] */
    uint32_t *carried;      /* [slot][worker]: what the message in a slot knows */
    struct order_place *places;
    uint32_t *read_at; /* [place][worker of the rank]: step of its last read */
    size_t nplaces;
    struct order_loan *loans;
    int nloans, loans_room;
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

/* A place is lent to the worker `reader`. Returns the number of the loan; −1: no memory. Then the reader takes it. */
int order_lend(struct order *order, size_t place, int reader);
void order_take(struct order *order, int loan);

/* Does one of the workers first … first+count−1 know that the loan was read? */
bool order_is_over(struct order *order, int loan, int first, int count);

/* The message in the slot may land in a place of its receiver's memory as soon as it is sent. Returns a worker that may still use
 * the place then: the sender does not know better. −1: there is none. */
int order_land(const struct order *order, size_t slot, int first, size_t place);

/* Does the worker know that the sender's step is over in which the message in the slot was sent? */
bool order_has_heard(struct order *order, int worker, size_t slot, int sender);

#endif
