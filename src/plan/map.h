/* SPDX-License-Identifier: Apache-2.0
 *
 * The map of a communicator: in what orders its ranks may stand, and what is known of their nodes. Equal on all ranks. Who makes it?
 * The layer "topology" does (topo/probe/survey.h), and keeps more behind it; without it the core makes a plain one.
 */
#ifndef COLLET_PLAN_MAP_H
#define COLLET_PLAN_MAP_H

#include "boot/boot.h"
#include "program/program.h"

/* What its lowest rank found out about a node; 0 or 1 each but for the last two. */
struct node_facts {
    uint32_t far;           /* its CPUs from each other (distance.h) */
    uint32_t kernel_copies; /* between its processes are faster than slots (kernel_copies.h) */
    uint32_t joined;        /* the GPUs of its ranks, all of them, for LL128 (nvlink.h) */
    uint32_t blocks;        /* that each GPU of its ranks runs at once; 0: they are on none */
    uint32_t
        turns; /* how many processes a process waits for that has had its turn on a GPU, at most; 0: none takes turns */
};

struct map {
    int nranks;
    int norders;                /* of ranks, to choose from: channels take them in turn; at least 1 */
    int nrails;                 /* so many adapters of a node carry rings, if there are several nodes; at least 1 */
    bool turns;                 /* processes of some node take turns on a GPU */
    struct node_facts *facts;   /* [nranks]: of its node */
    struct prog_shape *shapes;  /* [norders]: the ranks in each order, as algorithms see them */
    struct algorithm *imported; /* by COLLET_PROGRAM of rank 0; NULL: none */
};

/* Are nchannels channels tied to the adapters of their rings (conn.h)? They are if every adapter that carries a ring gets equally many
 * of the channels; else connections that use all adapters share them better. */
static inline bool map_ties(const struct map *map, int nchannels) {
    return map->nrails > 1 && nchannels % map->nrails == 0;
}

/* Of ranks in their order, node by node. Errors: NO_MEMORY. */
enum collet_result map_create(const struct peer_info *peers, int nranks, struct map **map_p);
void map_destroy(struct map *map); /* one that map_create() has made; NULL is fine */

#endif
