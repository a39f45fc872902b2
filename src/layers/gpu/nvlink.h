/* SPDX-License-Identifier: Apache-2.0
 *
 * Are the GPUs of a host's ranks joined, so that each writes the others' memory, and may LL128 be used between them? LL128 needs
 * lines of 128 bytes that arrive whole. Lines arrive whole within one GPU's memory, and over NVLink. Over PCI and in host memory nobody
 * promises that. Also, all GPUs must be of one kind that is known to store lines whole.
 *
 *    each rank        its GPU, and which GPUs that its process sees are joined with it ───▶ the lowest rank of its node
 *    that rank        are all pairs of the node's ranks on one GPU, or joined by NVLink in the node's graph, and does no
 *                     driver that sees both deny it? ───▶ one bit of the node in the atlas (atlas.h) ───▶ every rank
 *
 * So the ranks of a communicator agree on it before the first plan. Graphs may come from files: if a driver contradicts
 * the graph, the driver is believed. A process that is shown its own GPU alone knows nothing of the others.
 */
#ifndef COLLET_LAYERS_GPU_NVLINK_H
#define COLLET_LAYERS_GPU_NVLINK_H

#include "topo/probe/topo.h"

#include "collet.h"

/* Further GPUs are left out: they count as not seen. */
#define NVLINK_GPUS_MAX 32

/* What a rank says of its GPU. All zero: the rank is in host memory. */
struct nvlink_card {
    uint32_t on_gpu;
    uint32_t capability; /* gpu_driver.capability() */
    uint32_t blocks;     /* number of blocks that the GPU runs at once: gpu_streams.resident() */
    uint32_t turns;      /* gpu_driver.takes_turns() */
    uint64_t gpu;        /* gpu_driver.identity() */
    uint32_t nseen;      /* number of GPUs in seen[] */
    uint32_t joined;     /* bit k: seen[k] and the rank's GPU are joined, both ways */
    uint64_t seen[NVLINK_GPUS_MAX];
};

/* Fills the card of this rank. device: as in collet.h; it exists. If it is a GPU, the call opens it. Errors: those of gpu_driver.open(). */
enum collet_result nvlink_ask(int device, struct nvlink_card *card);

/* May LL128 be used between any two of these ranks? place[]: their places on one host. The cards come from other ranks: they may say
 * anything. */
bool nvlink_joins_all(const struct topo *topo, const int32_t *place, const struct nvlink_card *cards, int n);

#endif
