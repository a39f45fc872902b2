/* SPDX-License-Identifier: Apache-2.0
 *
 * Atlas → graph and places → rings → orders of ranks. This is a pure function, so all ranks come to the same result.
 */
#include "topo/probe/chart.h"

#include "base/log.h"
#include "layers/schedules/import.h"
#include "base/memory.h"
#include "topo/probe/print_rings.h"

#include <stdlib.h>
#include <string.h>

/* The 64-bit FNV-1a hash. */
static uint64_t hash_atlas(const unsigned char *bytes, size_t size) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* ---- orders ---- */

/* Lists all ranks, host by host. On each host they stand along the ring's route. */
static void list_along(const struct topo_rings *rings, int ring, int *along) {
    for (int h = 0; h < rings->nhosts; h++) {
        bool backwards;
        const int *route = topo_route_of(rings, ring, h, &backwards)->order;
        for (int i = 0; i < topo_nlocal(rings, h); i++)
            *along++ = topo_rank_of(rings, h, route[i]);
    }
}

static bool has_gpus(const struct chart *chart) {
    for (int rank = 0; rank < chart->map.nranks; rank++)
        if (chart->topo->nodes[chart->place[rank]].kind == TOPO_GPU)
            return true;
    return false;
}

static enum collet_result make_shape(const struct chart *chart, const struct peer_info *peers, int order,
                                     struct prog_shape *shape) {
    const struct map *map = &chart->map;
    struct arena arena SCOPED_ARENA = {0};
    int *node_of = arena_get(&arena, (size_t)map->nranks, sizeof *node_of);
    int *along = arena_get(&arena, (size_t)map->nranks, sizeof *along);
    COLLET_TRY(arena_check(&arena, "no memory to order %d ranks", map->nranks));
    for (int rank = 0; rank < map->nranks; rank++)
        node_of[rank] = peers[rank].node;
    if (chart->rings != NULL)
        list_along(chart->rings, order, along);
    COLLET_TRY(prog_shape_init(shape, map->nranks, node_of, chart->rings != NULL ? along : NULL));
    shape->zigzag = chart->rings != NULL && chart->rings->zigzag;
    shape->chains = has_gpus(chart);
    return COLLET_SUCCESS;
}

static enum collet_result make_shapes(struct chart *chart, const struct peer_info *peers) {
    struct map *map = &chart->map;
    const int norders = chart->rings == NULL ? 1 : chart->rings->nrings;
    map->shapes = arena_get(&chart->arena, (size_t)norders, sizeof *map->shapes);
    COLLET_TRY(arena_check(&chart->arena, "no memory for %d rings", norders));
    for (; map->norders < norders; map->norders++)
        COLLET_TRY(make_shape(chart, peers, map->norders, &map->shapes[map->norders]));
    return COLLET_SUCCESS;
}

/* ---- the chart ---- */

/* If the search refuses a machine, ranks go by their numbers on all ranks alike. This is no reason to fail. */
static enum collet_result find_rings(struct chart *chart) {
    enum collet_result result = topo_search(chart->topo, chart->map.nranks, chart->place, &chart->rings);
    if (result != COLLET_ERR_INVALID_ARGUMENT)
        return result;
    log_info(GRAPH, "no rings over this machine: %s", err_last());
    return COLLET_SUCCESS;
}

static bool takes_turns(const struct map *map) {
    for (int rank = 0; rank < map->nranks; rank++)
        if (map->facts[rank].turns)
            return true;
    return false;
}

static enum collet_result read_chart(struct chart *chart, const struct peer_info *peers, const void *atlas,
                                     size_t size) {
    struct map *map = &chart->map;
    chart->place = arena_get(&chart->arena, (size_t)map->nranks, sizeof *chart->place);
    map->facts = arena_get(&chart->arena, (size_t)map->nranks, sizeof *map->facts);
    COLLET_TRY(arena_check(&chart->arena, "no memory for the places of %d ranks", map->nranks));
    COLLET_TRY(atlas_read(atlas, size, peers, map->nranks, &chart->topo, chart->place, map->facts, &chart->costs));
    COLLET_TRY(find_rings(chart));
    COLLET_TRY(make_shapes(chart, peers));
    map->nrails = chart_rails(chart->rings);
    map->turns = takes_turns(map);
    return COLLET_SUCCESS;
}

enum collet_result chart_create(const struct peer_info *peers, int nranks, const void *atlas, size_t size,
                                struct map **map_p) {
    struct chart *chart;
    COLLET_TRY(memory_get(&chart, 1, sizeof *chart, "no memory for a map of %d ranks", nranks));
    chart->map.nranks = nranks;
    chart->hash = hash_atlas(atlas, size);
    enum collet_result result = read_chart(chart, peers, atlas, size);
    if (result == COLLET_SUCCESS)
        *map_p = &chart->map;
    else
        chart_destroy(&chart->map);
    return result;
}

void chart_destroy(struct map *map) {
    struct chart *chart = (struct chart *)map; /* The map is the first field of a chart. */
    if (map == NULL)
        return;
    import_destroy(map->imported);
    for (int k = 0; k < map->norders; k++)
        prog_shape_fini(&map->shapes[k]);
    topo_rings_destroy(chart->rings);
    topo_destroy(chart->topo);
    arena_free(&chart->arena);
    free(chart);
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

int chart_rails(const struct topo_rings *rings) {
    int nrails = 1;
    for (int c = 0; rings != NULL && c < rings->ncrossings; c++) {
        int through = rails_through(&rings->crossings[c]);
        nrails = through > nrails ? through : nrails;
    }
    return nrails;
}

/* ---- the log ---- */

static void print_distance(const struct chart *chart, FILE *out) {
    int nfar = 0;
    for (int h = 0; h < chart->topo->nhosts; h++) {
        bool far = false;
        for (int rank = 0; rank < chart->map.nranks; rank++)
            far |= chart->map.facts[rank].far && chart->topo->nodes[chart->place[rank]].host == h;
        nfar += far;
    }
    fprintf(out, "CPUs far from each other on %d of %d host%s\n", nfar, chart->topo->nhosts,
            chart->topo->nhosts == 1 ? "" : "s");
}

static enum collet_result print_all(const struct chart *chart, FILE *out) {
    topo_print(chart->topo, out);
    print_distance(chart, out);
    if (chart->rings == NULL)
        return COLLET_SUCCESS;
    COLLET_TRY(topo_print_rings(chart->rings, out));
    return topo_print_bandwidth(chart->rings, out);
}

static void log_lines(const struct chart *chart) {
    char *text = NULL, *rest;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return;
    enum collet_result result = print_all(chart, out);
    fclose(out);
    if (result == COLLET_SUCCESS)
        for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
            log_info(GRAPH, "map: %s", line);
    free(text);
}

void chart_log(const struct map *map, int rank, bool all) {
    const struct chart *chart = chart_of(map);
    char place[TOPO_NAME_BYTES + 16];
    log_info(GRAPH, "rank %d: %s, map %016llx", rank, topo_node_name(chart->topo, chart->place[rank], place),
             (unsigned long long)chart->hash);
    if (all)
        log_lines(chart);
}
