/* SPDX-License-Identifier: Apache-2.0
 *
 * Atlas → graph and places → rings → orders of ranks. A pure function: whatever all ranks must agree on follows from here.
 */
#include "plan/map.h"

#include "base/log.h"
#include "plan/import.h"
#include "base/memory.h"
#include "plan/atlas.h"
#include "topo/print_rings.h"

#include <stdlib.h>
#include <string.h>

/* FNV-1a. */
static uint64_t hash_atlas(const unsigned char *bytes, size_t size) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* A machine that the search does not take is no reason to fail: ranks then go by their numbers, everywhere. */
static enum collet_result find_rings(struct map *map) {
    enum collet_result result = topo_search(map->topo, map->nranks, map->place, &map->rings);
    if (result != COLLET_ERR_INVALID_ARGUMENT)
        return result;
    log_info(GRAPH, "no rings over this machine: %s", err_last());
    return COLLET_SUCCESS;
}

enum collet_result map_create(const struct peer_info *peers, int nranks, const void *atlas, size_t size,
                              struct map **map_p) {
    struct map *map;
    COLLET_TRY(memory_get(&map, 1, sizeof *map, "no memory for a map of %d ranks", nranks));
    map->nranks = nranks;
    map->hash = hash_atlas(atlas, size);
    map->place = arena_get(&map->arena, (size_t)nranks, sizeof *map->place);
    map->facts = arena_get(&map->arena, (size_t)nranks, sizeof *map->facts);
    enum collet_result result = arena_check(&map->arena, "no memory for the places of %d ranks", nranks);
    if (result == COLLET_SUCCESS)
        result = atlas_read(atlas, size, peers, nranks, &map->topo, map->place, map->facts, &map->costs);
    if (result == COLLET_SUCCESS)
        result = find_rings(map);
    if (result == COLLET_SUCCESS)
        *map_p = map;
    else
        map_destroy(map);
    return result;
}

void map_destroy(struct map *map) {
    if (map == NULL)
        return;
    import_destroy(map->imported);
    topo_rings_destroy(map->rings);
    topo_destroy(map->topo);
    arena_free(&map->arena);
    free(map);
}

/* ---- orders ---- */

int map_orders(const struct map *map) { return map->rings == NULL ? 1 : map->rings->nrings; }

/* All ranks, host by host, each along the ring's route through it. */
static void list_along(const struct topo_rings *rings, int ring, int *along) {
    for (int h = 0; h < rings->nhosts; h++) {
        bool backwards;
        const int *route = topo_route_of(rings, ring, h, &backwards)->order;
        for (int i = 0; i < topo_nlocal(rings, h); i++)
            *along++ = topo_rank_of(rings, h, route[i]);
    }
}

static bool has_gpus(const struct map *map) {
    for (int rank = 0; rank < map->nranks; rank++)
        if (map->topo->nodes[map->place[rank]].kind == TOPO_GPU)
            return true;
    return false;
}

enum collet_result map_shape(const struct map *map, const struct peer_info *peers, int order,
                             struct prog_shape *shape) {
    struct arena arena SCOPED_ARENA = {0};
    int *node_of = arena_get(&arena, (size_t)map->nranks, sizeof *node_of);
    int *along = arena_get(&arena, (size_t)map->nranks, sizeof *along);
    COLLET_TRY(arena_check(&arena, "no memory to order %d ranks", map->nranks));
    for (int rank = 0; rank < map->nranks; rank++)
        node_of[rank] = peers[rank].node;
    if (map->rings != NULL)
        list_along(map->rings, order, along);
    COLLET_TRY(prog_shape_init_along(shape, map->nranks, node_of, map->rings != NULL ? along : NULL));
    shape->zigzag = map->rings != NULL && map->rings->zigzag;
    shape->chains = has_gpus(map);
    return COLLET_SUCCESS;
}

/* ---- links ---- */

static int rails_through(const struct topo_crossing *crossing) {
    int nrails = 0;
    for (int r = 0; r < crossing->nroutes; r++) {
        bool met = crossing->routes[r].nic_in < 0;
        for (int before = 0; before < r; before++)
            met = met || crossing->routes[before].nic_in == crossing->routes[r].nic_in;
        nrails += !met;
    }
    return nrails;
}

int map_rails_of(const struct topo_rings *rings) {
    int nrails = 1;
    for (int c = 0; rings != NULL && c < rings->ncrossings; c++) {
        int through = rails_through(&rings->crossings[c]);
        nrails = through > nrails ? through : nrails;
    }
    return nrails;
}

int map_rails(const struct map *map) { return map_rails_of(map->rings); }

bool map_takes_turns(const struct map *map) {
    for (int rank = 0; rank < map->nranks; rank++)
        if (map->facts[rank].turns)
            return true;
    return false;
}

bool map_ties(const struct map *map, int nchannels) {
    int nrails = map_rails(map);
    return nrails > 1 && nchannels % nrails == 0;
}

/* ---- the log ---- */

static void print_distance(const struct map *map, FILE *out) {
    int nfar = 0;
    for (int h = 0; h < map->topo->nhosts; h++) {
        bool far = false;
        for (int rank = 0; rank < map->nranks; rank++)
            far |= map->facts[rank].far && map->topo->nodes[map->place[rank]].host == h;
        nfar += far;
    }
    fprintf(out, "CPUs far from each other on %d of %d host%s\n", nfar, map->topo->nhosts,
            map->topo->nhosts == 1 ? "" : "s");
}

static enum collet_result print_all(const struct map *map, FILE *out) {
    topo_print(map->topo, out);
    print_distance(map, out);
    if (map->rings == NULL)
        return COLLET_SUCCESS;
    COLLET_TRY(topo_print_rings(map->rings, out));
    return topo_print_bandwidth(map->rings, out);
}

void map_log(const struct map *map) {
    char *text = NULL, *rest;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return;
    enum collet_result result = print_all(map, out);
    fclose(out);
    if (result == COLLET_SUCCESS)
        for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
            log_info(GRAPH, "map: %s", line);
    free(text);
}
