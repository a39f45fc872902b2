/* SPDX-License-Identifier: Apache-2.0
 *
 * The map of a communicator: the orders in which its ranks may stand, and facts about their nodes. The map is equal on all ranks. The
 * layer "topology" makes it (topo/probe/survey.h), and keeps more data behind it. Without the layer the core makes a plain map.
 */
#ifndef COLLET_PLAN_MAP_H
#define COLLET_PLAN_MAP_H

#include "boot/boot.h"
#include "program/program.h"

/* Facts about a node. Its lowest rank finds them. All but the last two are 0 or 1. */
struct node_facts {
    uint32_t far;           /* 1: its CPUs are far from each other (host_find.h) */
    uint32_t measured;      /* 1: the speed of its CPUs was measured, with all CPUs at once */
    uint32_t kernel_copies; /* 1: copies by the operating system are faster than slots */
    uint32_t joined;        /* 1: LL128 works between all GPUs of its ranks (nvlink.h) */
    uint32_t blocks;        /* Number of blocks that each GPU of its ranks runs at once; 0: its ranks are on no GPU */
    uint32_t turns;         /* Maximum number of processes that take turns on one of its GPUs; 0: none take turns */
};

struct map {
    int nranks;
    int norders;                /* Number of orders of ranks, at least 1. Channel c uses order c mod norders */
    int nrails;                 /* Number of adapters per node that carry rings between nodes, at least 1 */
    bool turns;                 /* True: processes of some node take turns on a GPU */
    struct node_facts *facts;   /* [rank]: facts about the rank's node */
    struct prog_shape *shapes;  /* [order]: ranks in this order, as algorithms see them */
    struct algorithm *imported; /* The algorithm of rank 0's COLLET_PROGRAM; NULL: there is none */
};

/* Is each of nchannels channels tied to the adapter of its ring (conn.h)? Yes, if every such adapter gets the same number of channels.
 * Otherwise all connections use all adapters, which spreads the load better. */
static inline bool map_ties(const struct map *map, int nchannels) {
    return map->nrails > 1 && nchannels % map->nrails == 0;
}

/* Creates a map with one order: node by node, and by rank inside a node. Errors: NO_MEMORY. */
enum collet_result map_create(const struct peer_info *peers, int nranks, struct map **map_p);
void map_destroy(struct map *map); /* Frees the result of map_create(). NULL is fine */

#endif
