/* SPDX-License-Identifier: Apache-2.0
 *
 * The map of a communicator without the layer "topology": ranks stand in their order, node by node, and nothing is known of their machines.
 */
#include "plan/map.h"

#include "base/err.h"
#include "base/memory.h"

#include <stdlib.h>

static enum collet_result shape_init(struct prog_shape *shape, const struct peer_info *peers, int nranks) {
    SCOPED_FREE int *node_of = NULL;
    COLLET_TRY(memory_get(&node_of, (size_t)nranks, sizeof *node_of, "no memory to order %d ranks", nranks));
    for (int rank = 0; rank < nranks; rank++)
        node_of[rank] = peers[rank].node;
    return prog_shape_init(shape, nranks, node_of, NULL);
}

enum collet_result map_create(const struct peer_info *peers, int nranks, struct map **map_p) {
    struct map *map;
    COLLET_TRY(memory_get(&map, 1, sizeof *map, "no memory for a map"));
    *map = (struct map){.nranks = nranks, .nrails = 1};
    enum collet_result result = memory_get(&map->facts, (size_t)nranks, sizeof *map->facts, "no memory for a map");
    if (result == COLLET_SUCCESS)
        result = memory_get(&map->shapes, 1, sizeof *map->shapes, "no memory for a map");
    if (result == COLLET_SUCCESS)
        result = shape_init(map->shapes, peers, nranks);
    if (result == COLLET_SUCCESS)
        map->norders = 1;
    if (result == COLLET_SUCCESS)
        *map_p = map;
    else
        map_destroy(map);
    return result;
}

void map_destroy(struct map *map) {
    if (map == NULL)
        return;
    for (int k = 0; k < map->norders; k++)
        prog_shape_fini(&map->shapes[k]);
    free(map->shapes);
    free(map->facts);
    free(map);
}
