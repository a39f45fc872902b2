/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "topology": ranks stand in their order, node by node.
 */
#include "plan/survey.h"
#include "topo/sysfs.h"

#include <stdlib.h>

struct survey {
    int nranks;
};
enum collet_result survey_create(struct boot *boot, const struct config *config, const char *busid, int nranks, int rank, struct survey **survey_p) {
    (void)boot; (void)config; (void)busid; (void)rank;
    COLLET_TRY(memory_get(survey_p, 1, sizeof **survey_p, "no memory for a survey"));
    (*survey_p)->nranks = nranks;
    return COLLET_SUCCESS;
}
void survey_destroy(struct survey *survey) { free(survey); }
enum collet_result survey_try(struct survey *survey, struct map **map_p) {
    struct map *map;
    COLLET_TRY(memory_get(&map, 1, sizeof *map, "no memory for a map"));
    map->nranks = survey->nranks;
    map->place = calloc((size_t)map->nranks, sizeof(int));
    map->facts = calloc((size_t)map->nranks, sizeof(*map->facts));
    *map_p = map;
    return COLLET_SUCCESS;
}
void map_destroy(struct map *map) {
    if (map != NULL) {
        free(map->place);
        free(map->facts);
        free(map);
    }
}
int map_orders(const struct map *map) { (void)map; return 1; }
int map_rails(const struct map *map) { (void)map; return 1; }
bool map_ties(const struct map *map, int nchannels) { (void)map; (void)nchannels; return false; }
bool map_takes_turns(const struct map *map) { (void)map; return false; }
void map_log(const struct map *map) { (void)map; }
enum collet_result map_shape(const struct map *map, const struct peer_info *peers, int order, struct prog_shape *shape) {
    int node_of[map->nranks];
    (void)order;
    for (int rank = 0; rank < map->nranks; rank++)
        node_of[rank] = peers[rank].node;
    return prog_shape_init(shape, map->nranks, node_of);
}
const char *topo_node_name(const struct topo *topo, int node, char *text) { (void)topo; (void)node; text[0] = 0; return text; }
int topo_nic_towards(const struct topo_rings *a, int b, int c, int d) { (void)a; (void)b; (void)c; (void)d; return -1; }
int topo_nic_of_message(const struct topo_rings *a, int b, int c, int d, int e) { (void)a; (void)b; (void)c; (void)d; (void)e; return -1; }
bool topo_find_interface(const char *nic, const char *root, char interface[TOPO_NAME_BYTES]) { (void)nic; (void)root; interface[0] = '\0'; return false; }
