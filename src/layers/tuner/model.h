/* SPDX-License-Identifier: Apache-2.0
 *
 * A communicator as the cost model sees it (cost.h): which of its ranks are simulated, what lies between each two of them,
 * and how many share a CPU. The model follows from the table of ranks and the map, so it is equal on all ranks.
 */
#ifndef COLLET_LAYERS_TUNER_MODEL_H
#define COLLET_LAYERS_TUNER_MODEL_H

#include "base/memory.h"
#include "chan/chan.h"
#include "layers/tuner/cost.h"
#include "topo/probe/chart.h"

struct model {
    struct cost_machine machine;
    struct arena arena;           /* The arena that owns the arrays. */
    struct prog_shape *simulated; /* [machine.nshapes]: the simulated ranks along each ring. */
    int *rank_of;                 /* [simulated rank]: its rank in the communicator. */
    struct net *net;
    double *crowd;
    int *node;
};

/* Makes the model of a communicator. `shapes` are the communicator's shapes along each ring. All arguments except config
 * must outlive the model. */
enum collet_result model_create(const struct chan *chan, const struct config *config, const struct map *map,
                                const struct prog_shape *shapes, int nshapes, struct model **model_p);
void model_destroy(struct model *model); /* `model` may be NULL. */

#endif
