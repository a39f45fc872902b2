/* SPDX-License-Identifier: Apache-2.0
 *
 * A communicator as the cost model sees it: which of its ranks are simulated, what lies between each two of them, and which
 * links that crosses. From the table of ranks and the map, so equal on all ranks.
 *
 *      GPU 0 ══▶ NVLinks of GPU 0, those of GPU 1          over GPU links: what all of a GPU carry together, since channels
 *            ──▶ every PCI and SYS link of the path        run along different rings; else the path in the graph
 *            ──▶ its PCI link, adapters of its node, adapters of the other node, the other GPU's PCI link
 *      CPU 0 ──▶ adapters of its node, adapters of the other node
 *
 * What links between host ranks of a node share is in their class. A link whose speed is not known binds nothing.
 */
#ifndef COLLET_PLAN_MODEL_H
#define COLLET_PLAN_MODEL_H

#include "chan/chan.h"
#include "plan/cost.h"
#include "plan/map.h"

struct model {
    struct cost_machine machine;
    struct prog_shape simulated; /* the part of the communicator's shape that is */
    uint8_t *class;
    int *ranks_of_node;
    struct sim_links *route;
    int *crossed; /* all routes, one after another */
    struct cost_link *links;
};

/* nchannels: of host ranks, each of which has an adapter to itself. All but config must outlive the model. */
enum collet_result model_create(const struct chan *chan, const struct config *config, const struct map *map,
                                const struct prog_shape *shape, int nchannels, struct model **model_p);
void model_destroy(struct model *model); /* NULL is fine */

#endif
