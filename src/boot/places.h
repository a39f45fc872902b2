/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of a communicator as places of a tree: which stands where, and which to connect to.
 * Only arithmetic: nothing here sends anything.
 */
#ifndef COLLET_BOOT_PLACES_H
#define COLLET_BOOT_PLACES_H

#include "base/memory.h"
#include "boot/table.h"

#define TREE_ARITY 8

struct edge;

/* A process. Its number (place) counts processes by lowest rank, so rank 0 is in place 0. The parent of place p is (p−1) / 8. */
struct place {
    int lowest_rank, pid;
    uint64_t process[2];
    struct address_set listener;
    struct edge *edge;   /* edge of the tree; NULL: not connected */
    struct link *link;   /* letters to it, and of it (link.h); NULL: none yet */
    bool gone;           /* do not connect to it any more */
    uint64_t awaited_ns; /* time since which it should connect to us; 0: it need not */
    uint64_t accuses_ns; /* time since which it says that its parent is lost, to which we have an edge; 0: never */
};

struct places {
    struct arena arena; /* owns the arrays */
    int count, self;
    struct place *list;
    int *of_rank;
};

/* Creates the places of all ranks' processes. */
enum collet_result places_create(struct places *places, const struct card *cards, int nranks);
/* Creates the places from this process's seat, which has their number and the parent. */
enum collet_result places_create_seat(struct places *places, const struct seat *seat, int nranks);
/* Fills in the rest from the table. REMOTE, without a text: the table contradicts the seat, or what connected processes said.
 * NO_MEMORY. */
enum collet_result places_fill(struct places *places, const struct card *cards, int nranks);
void places_destroy(struct places *places); /* does nothing if zeroed */

/* The original parent of a place; −1: it is the root. */
int places_parent(int place);

/* The parent of a place if some places are gone: its nearest ancestor that is not gone; if all are, the lowest place before it that
 * is not gone. −1: it is the root. */
int places_choose_parent(const struct places *places, int of);

/* Are the edges to all children connected? A child that has already left counts too. */
bool places_children_connected(const struct places *places);

#endif
