/* SPDX-License-Identifier: Apache-2.0
 *
 * Where LL128 may be used between GPUs: where lines of 128 bytes arrive whole. Within one GPU's memory they do, and over
 * NVLink; over PCI and in host memory nobody promises it.
 *
 *    each rank        its GPU, and those that its driver joins with it ───▶ the lowest rank of its node
 *    that rank        are all pairs of the node's ranks on one GPU, or joined as both see it and by
 *                     NVLink in the node's graph? ───▶ one bit of the node in the atlas (atlas.h) ───▶ every rank
 *
 * So the ranks of a communicator agree on it before the first plan. Drivers speak for themselves and graphs may come from
 * files: neither is believed alone.
 */
#ifndef COLLET_PLAN_NVLINK_H
#define COLLET_PLAN_NVLINK_H

#include "topo/topo.h"

/* Further ones are left out: they then count as not joined. */
#define NVLINK_GPUS_MAX 32

/* What a rank says of its GPU. All zero: it is in host memory. */
struct nvlink_card {
    uint32_t on_gpu;
    uint32_t bus; /* gpu_driver.bus() */
    uint32_t njoined;
    uint32_t joined[NVLINK_GPUS_MAX]; /* buses of other GPUs that this process sees, joined both ways */
};

/* device: as in collet.h, one that is there. */
void nvlink_ask(int device, struct nvlink_card *card);

/* Between any two of these ranks, at places of one host? What cards say may be anything. */
bool nvlink_joins_all(const struct topo *topo, const int32_t *place, const struct nvlink_card *cards, int n);

#endif
