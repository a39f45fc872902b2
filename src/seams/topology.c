/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "topology": ranks stand in their order, node by node, and nothing is known of their machines.
 */
#include "seams/topology.h"

#include "base/err.h"
#include "base/memory.h"

#include <stdlib.h>

struct survey {
    int nranks;
};

enum collet_result survey_create(struct boot *boot, const struct config *config, int nranks, int rank,
                                 struct survey **survey_p) {
    (void)boot, (void)config, (void)rank;
    COLLET_TRY(memory_get(survey_p, 1, sizeof **survey_p, "no memory to survey %d ranks", nranks));
    (*survey_p)->nranks = nranks;
    return COLLET_SUCCESS;
}

void survey_destroy(struct survey *survey) { free(survey); }

enum collet_result survey_try(struct survey *survey, struct map **map_p) {
    struct map *map;
    COLLET_TRY(memory_get(&map, 1, sizeof *map, "no memory for a map"));
    *map = (struct map){.nranks = survey->nranks, .norders = 1, .nrails = 1};
    enum collet_result result = memory_get(&map->facts, (size_t)map->nranks, sizeof *map->facts, "no memory for a map");
    if (result == COLLET_SUCCESS)
        *map_p = map;
    else
        free(map);
    return result;
}

void map_destroy(struct map *map) {
    if (map != NULL)
        free(map->facts);
    free(map);
}

enum collet_result map_shape(const struct map *map, const struct peer_info *peers, int order,
                             struct prog_shape *shape) {
    SCOPED_FREE int *node_of = NULL;
    (void)order;
    COLLET_TRY(memory_get(&node_of, (size_t)map->nranks, sizeof *node_of, "no memory to order %d ranks", map->nranks));
    for (int rank = 0; rank < map->nranks; rank++)
        node_of[rank] = peers[rank].node;
    return prog_shape_init(shape, map->nranks, node_of);
}

void map_log(const struct map *map, int rank, bool all) { (void)map, (void)rank, (void)all; }

void map_interface(const struct conn *conn, char interface[ADDRESS_INTERFACE_BYTES]) {
    (void)conn;
    interface[0] = '\0';
}
