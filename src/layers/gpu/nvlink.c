/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/gpu/nvlink.h"

#include "base/err.h"
#include "layers/gpu/gpu.h"
#include "topo/probe/paths.h"

#include <stdlib.h>

/* Is the GPU known to store a line of LL128 as a whole? V100, A100, and all GPUs from H100 on are known to do it. */
static bool stores_lines(const struct nvlink_card *card) {
    return card->on_gpu && (card->capability == 70 || card->capability == 80 || card->capability >= 90);
}

enum collet_result nvlink_ask(int device, struct nvlink_card *card) {
    const struct gpu_driver *driver = gpu_driver();
    const char *why;
    *card = (struct nvlink_card){.on_gpu = device != COLLET_DEVICE_HOST};
    if (!card->on_gpu)
        return COLLET_SUCCESS;
    int own = device - COLLET_DEVICE_CUDA(0), count = driver->count(&why);
    COLLET_TRY(driver->open(own)); /* only an open GPU says how many blocks it runs */
    card->gpu = driver->identity(own);
    card->capability = driver->capability(own);
    card->blocks = driver->streams->resident(own);
    card->turns = driver->takes_turns(own);
    for (int other = 0; other < count && card->nseen < NVLINK_GPUS_MAX; other++) {
        bool joined = driver->sharing->keeps_lines(own, other) && driver->sharing->keeps_lines(other, own);
        card->joined |= (uint32_t)joined << card->nseen;
        card->seen[card->nseen++] = driver->identity(other);
    }
    return COLLET_SUCCESS;
}

/* Does the process of this rank see that GPU, without being joined with it? */
static bool is_apart(const struct nvlink_card *card, uint64_t gpu) {
    for (uint32_t k = 0; k < card->nseen && k < NVLINK_GPUS_MAX; k++)
        if (card->seen[k] == gpu)
            return (card->joined >> k & 1) == 0;
    return false;
}

static bool joined(const struct topo_paths *paths, int other_place, const struct nvlink_card *card,
                   const struct nvlink_card *other) {
    if (card->gpu == other->gpu)
        return true;
    return !is_apart(card, other->gpu) && !is_apart(other, card->gpu) &&
           topo_path_to(paths, other_place)->class == PATH_NVL;
}

bool nvlink_joins_all(const struct topo *topo, const int32_t *place, const struct nvlink_card *cards, int n) {
    bool all = true;
    for (int a = 0; a < n && all; a++) {
        struct topo_paths *paths;
        if (!stores_lines(&cards[a]) || cards[a].capability != cards[0].capability ||
            topo_paths_from(topo, place[a], PATHS_IN_HOST, &paths) != COLLET_SUCCESS)
            return false;
        for (int b = a + 1; b < n && all; b++)
            all = joined(paths, place[b], &cards[a], &cards[b]);
        free(paths);
    }
    return all;
}
