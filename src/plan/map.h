/* SPDX-License-Identifier: Apache-2.0
 *
 * The map of a communicator: the graph of its nodes fused into one, where on it every rank is, and the rings over it. All
 * ranks make it of the same bytes, the atlas (atlas.h), which a survey (survey.h) has brought to each of them.
 */
#ifndef COLLET_PLAN_MAP_H
#define COLLET_PLAN_MAP_H

#include "base/memory.h"
#include "boot/boot.h"
#include "plan/atlas.h"
#include "program/program.h"
#include "topo/search.h"

struct map {
    int nranks;
    struct arena arena;         /* has the arrays */
    struct topo *topo;          /* host h: the node of the communicator with the h-th lowest rank */
    int *place;                 /* [nranks]: node of the graph */
    struct node_facts *facts;   /* [nranks]: of its node */
    struct topo_rings *rings;   /* NULL: none were found, the log says why */
    struct cost_table costs;    /* for the cost model: rank 0's */
    uint64_t hash;              /* of the atlas */
    struct algorithm *imported; /* by COLLET_PROGRAM of rank 0; NULL: none */
};

/* Of the same atlas, the same map on every rank. Errors: those of atlas_read(). */
enum collet_result map_create(const struct peer_info *peers, int nranks, const void *atlas, size_t size,
                              struct map **map_p);
void map_destroy(struct map *map); /* NULL is fine */

/* How many orders of ranks there are to choose from: one for each ring, at least one. */
int map_orders(const struct map *map);
/* One of them as a shape; channels take them in turn. */
enum collet_result map_shape(const struct map *map, const struct peer_info *peers, int order, struct prog_shape *shape);

/* How many adapters of a node carry rings, where there are several nodes; at least 1. NULL: no rings. */
int map_rails_of(const struct topo_rings *rings);
int map_rails(const struct map *map);

/* Are nchannels channels tied to the adapters of their rings (conn.h)? They are if every adapter that carries a ring gets equally many
 * of the channels; else connections that use all adapters share them better. */
bool map_ties(const struct map *map, int nchannels);

/* Do processes of any node take turns on a GPU? */
bool map_takes_turns(const struct map *map);

/* Graph, rings, trees and bandwidth to the log, line by line. */
void map_log(const struct map *map);

#endif
