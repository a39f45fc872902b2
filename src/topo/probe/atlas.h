/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of a communicator's nodes, and what things cost there, as bytes that travel:
 *
 *      │ counts │ costs │ shape 0: bytes │ shape 1: bytes │ … │ node 0: its shape, facts, places of its ranks │ node 1 │ …
 *
 * A shape is a host's graph (topo_share()); nodes that are equal share one. A place is a node of that graph. Nodes come in
 * the order of their lowest ranks, and ranks of a node by number.
 */
#ifndef COLLET_TOPO_PROBE_ATLAS_H
#define COLLET_TOPO_PROBE_ATLAS_H

#include "boot/boot.h"
#include "layers/tuner/costs.h"
#include "plan/map.h"
#include "topo/probe/topo.h"

/* What the atlas has about one node of the communicator. */
struct atlas_node {
    const char *graph; /* as text */
    size_t graph_bytes;
    int nlocal;
    struct node_facts facts;
    const int32_t *place; /* [nlocal] */
};

/* Writes an atlas. The caller frees the bytes with free(). */
enum collet_result atlas_pack(const struct atlas_node *nodes, int nnodes, const struct cost_table *costs,
                              void **atlas_p, size_t *size_p);

/* The costs, the graph of all nodes, host h being the node with the h-th lowest rank, where on it each rank is
 * (place[nranks]), and what was found out about its node (facts[nranks]). Errors: INTERNAL if the atlas does not fit the ranks that there are, INVALID_ARGUMENT if a
 * graph is none, NO_MEMORY. */
enum collet_result atlas_read(const void *atlas, size_t size, const struct peer_info *peers, int nranks,
                              struct topo **topo_p, int *place, struct node_facts *facts, struct cost_table *costs);

#endif
