/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that ends in order, but has not destroyed its communicators, says so: so the others can tell it from one that was
 * killed, and know its last call.
 *
 *      exit(), or return of main() ─▶ atexit functions and destructors of the program ─▶ farewell ─▶ all ranks: ENDED, its last call
 *      a signal, _exit()           ─▶ nothing: DEAD
 */
#ifndef COLLET_LAYERS_OBSERVE_FAREWELL_H
#define COLLET_LAYERS_OBSERVE_FAREWELL_H

#include "api/comm.h"

struct farewell {
    struct collet_comm *comm; /* NULL: it is in no list */
    struct farewell *next, **link;
};

/* A communicator of this process begins, and ends. */
void farewell_add(struct farewell *farewell, struct collet_comm *comm);
void farewell_remove(struct farewell *farewell);

#endif
