/* SPDX-License-Identifier: Apache-2.0
 *
 * What layers do at certain moments of the core. The core goes through the list of all layers then, and does not know which there are.
 * A slot is NULL if the layer has nothing to do at that moment.
 *
 *    ranks of a process    rank_begin … ─▶ hub_begin ─▶ hub_hear … ─▶ hub_end ─▶ hub_free
 *    a communicator        comm_join … ─▶ comm_open ─▶ comm_join … ─▶ (comm_failed) ─▶ comm_close ─▶ comm_free
 *
 * Layers begin in the order of mk/layers.mk, and end in the reverse order: each may rely on those before it.
 */
#ifndef COLLET_SEAMS_LAYER_H
#define COLLET_SEAMS_LAYER_H

#include "collet.h"

#include <stdbool.h>
#include <stdio.h>

struct boot;
struct collet_comm;
struct hub;
struct letter;

struct layer {
    /* ---- the ranks of a process in one communicator, which share a hub ---- */

    enum collet_result (*rank_begin)(struct boot *boot); /* in the thread that creates the rank */
    void (*hub_begin)(struct hub *hub);                  /* in the watch thread, as hub_end */
    void (*hub_end)(struct hub *hub);
    void (*hub_free)(struct hub *hub); /* no rank or thread uses the hub any more */

    /* A letter for a rank of this process has come. True: it is for this layer, not for the rank. Then *answer is sent back (NULL:
     * nothing). The caller keeps the letter. Any thread may call it. */
    bool (*hub_hear)(struct hub *hub, const struct letter *letter, struct letter **answer);

    /* ---- a communicator; with its lock ---- */

    /* While the communicator joins, called again and again: at first without its parts (comm->chan is NULL), later with them.
     * SUCCESS: go on. IN_PROGRESS: call again. Else the communicator fails. */
    enum collet_result (*comm_join)(struct collet_comm *comm);
    enum collet_result (*comm_open)(struct collet_comm *comm); /* the communicator's parts are open */
    /* It has failed; the thread that drives its calls tells. Or joining is given up for lack of memory, with the thread's last error. */
    void (*comm_failed)(struct collet_comm *comm);
    /* It ends, in any state. False: something still uses the memory of its parts, which is then not freed. */
    bool (*comm_close)(struct collet_comm *comm);
    void (*comm_free)(struct collet_comm *comm); /* its parts are closed */

    /* Prints facts about a communicator that is ready. Another thread may be driving its calls. */
    void (*comm_print)(const struct collet_comm *comm, FILE *out);
};

extern const struct layer *const layers[];
extern const int nlayers;

#endif
