/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of accesses to memory. Workers of a rank run concurrently and share its buffers. If one worker writes what another one reads,
 * the program itself must order the two, by messages that lead from the one to the other, through any ranks. One run of the programs
 * cannot show this, because a run happens in only one order. Vector clocks can show it:
 *
 *      worker a   1 ──── 2 read X ──── 3 send ─╮            each worker counts its steps and keeps, for every other
 *      worker b        1 ──── 2 ──── 3 receive ◀╯ write X   worker, the last step of it that is surely over; messages
 *                                      knows: a is past 3   carry that knowledge along. X was read at a's step 2: fine.
 *
 * Credit is not counted as a message: a program must be right with any number of slots.
 *
 * If a step lends its payload (layers/memory/loan.h), a worker of another rank reads it in this rank's memory, at its own step. A worker
 * that writes there must know that this step is over, too.
 *
 * If a payload lands early, a worker of another rank writes it in this rank's memory, at any time from its own step on until the message
 * is received:
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
    int32_t writer; /* The worker that wrote here last. −1: none. */
    uint32_t wrote; /* The step of the writer at which it wrote. */
    int32_t loan;   /* Number of the newest loan of this place. −1: none. */
};

struct order_loan {
    size_t place;
    int32_t reader;
    uint32_t read_at; /* Step of the reader at which it read. 0: it has not read yet. */
    int32_t older;    /* Number of the next older loan of the same place. −1: none. */
};

struct order {
    size_t nworkers, group; /* Number of all workers; maximum number of workers of a rank. */
    struct arena arena;     /* The arena that owns the arrays. */
    /* [worker][worker]: the last step of the second worker that the first one knows to be over. */
    uint32_t *clocks;
    uint32_t *carried; /* [slot][worker]: the clock that the message in the slot carries. */
    struct order_place *places;
    uint32_t *read_at; /* [place][worker of the rank]: step of the worker's last read. */
    size_t nplaces;
    struct order_loan *loans;
    int nloans, loans_room;
};

/* Makes the clocks of nworkers workers, which are numbered rank by rank, at most `group` per rank. False: there is no
 * memory, but order_destroy() is still necessary. */
bool order_create(struct order *order, size_t nworkers, size_t group, size_t nslots, size_t nplaces);
void order_destroy(struct order *order);

void order_step(struct order *order, int worker); /* A new step of the worker begins. */
void order_receive(struct order *order, int worker, size_t slot);
void order_send(struct order *order, int worker, size_t slot);

/* The worker accesses a place of its rank's memory. `first` is the number of that rank's first worker. Returns a worker
 * whose access to the place is not ordered against this access. −1: there is none. */
int order_read(struct order *order, int worker, int first, size_t place);
int order_write(struct order *order, int worker, int first, size_t place);

/* order_lend(): a place is lent to the worker `reader`. Returns the number of the loan. −1: there is no memory.
 * order_take(): the reader of the loan reads the place. */
int order_lend(struct order *order, size_t place, int reader);
void order_take(struct order *order, int loan);

/* Does one of the workers first … first + count − 1 know that the loan was read? */
bool order_is_over(struct order *order, int loan, int first, int count);

/* The message in the slot may land in a place of its receiver's memory as soon as it is sent. Returns a worker that may
 * still use the place at that time, as far as the sender knows. −1: there is none. */
int order_land(const struct order *order, size_t slot, int first, size_t place);

/* Does the worker know that the step in which the sender sent the message in the slot is over? */
bool order_has_heard(struct order *order, int worker, size_t slot, int sender);

#endif
