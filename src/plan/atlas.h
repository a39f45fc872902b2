/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of a communicator's nodes, and what things cost there, as bytes that travel:
 *
 *      │ counts │ costs │ shape 0: bytes │ shape 1: bytes │ … │ node 0: its shape, facts, places of its ranks │ node 1 │ …
 *
 * A shape is a host's graph (topo_share()); nodes that are equal share one. A place is a node of that graph. Nodes come in
 * the order of their lowest ranks, and ranks of a node by number.
 */
#ifndef COLLET_PLAN_ATLAS_H
#define COLLET_PLAN_ATLAS_H

#include "boot/boot.h"
#include "plan/costs.h"
#include "topo/topo.h"

/* What its lowest rank found out about a node; 0 or 1 each but for the last two. */
struct node_facts {
    uint32_t far;           /* its CPUs from each other (distance.h) */
    uint32_t kernel_copies; /* between its processes are faster than slots (kernel_copies.h) */
    uint32_t joined;        /* the GPUs of its ranks, all of them, for LL128 (nvlink.h) */
    uint32_t blocks;        /* that each GPU of its ranks runs at once; 0: they are on none */
    uint32_t
        turns; /* how many processes a process waits for that has had its turn on a GPU, at most; 0: none takes turns */
};

/* One node of the communicator. */
struct atlas_node {
    const char *graph; /* as text */
    size_t graph_bytes;
    int nlocal;
    struct node_facts facts;
    const int32_t *place; /* [nlocal] */
};

/* The bytes are the caller's to free(). */
enum collet_result atlas_pack(const struct atlas_node *nodes, int nnodes, const struct cost_table *costs,
                              void **atlas_p, size_t *size_p);

/* The costs, the graph of all nodes, host h being the node with the h-th lowest rank, where on it each rank is
 * (place[nranks]), and what was found out about its node (facts[nranks]). Errors: INTERNAL if the atlas does not fit the ranks that there are, INVALID_ARGUMENT if a
 * graph is none, NO_MEMORY. */
enum collet_result atlas_read(const void *atlas, size_t size, const struct peer_info *peers, int nranks,
                              struct topo **topo_p, int *place, struct node_facts *facts, struct cost_table *costs);

#endif
