/* SPDX-License-Identifier: Apache-2.0
 *
 * The packed graph of all nodes, as it comes over the network.
 */
#include "fuzz.h"
#include "topo/probe/atlas.h"

#include <stdlib.h>

#define RANKS 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    static struct peer_info peers[RANKS];
    struct topo *host, *topo;
    struct cost_table costs = costs_default, read;
    char *graph;
    void *atlas;
    size_t bytes;
    int32_t places[RANKS] = {0};
    int place[RANKS];
    struct node_facts facts[RANKS];
    for (int rank = 0; rank < RANKS; rank++)
        peers[rank] = (struct peer_info){.node = rank / 2 * 2};
    if (topo_synthetic("2 cpu : 2 gpu pci : 1 nic", &host) != COLLET_SUCCESS)
        abort();
    if (topo_share(host, 2, places, &graph) != COLLET_SUCCESS)
        abort();
    struct atlas_node node = {.graph = graph, .graph_bytes = strlen(graph), .nlocal = 2, .place = places};
    const struct atlas_node nodes[2] = {node, node};
    if (atlas_pack(nodes, 2, &costs, &atlas, &bytes) != COLLET_SUCCESS)
        abort();
    fuzz_patch(&input, atlas, fuzz_byte(&input) % 2 ? bytes : 8);
    fuzz_patch(&input, atlas, bytes);
    if (fuzz_byte(&input) % 4 == 0)
        bytes -= (fuzz_byte(&input) | (size_t)fuzz_byte(&input) << 8) % bytes;
    void *exact = malloc(bytes);
    memcpy(exact, atlas, bytes);
    if (atlas_read(exact, bytes, peers, RANKS, &topo, place, facts, &read) == COLLET_SUCCESS)
        topo_destroy(topo);
    free(exact);
    free(atlas);
    free(graph);
    topo_destroy(host);
    return 0;
}
