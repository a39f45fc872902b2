/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of a communicator as places of a tree: which stands where, which to connect to, which way to send.
 * Only arithmetic: nothing here sends anything.
 */
#ifndef COLLET_BOOT_PLACES_H
#define COLLET_BOOT_PLACES_H

#include "base/memory.h"
#include "boot/table.h"

#define TREE_ARITY 8

struct edge;

/* A process. Numbered in the order of their lowest ranks, so rank 0's is place 0; place p's parent is (p−1) / 8. */
struct place {
    int lowest_rank, pid;
    uint64_t process[2];
    struct address_set listener;
    struct edge *edge;       /* NULL: we are not connected to it, as in the tree */
    struct edge *shortcut;   /* NULL: we have none to it (shortcut.h) */
    struct inquiry *sought;  /* that may become one; NULL: none is under way */
    bool answered;           /* it has sent something by that */
    bool unreachable;        /* by a shortcut */
    struct inquiry *inquiry; /* whether it lives; NULL: none is under way */
    bool gone;               /* not to be connected to any more */
    int moves;               /* how often it has come to another parent */
    uint64_t awaited_ns;     /* since when it should have come to us; 0: it need not */
    uint64_t accuses_ns;     /* since when it says that its parent is lost, to which we have an edge; 0: it does not */
};

struct places {
    struct arena arena; /* has the arrays */
    int count, self;
    struct place *list;
    int *of_rank;
};

/* Those of all ranks' processes. */
enum collet_result places_create(struct places *places, const struct card *cards, int nranks);
/* What a process's seat says: how many there are, and its parent. */
enum collet_result places_create_seat(struct places *places, const struct seat *seat, int nranks);
/* The rest, from the table. REMOTE, without a text: that contradicts the seat, or what connected processes said of themselves.
 * NO_MEMORY. */
enum collet_result places_fill(struct places *places, const struct card *cards, int nranks);
void places_destroy(struct places *places); /* harmless on a zeroed one */

/* To whom a place connects at first; −1: it is the root. */
int places_parent(int place);

/* To whom a place connects when some are gone: its nearest ancestor that is not gone; if all are, the lowest place
 * before it that is not; −1: it is the root. */
int places_choose_parent(const struct places *places, int of);

/* The neighbour in whose part of the tree `target` is; parent is the one that was chosen. −1: there is none at the
 * moment. */
int places_next_hop(const struct places *places, int parent, int target);

/* Do the edges to all children stand? A child that has left and gone already counts as well. */
bool places_children_connected(const struct places *places);

#endif
