/* SPDX-License-Identifier: Apache-2.0
 *
 * A communicator as the cost model sees it: which of its ranks are simulated, what lies between each two of them, and what
 * the links of their nodes and GPUs carry. From the table of ranks and the map, so equal on all ranks.
 */
#ifndef COLLET_PLAN_MODEL_H
#define COLLET_PLAN_MODEL_H

#include "chan/chan.h"
#include "plan/cost.h"
#include "plan/map.h"

struct model {
    struct cost_machine machine;
    struct prog_shape simulated; /* the part of the communicator's shape that is */
    uint8_t *link;
    int *node_of;
    double *node_gbps;
    int *ranks_of_node;
    struct cost_gpu *gpus;
};

/* nchannels: of host ranks, each of which has an adapter to itself. All but config must outlive the model. */
enum collet_result model_create(const struct chan *chan, const struct config *config, const struct map *map,
                                const struct prog_shape *shape, int nchannels, struct model **model_p);
void model_destroy(struct model *model); /* NULL is fine */

#endif
