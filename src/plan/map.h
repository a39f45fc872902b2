/* SPDX-License-Identifier: Apache-2.0
 *
 * The map of a communicator: the graph of its nodes fused into one, where on it every rank is, and the rings over it. All
 * ranks make it of the same bytes, the atlas, which a survey (survey.h) has brought to each of them:
 *
 *      atlas   │ counts │ shape 0: bytes │ shape 1: bytes │ … │ node 0: its shape, places of its ranks │ node 1 │ …
 *
 * A shape is a host's graph (topo_pack()); nodes that are equal share one. A place is a node of that graph. Nodes come in
 * the order of their lowest ranks, and ranks of a node by number.
 */
#ifndef COLLET_PLAN_MAP_H
#define COLLET_PLAN_MAP_H

#include "boot/boot.h"
#include "program/program.h"
#include "topo/search.h"

struct map {
    int nranks;
    struct topo *topo;        /* host h: the node of the communicator with the h-th lowest rank */
    int *place;               /* [nranks]: node of the graph */
    struct topo_rings *rings; /* NULL: none were found, the log says why */
    uint64_t hash;            /* of the atlas */
};

/* One node of the communicator, as the atlas has it. */
struct map_node {
    const void *graph; /* packed */
    size_t graph_bytes;
    int nlocal;
    const int32_t *place; /* [nlocal] */
};

/* The atlas of these nodes; the bytes are the caller's to free(). */
enum collet_result map_pack(const struct map_node *nodes, int nnodes, void **atlas_p, size_t *size_p);

/* Of the same bytes, the same map on every rank. Errors: INTERNAL if they do not fit the ranks that there are. */
enum collet_result map_create(const struct peer_info *peers, int nranks, const void *atlas, size_t size,
                              struct map **map_p);
void map_destroy(struct map *map); /* NULL is fine */

/* How many orders of ranks there are to choose from: one for each ring, at least one. */
int map_orders(const struct map *map);
/* One of them as a shape; channels take them in turn. */
enum collet_result map_shape(const struct map *map, const struct peer_info *peers, int order, struct prog_shape *shape);

/* How many adapters of a node carry rings, where there are several nodes; at least 1. */
int map_rails(const struct map *map);

/* What the network between two ranks on different nodes carries, in GB/s, by the fastest adapter of each; 0: the speed of
 * an adapter is not known. */
double map_net_gbps(const struct map *map, int a, int b);

/* Graph, rings, trees and bandwidth to the log, line by line. */
void map_log(const struct map *map);

#endif
