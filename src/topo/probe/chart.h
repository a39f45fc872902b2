/* SPDX-License-Identifier: Apache-2.0
 *
 * What is behind a map: the graph of a communicator's nodes fused into one, where on it every rank is, and the rings over it. All
 * ranks make it of the same bytes, the atlas (atlas.h), which a survey has brought to each of them.
 */
#ifndef COLLET_TOPO_PROBE_CHART_H
#define COLLET_TOPO_PROBE_CHART_H

#include "base/memory.h"
#include "topo/probe/atlas.h"
#include "plan/map.h"
#include "topo/probe/search.h"

struct chart {
    struct map map;           /* the part that the core sees */
    struct arena arena;       /* has the arrays */
    struct topo *topo;        /* one graph of all nodes. Host h is the node with the h-th lowest rank */
    int *place;               /* [nranks]: node of the graph */
    struct topo_rings *rings; /* NULL: none were found, the log says why */
    struct cost_table costs;  /* rank 0's, for the cost model */
    uint64_t hash;            /* of the atlas */
};

static inline const struct chart *chart_of(const struct map *map) { return (const struct chart *)(const void *)map; }

/* Makes the map from an atlas. From the same atlas every rank makes the same map. Errors: those of atlas_read(). */
enum collet_result chart_create(const struct peer_info *peers, int nranks, const void *atlas, size_t size,
                                struct map **map_p);

void chart_destroy(struct map *map); /* NULL is fine */

/* Says in the log where the rank is on the map; `all`: also graph, rings and bandwidth, line by line. */
void chart_log(const struct map *map, int rank, bool all);

/* The number of adapters of a node that carry these rings, as in struct map. NULL: there are no rings. */
int chart_rails(const struct topo_rings *rings);

#endif
