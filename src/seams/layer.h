/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of layers that the core calls at certain moments. At each moment the core goes through the list of all layers, and does
 * not know which layers there are. A function pointer is NULL if the layer has nothing to do at that moment.
 *
 *    ranks of a process    rank_begin … ─▶ hub_begin ─▶ hub_hear … ─▶ hub_end ─▶ hub_free
 *    a communicator        comm_join … ─▶ comm_open ─▶ comm_join … ─▶ (comm_failed) ─▶ comm_close ─▶ comm_free
 *
 * Layers begin in the order of mk/layers.mk, and end in the reverse order. So a layer may rely on the layers before it.
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

    enum collet_result (*rank_begin)(struct boot *boot); /* Called in the thread that creates the rank */
    void (*hub_begin)(struct hub *hub);                  /* Called in the watch thread, like hub_end */
    void (*hub_end)(struct hub *hub);
    void (*hub_free)(struct hub *hub); /* Called when no rank or thread uses the hub any more */

    /* Called when a letter for a rank of this process has come, by any thread. True: the letter is for this layer, not for the rank.
     * Then the caller sends *answer back (NULL: there is no answer). The caller keeps the letter. */
    bool (*hub_hear)(struct hub *hub, const struct letter *letter, struct letter **answer);

    /* ---- a communicator; the caller holds its lock ---- */

    /* Called again and again while the communicator joins: at first without its parts (comm->chan is NULL), later with them.
     * SUCCESS: this layer is done. IN_PROGRESS: call again. Any other result: the communicator fails. */
    enum collet_result (*comm_join)(struct collet_comm *comm);
    enum collet_result (*comm_open)(struct collet_comm *comm); /* Called when the communicator's parts are open */
    /* Called when the communicator has failed, by the thread that drives its calls. Also called if joining is given up for lack of memory;
     * then the calling thread's last error says so. */
    void (*comm_failed)(struct collet_comm *comm);
    /* Called when the communicator ends, in any state. False: the memory of its parts is still in use, and must not be freed. */
    bool (*comm_close)(struct collet_comm *comm);
    void (*comm_free)(struct collet_comm *comm); /* Called when the communicator's parts are closed */

    /* Prints facts about a communicator that is ready. Another thread may drive its calls at the same time. */
    void (*comm_print)(const struct collet_comm *comm, FILE *out);
};

extern const struct layer *const layers[];
extern const int nlayers;

#endif
