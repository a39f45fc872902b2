/* SPDX-License-Identifier: Apache-2.0
 *
 * The map of a communicator: in what orders its ranks may stand, and what is known of their nodes. Equal on all ranks. Who makes it?
 * The layer "topology" does (topo/probe/survey.h), and keeps more behind it; without it the core makes a plain one.
 */
#ifndef COLLET_PLAN_MAP_H
#define COLLET_PLAN_MAP_H

#include "boot/boot.h"
#include "program/program.h"

/* Facts about a node, found by its lowest rank. All but the last two are 0 or 1. */
struct node_facts {
    uint32_t far;           /* its CPUs are far from each other (distance.h) */
    uint32_t kernel_copies; /* copies by the kernel are faster than slots (kernel_copies.h) */
    uint32_t joined;        /* LL128 works between all GPUs of its ranks (nvlink.h) */
    uint32_t blocks;        /* blocks that each GPU of its ranks runs at once; 0: no GPUs */
    uint32_t
        turns; /* how many processes a process waits for that has had its turn on a GPU, at most; 0: none takes turns */
};

struct map {
    int nranks;
    int norders;                /* number of rank orders: channel c uses order c mod norders; at least 1 */
    int nrails;                 /* number of adapters per node that carry rings between nodes; at least 1 */
    bool turns;                 /* processes of some node take turns on a GPU */
    struct node_facts *facts;   /* [nranks]: facts about the rank's node */
    struct prog_shape *shapes;  /* [norders]: ranks in each order, as algorithms see them */
    struct algorithm *imported; /* from rank 0's COLLET_PROGRAM; NULL: none */
};

/* Is each of nchannels channels tied to the adapter of its ring (conn.h)? Yes, if every such adapter gets the same number of channels.
 * Otherwise all connections use all adapters, which shares them better. */
static inline bool map_ties(const struct map *map, int nchannels) {
    return map->nrails > 1 && nchannels % map->nrails == 0;
}

/* A map with one order: by rank, node by node. Errors: NO_MEMORY. */
enum collet_result map_create(const struct peer_info *peers, int nranks, struct map **map_p);
void map_destroy(struct map *map); /* frees the result of map_create(); NULL is fine */

#endif
