/* SPDX-License-Identifier: Apache-2.0
 *
 * The content of a map: one graph of all nodes of a communicator, the place of every rank on this graph, and the rings over it. All
 * ranks make the map from the same bytes, the atlas (atlas.h), which a survey has brought to each of them.
 */
#ifndef COLLET_TOPO_PROBE_CHART_H
#define COLLET_TOPO_PROBE_CHART_H

#include "base/memory.h"
#include "topo/probe/atlas.h"
#include "plan/map.h"
#include "topo/probe/search.h"

struct chart {
    struct map map;           /* The part that the core sees. It is the first field: see chart_of(). */
    struct arena arena;       /* The arena that owns the arrays. */
    struct topo *topo;        /* The graph of all nodes. Host h is the node with the h-th lowest rank. */
    int *place;               /* [nranks]: the node of the graph where the rank is. */
    struct topo_rings *rings; /* NULL: no rings were found, and the log says why. */
    struct cost_table costs;  /* Constants of the cost model: those of rank 0. */
    uint64_t hash;            /* Hash of the atlas. */
};

static inline const struct chart *chart_of(const struct map *map) { return (const struct chart *)(const void *)map; }

/* Makes the map from an atlas. From the same atlas every rank makes the same map. Errors: those of atlas_read(). */
enum collet_result chart_create(const struct peer_info *peers, int nranks, const void *atlas, size_t size,
                                struct map **map_p);

void chart_destroy(struct map *map); /* `map` may be NULL. */

/* Writes to the log where the rank is on the map. With `all`, also writes the graph, the rings and the bandwidth, line by
 * line. */
void chart_log(const struct map *map, int rank, bool all);

/* The number of NICs of a node that carry these rings, as in struct map. `rings` NULL: no rings were found. */
int chart_rails(const struct topo_rings *rings);

#endif
