/* SPDX-License-Identifier: Apache-2.0
 *
 * Are the GPUs of a host's ranks joined, so that each writes the others' memory, and LL128 may be used between them? It needs
 * lines of 128 bytes that arrive whole. Within one GPU's memory they do, and over NVLink; over PCI and in host memory nobody
 * promises it. And all GPUs must be of one kind that is known to store lines whole.
 *
 *    each rank        its GPU, and those that its process sees: joined with it, or not ───▶ the lowest rank of its node
 *    that rank        are all pairs of the node's ranks on one GPU, or joined by NVLink in the node's graph, and does no
 *                     driver that sees both deny it? ───▶ one bit of the node in the atlas (atlas.h) ───▶ every rank
 *
 * So the ranks of a communicator agree on it before the first plan. Graphs may come from files: they are not believed where
 * a driver knows better. A process that is shown its own GPU alone knows nothing of the others.
 */
#ifndef COLLET_LAYERS_GPU_NVLINK_H
#define COLLET_LAYERS_GPU_NVLINK_H

#include "topo/probe/topo.h"

#include "collet.h"

/* Further ones are left out: they then count as not seen. */
#define NVLINK_GPUS_MAX 32

/* What a rank says of its GPU. All zero: it is in host memory. */
struct nvlink_card {
    uint32_t on_gpu;
    uint32_t capability; /* gpu_driver.capability() */
    uint32_t blocks;     /* number of blocks that it runs at once: gpu_streams.resident() */
    uint32_t turns;      /* gpu_driver.takes_turns() */
    uint64_t gpu;        /* gpu_driver.identity() */
    uint32_t nseen;      /* GPUs that this process sees */
    uint32_t joined;     /* bit k: seen[k] is joined with it, both ways */
    uint64_t seen[NVLINK_GPUS_MAX];
};

/* device: as in collet.h, one that is there; a GPU is open afterwards. Errors: those of gpu_driver.open(). */
enum collet_result nvlink_ask(int device, struct nvlink_card *card);

/* Between any two of these ranks, at places of one host? What cards say may be anything. */
bool nvlink_joins_all(const struct topo *topo, const int32_t *place, const struct nvlink_card *cards, int n);

#endif
