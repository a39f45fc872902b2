/* SPDX-License-Identifier: Apache-2.0
 *
 * An atlas: all that is known of a communicator's nodes, and of the costs of the cost model, as bytes that rank 0 sends to all ranks:
 *
 *      │ counts │ costs │ shape 0: bytes │ shape 1: bytes │ … │ node 0: its shape, facts, places of its ranks │ node 1 │ …
 *
 * A shape is a host's graph (topo_share()). Equal nodes share one shape. A place is a node of this graph. The nodes of the communicator
 * stand in the order of their lowest ranks, and the ranks of a node by number.
 */
#ifndef COLLET_TOPO_PROBE_ATLAS_H
#define COLLET_TOPO_PROBE_ATLAS_H

#include "boot/boot.h"
#include "layers/tuner/costs.h"
#include "plan/map.h"
#include "topo/probe/topo.h"

/* One node of the communicator, as the atlas describes it. */
struct atlas_node {
    const char *graph; /* The host's graph as text. */
    size_t graph_bytes;
    int nlocal;
    struct node_facts facts;
    struct host_speed speed; /* Speed of the host, as measured there. The atlas does not contain it. */
    const int32_t *place;    /* [nlocal]: node of the graph where each rank is. */
};

/* Writes an atlas. The caller frees the bytes with free(). */
enum collet_result atlas_pack(const struct atlas_node *nodes, int nnodes, const struct cost_table *costs,
                              void **atlas_p, size_t *size_p);

/* Reads an atlas. Gives the costs, the graph of all nodes, the place of each rank in this graph (place[nranks]), and what
 * was found out about each rank's node (facts[nranks]). Host h of the graph is the node with the h-th lowest rank. Errors:
 * INTERNAL if the atlas does not fit the ranks of the communicator, INVALID_ARGUMENT if a graph in it cannot be read,
 * NO_MEMORY. */
enum collet_result atlas_read(const void *atlas, size_t size, const struct peer_info *peers, int nranks,
                              struct topo **topo_p, int *place, struct node_facts *facts, struct cost_table *costs);

#endif
