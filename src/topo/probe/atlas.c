/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes an atlas at rank 0, and reads it on all ranks. An atlas comes over the network, so every number in it is checked.
 */
#include "topo/probe/atlas.h"

#include "base/memory.h"
#include "chan/crowd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct atlas_counts {
    uint32_t nshapes, nnodes;
};

/* ---- writing an atlas ---- */

static int shape_of(const struct atlas_node *nodes, int node) {
    int first = 0;
    while (nodes[first].graph_bytes != nodes[node].graph_bytes ||
           memcmp(nodes[first].graph, nodes[node].graph, nodes[node].graph_bytes) != 0)
        first++;
    return first;
}

static void write_bytes(FILE *out, const void *bytes, size_t size) { fwrite(bytes, size, 1, out); }

static void put_number(FILE *out, uint32_t number) { write_bytes(out, &number, sizeof number); }

/* Numbers the shapes in the order of their first nodes. Writes the number of each node's shape to number[node]. */
static uint32_t number_shapes(const struct atlas_node *nodes, int nnodes, uint32_t *number) {
    uint32_t nshapes = 0;
    for (int n = 0; n < nnodes; n++) {
        int first = shape_of(nodes, n);
        number[n] = first < n ? number[first] : nshapes++;
    }
    return nshapes;
}

static void put_atlas(FILE *out, const struct atlas_node *nodes, uint32_t nnodes, const struct cost_table *costs,
                      uint32_t *number) {
    struct atlas_counts counts = {number_shapes(nodes, (int)nnodes, number), nnodes};
    write_bytes(out, &counts, sizeof counts);
    write_bytes(out, costs, sizeof *costs);
    for (uint32_t n = 0, next = 0; n < nnodes; n++)
        if (number[n] == next) {
            put_number(out, (uint32_t)nodes[n].graph_bytes);
            write_bytes(out, nodes[n].graph, nodes[n].graph_bytes);
            next++;
        }
    for (uint32_t n = 0; n < nnodes; n++) {
        put_number(out, number[n]);
        write_bytes(out, &nodes[n].facts, sizeof nodes[n].facts);
        write_bytes(out, nodes[n].place, (size_t)nodes[n].nlocal * sizeof *nodes[n].place);
    }
}

enum collet_result atlas_pack(const struct atlas_node *nodes, int nnodes, const struct cost_table *costs,
                              void **atlas_p, size_t *size_p) {
    char *bytes = NULL;
    size_t size;
    SCOPED_FREE uint32_t *number = NULL;
    COLLET_TRY(memory_get(&number, (size_t)nnodes, sizeof *number, "no memory for the map of %d nodes", nnodes));
    FILE *out = open_memstream(&bytes, &size);
    if (out != NULL)
        put_atlas(out, nodes, (uint32_t)nnodes, costs, number);
    if (out == NULL || fclose(out) != 0) {
        free(bytes);
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the map of %d nodes", nnodes);
    }
    *atlas_p = bytes;
    *size_p = size;
    return COLLET_SUCCESS;
}

/* ---- reading it ---- */

/* The bytes that are left to read. After a failure, take() returns NULL and take_number() returns 0. */
struct atlas_reader {
    const char *at;
    size_t left;
    bool failed;
};

static const void *take(struct atlas_reader *reader, size_t size) {
    const char *at = reader->at;
    if (reader->failed || size > reader->left) {
        reader->failed = true;
        return NULL;
    }
    reader->at += size;
    reader->left -= size;
    return at;
}

static uint32_t take_number(struct atlas_reader *reader) {
    uint32_t number = 0;
    const void *at = take(reader, sizeof number);
    return at == NULL ? 0 : *(uint32_t *)memcpy(&number, at, sizeof number);
}

static enum collet_result err_bad_atlas(void) {
    return err_set(COLLET_ERR_INTERNAL, "the map that rank 0 sent does not fit this communicator");
}

static enum collet_result read_shapes(struct atlas_reader *reader, uint32_t nshapes, struct topo **shapes) {
    for (uint32_t s = 0; s < nshapes; s++) {
        size_t size = take_number(reader);
        const void *bytes = take(reader, size);
        if (bytes == NULL)
            return err_bad_atlas();
        COLLET_TRY(topo_read_text(bytes, size, "the map of rank 0", TOPO_RECORDED, &shapes[s]));
    }
    return COLLET_SUCCESS;
}

/* Reads the nodes. Writes each node's graph to hosts[], the place of each rank as a number inside that graph, and the facts
 * of each rank's node. */
static enum collet_result read_nodes(struct atlas_reader *reader, const struct peer_info *peers, int nranks,
                                     struct topo *const *shapes, uint32_t nshapes, const struct topo **hosts,
                                     int *place, struct node_facts *facts) {
    int h = 0;
    for (int lowest = 0; lowest < nranks; lowest++) {
        if (peers[lowest].node != lowest)
            continue;
        uint32_t shape = take_number(reader);
        const char *facts_at = take(reader, sizeof *facts);
        size_t nlocal = (size_t)crowd_of_node(peers, nranks, lowest);
        const char *places = take(reader, nlocal * sizeof(int32_t));
        struct node_facts found;
        if (facts_at == NULL || places == NULL || shape >= nshapes)
            return err_bad_atlas();
        memcpy(&found, facts_at, sizeof found);
        if (found.far > 1 || found.measured > 1 || found.kernel_copies > 1 || found.joined > 1 ||
            found.turns > (uint32_t)nranks)
            return err_bad_atlas();
        hosts[h++] = shapes[shape];
        for (int rank = lowest; rank < nranks; rank++) {
            int32_t node;
            if (peers[rank].node != lowest)
                continue;
            memcpy(&node, places, sizeof node);
            places += sizeof node;
            if (node < 0 || node >= shapes[shape]->nnodes)
                return err_bad_atlas();
            place[rank] = node;
            facts[rank] = found;
        }
    }
    return reader->left > 0 ? err_bad_atlas() : COLLET_SUCCESS;
}

static int count_nodes(const struct peer_info *peers, int nranks) {
    int count = 0;
    for (int rank = 0; rank < nranks; rank++)
        count += peers[rank].node == rank;
    return count;
}

/* Converts each place from a node of one host's graph to the same node of the fused graph. */
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

enum collet_result atlas_read(const void *atlas, size_t size, const struct peer_info *peers, int nranks,
                              struct topo **topo_p, int *place, struct node_facts *facts, struct cost_table *costs) {
    struct atlas_reader reader = {atlas, size, false};
    int nnodes = count_nodes(peers, nranks);
    struct atlas_counts counts;
    const void *at = take(&reader, sizeof counts), *costs_at = take(&reader, sizeof *costs);
    if (costs_at == NULL)
        return err_bad_atlas();
    memcpy(&counts, at, sizeof counts);
    memcpy(costs, costs_at, sizeof *costs);
    if (!costs_are_sound(costs) || counts.nnodes != (uint32_t)nnodes || counts.nshapes < 1 ||
        counts.nshapes > counts.nnodes)
        return err_bad_atlas();
    struct arena arena SCOPED_ARENA = {0};
    struct topo **shapes = arena_get(&arena, counts.nshapes, sizeof *shapes);
    const struct topo **hosts = arena_get(&arena, (size_t)nnodes, sizeof *hosts);
    COLLET_TRY(arena_check(&arena, "no memory for the graphs of %d nodes", nnodes));
    enum collet_result result = read_shapes(&reader, counts.nshapes, shapes);
    if (result == COLLET_SUCCESS)
        result = read_nodes(&reader, peers, nranks, shapes, counts.nshapes, hosts, place, facts);
    if (result == COLLET_SUCCESS)
        result = topo_fuse(hosts, nnodes, topo_p);
    if (result == COLLET_SUCCESS)
        shift_places(*topo_p, peers, nranks, place);
    for (uint32_t k = 0; k < counts.nshapes; k++)
        topo_destroy(shapes[k]);
    return result;
}
