/* SPDX-License-Identifier: Apache-2.0
 *
 * Atlas → graph, places, rings → orders of ranks. Pure but for memory: whatever all ranks must agree on follows from here.
 */
#include "plan/map.h"

#include "base/err.h"
#include "base/log.h"
#include "topo/print_rings.h"

#include <stdlib.h>
#include <string.h>

struct counts {
    uint32_t nshapes, nnodes;
};

/* ---- writing an atlas ---- */

static int shape_of(const struct map_node *nodes, int node) {
    int first = 0;
    while (nodes[first].graph_bytes != nodes[node].graph_bytes ||
           memcmp(nodes[first].graph, nodes[node].graph, nodes[node].graph_bytes) != 0)
        first++;
    return first;
}

struct text {
    char *bytes;
    size_t size, room;
    bool failed;
};

static void put(struct text *text, const void *bytes, size_t size) {
    if (text->size + size > text->room) {
        size_t room = 2 * (text->size + size);
        char *larger = text->failed ? NULL : realloc(text->bytes, room);
        text->failed = larger == NULL;
        if (text->failed)
            return;
        text->bytes = larger;
        text->room = room;
    }
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
}

static void put_number(struct text *text, uint32_t number) { put(text, &number, sizeof number); }

/* Numbers each shape at its first node, and says so in number[node]. */
static uint32_t put_shapes(struct text *text, const struct map_node *nodes, int nnodes, uint32_t *number) {
    uint32_t nshapes = 0;
    for (int n = 0; n < nnodes; n++) {
        int first = shape_of(nodes, n);
        number[n] = first < n ? number[first] : nshapes++;
        if (first < n)
            continue;
        put_number(text, (uint32_t)nodes[n].graph_bytes);
        put(text, nodes[n].graph, nodes[n].graph_bytes);
    }
    return nshapes;
}

enum collet_result map_pack(const struct map_node *nodes, int nnodes, void **atlas_p, size_t *size_p) {
    struct text text = {.bytes = NULL};
    struct counts counts = {0, (uint32_t)nnodes};
    uint32_t *number = malloc((size_t)nnodes * sizeof *number);
    put(&text, &counts, sizeof counts);
    if (number != NULL)
        counts.nshapes = put_shapes(&text, nodes, nnodes, number);
    for (int n = 0; n < nnodes && number != NULL; n++) {
        put_number(&text, number[n]);
        put(&text, nodes[n].place, (size_t)nodes[n].nlocal * sizeof *nodes[n].place);
    }
    bool failed = text.failed || number == NULL;
    free(number);
    if (failed) {
        free(text.bytes);
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the map of %d nodes", nnodes);
    }
    memcpy(text.bytes, &counts, sizeof counts);
    *atlas_p = text.bytes;
    *size_p = text.size;
    return COLLET_SUCCESS;
}

/* ---- reading it ---- */

/* What is left to read. A failure stays; what is read then is zero. */
struct reader {
    const char *at;
    size_t left;
    bool failed;
};

static const void *take(struct reader *reader, size_t size) {
    const char *at = reader->at;
    if (reader->failed || size > reader->left) {
        reader->failed = true;
        return NULL;
    }
    reader->at += size;
    reader->left -= size;
    return at;
}

static uint32_t take_number(struct reader *reader) {
    uint32_t number = 0;
    const void *at = take(reader, sizeof number);
    return at == NULL ? 0 : *(uint32_t *)memcpy(&number, at, sizeof number);
}

static enum collet_result err_broken(void) {
    return err_set(COLLET_ERR_INTERNAL, "the map that rank 0 sent does not fit this communicator");
}

static enum collet_result read_shapes(struct reader *reader, uint32_t nshapes, struct topo **shapes) {
    for (uint32_t s = 0; s < nshapes; s++) {
        size_t size = take_number(reader);
        const void *bytes = take(reader, size);
        if (bytes == NULL)
            return err_broken();
        COLLET_TRY(topo_unpack(bytes, size, &shapes[s]));
    }
    return COLLET_SUCCESS;
}

static int count_ranks(const struct peer_info *peers, int nranks, int lowest) {
    int count = 0;
    for (int rank = lowest; rank < nranks; rank++)
        count += peers[rank].node == lowest;
    return count;
}

/* The graph of each node to hosts[], and places as numbers within it. */
static enum collet_result read_nodes(struct reader *reader, const struct peer_info *peers, int nranks,
                                     struct topo *const *shapes, uint32_t nshapes, const struct topo **hosts,
                                     int *place) {
    int h = 0;
    for (int lowest = 0; lowest < nranks; lowest++) {
        if (peers[lowest].node != lowest)
            continue;
        uint32_t shape = take_number(reader);
        size_t nlocal = (size_t)count_ranks(peers, nranks, lowest);
        const char *places = take(reader, nlocal * sizeof(int32_t));
        if (places == NULL || shape >= nshapes)
            return err_broken();
        hosts[h++] = shapes[shape];
        for (int rank = lowest; rank < nranks; rank++) {
            int32_t node;
            if (peers[rank].node != lowest)
                continue;
            memcpy(&node, places, sizeof node);
            places += sizeof node;
            if (node < 0 || node >= shapes[shape]->nnodes)
                return err_broken();
            place[rank] = node;
        }
    }
    return reader->left > 0 ? err_broken() : COLLET_SUCCESS;
}

static int count_nodes(const struct peer_info *peers, int nranks) {
    int count = 0;
    for (int rank = 0; rank < nranks; rank++)
        count += peers[rank].node == rank;
    return count;
}

/* From a node of its host to the same node of the fused graph. */
static void shift_places(const struct topo *topo, const struct peer_info *peers, int nranks, int *place) {
    int h = 0;
    for (int lowest = 0; lowest < nranks; lowest++) {
        if (peers[lowest].node != lowest)
            continue;
        for (int rank = lowest; rank < nranks; rank++)
            if (peers[rank].node == lowest)
                place[rank] += topo->hosts[h].first_node;
        h++;
    }
}

static enum collet_result read_atlas(struct reader *reader, const struct peer_info *peers, struct map *map) {
    int nnodes = count_nodes(peers, map->nranks);
    struct counts counts;
    const void *at = take(reader, sizeof counts);
    if (at == NULL)
        return err_broken();
    memcpy(&counts, at, sizeof counts);
    if (counts.nnodes != (uint32_t)nnodes || counts.nshapes < 1 || counts.nshapes > counts.nnodes)
        return err_broken();
    struct topo **shapes = calloc(counts.nshapes, sizeof *shapes);
    const struct topo **hosts = calloc((size_t)nnodes, sizeof *hosts);
    enum collet_result result = COLLET_ERR_NO_MEMORY;
    if (shapes == NULL || hosts == NULL)
        err_set(result, "no memory for the graphs of %d nodes", nnodes);
    else
        result = read_shapes(reader, counts.nshapes, shapes);
    if (result == COLLET_SUCCESS)
        result = read_nodes(reader, peers, map->nranks, shapes, counts.nshapes, hosts, map->place);
    if (result == COLLET_SUCCESS)
        result = topo_fuse(hosts, nnodes, &map->topo);
    if (result == COLLET_SUCCESS)
        shift_places(map->topo, peers, map->nranks, map->place);
    for (uint32_t s = 0; shapes != NULL && s < counts.nshapes; s++)
        topo_destroy(shapes[s]);
    free(shapes);
    free(hosts);
    return result;
}

/* FNV-1a. */
static uint64_t hash_of(const unsigned char *bytes, size_t size) {
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
    struct reader reader = {atlas, size, false};
    struct map *map = calloc(1, sizeof *map);
    if (map == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a map of %d ranks", nranks);
    map->nranks = nranks;
    map->hash = hash_of(atlas, size);
    map->place = calloc((size_t)nranks, sizeof *map->place);
    enum collet_result result = COLLET_ERR_NO_MEMORY;
    if (map->place == NULL)
        err_set(result, "no memory for the places of %d ranks", nranks);
    else
        result = read_atlas(&reader, peers, map);
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
    topo_rings_destroy(map->rings);
    topo_destroy(map->topo);
    free(map->place);
    free(map);
}

/* ---- orders ---- */

int map_orders(const struct map *map) { return map->rings == NULL ? 1 : map->rings->nrings; }

/* All ranks, host by host, each along the ring's route through it. */
static void list_along(const struct topo_rings *rings, int ring, int *along) {
    for (int h = 0; h < rings->nhosts; h++) {
        bool backwards;
        const int *route = topo_route_of(rings, ring, h, &backwards)->order;
        for (int i = 0; i < rings->first[h + 1] - rings->first[h]; i++)
            *along++ = rings->ranks_by_host[rings->first[h] + route[i]];
    }
}

static bool has_gpus(const struct map *map) {
    for (int rank = 0; rank < map->nranks; rank++)
        if (map->topo->nodes[map->place[rank]].kind == TOPO_GPU)
            return true;
    return false;
}

enum collet_result map_shape(const struct map *map, const struct peer_info *peers, int order, struct prog_shape *shape) {
    int *node_of = malloc((size_t)map->nranks * sizeof *node_of), *along = malloc((size_t)map->nranks * sizeof *along);
    enum collet_result result = COLLET_ERR_NO_MEMORY;
    if (node_of == NULL || along == NULL) {
        err_set(result, "no memory to order %d ranks", map->nranks);
    } else {
        for (int rank = 0; rank < map->nranks; rank++)
            node_of[rank] = peers[rank].node;
        if (map->rings != NULL)
            list_along(map->rings, order, along);
        result = prog_shape_init_along(shape, map->nranks, node_of, map->rings != NULL ? along : NULL);
    }
    if (result == COLLET_SUCCESS) {
        shape->zigzag = map->rings != NULL && map->rings->zigzag;
        shape->chains = has_gpus(map);
    }
    free(node_of);
    free(along);
    return result;
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

int map_rails(const struct map *map) {
    int nrails = 1;
    for (int c = 0; map->rings != NULL && c < map->rings->ncrossings; c++) {
        int through = rails_through(&map->rings->crossings[c]);
        nrails = through > nrails ? through : nrails;
    }
    return nrails;
}

/* 0: of an adapter it is not known. */
static double host_gbps(const struct topo *topo, int h) {
    double fastest = 0;
    for (int n = topo->hosts[h].first_node; n < topo->hosts[h].end_node; n++) {
        const struct topo_node *node = &topo->nodes[n];
        if (node->kind == TOPO_NIC && node->nic.mbits == 0)
            return 0;
        if (node->kind == TOPO_NIC && (double)node->nic.mbits / 8000 > fastest)
            fastest = (double)node->nic.mbits / 8000;
    }
    return fastest;
}

double map_net_gbps(const struct map *map, int a, int b) {
    int host_a = map->topo->nodes[map->place[a]].host, host_b = map->topo->nodes[map->place[b]].host;
    double of_a = host_gbps(map->topo, host_a), of_b = host_gbps(map->topo, host_b);
    return of_a < of_b ? of_a : of_b;
}

/* ---- the log ---- */

static enum collet_result print_all(const struct map *map, FILE *out) {
    topo_print(map->topo, out);
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
