/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/nvlink.h"

#include "gpu/gpu.h"
#include "topo/paths.h"

#include <stdlib.h>

/* Of the capability LL128 needs, × 10. */
#define SM_MIN 70

void nvlink_ask(int device, struct nvlink_card *card) {
    const struct gpu_driver *driver = gpu_driver();
    const char *why;
    *card = (struct nvlink_card){.on_gpu = device != COLLET_DEVICE_HOST};
    if (!card->on_gpu)
        return;
    int own = device - COLLET_DEVICE_CUDA(0), count = driver->count(&why);
    card->bus = driver->bus(own);
    for (int other = 0; other < count && card->njoined < NVLINK_GPUS_MAX; other++)
        if (other != own && driver->sharing->keeps_lines(own, other) && driver->sharing->keeps_lines(other, own))
            card->joined[card->njoined++] = driver->bus(other);
}

static bool names(const struct nvlink_card *card, uint32_t bus) {
    for (uint32_t k = 0; k < card->njoined && k < NVLINK_GPUS_MAX; k++)
        if (card->joined[k] == bus)
            return true;
    return false;
}

/* A rank whose GPU is not in the graph has been put elsewhere. */
static bool is_fit(const struct topo_node *node) { return node->kind == TOPO_GPU && node->gpu.sm >= SM_MIN; }

static bool joined(const struct topo *topo, const struct topo_paths *paths, int place, int other_place,
                   const struct nvlink_card *card, const struct nvlink_card *other) {
    if (card->bus == other->bus)
        return true;
    return names(card, other->bus) && names(other, card->bus) && is_fit(&topo->nodes[place]) &&
           is_fit(&topo->nodes[other_place]) && topo_path_to(paths, other_place)->class == PATH_NVL;
}

bool nvlink_joins_all(const struct topo *topo, const int32_t *place, const struct nvlink_card *cards, int n) {
    bool all = true;
    for (int a = 0; a < n && all; a++) {
        struct topo_paths *paths;
        if (!cards[a].on_gpu || topo_paths_from(topo, place[a], PATHS_IN_HOST, &paths) != COLLET_SUCCESS)
            return false;
        for (int b = a + 1; b < n && all; b++)
            all = cards[b].on_gpu && joined(topo, paths, place[a], place[b], &cards[a], &cards[b]);
        free(paths);
    }
    return all;
}
