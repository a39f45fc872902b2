/* SPDX-License-Identifier: Apache-2.0
 *
 * What the planner asks of the layer "gpu", for ranks on GPUs alone. Without the layer there are none.
 */
#ifndef COLLET_SEAMS_GPU_PLAN_H
#define COLLET_SEAMS_GPU_PLAN_H

#include "chan/chan.h"
#include "plan/choice.h"
#include "plan/limits.h"
#include "plan/map.h"

struct exec_request;

/* What the GPUs of all ranks leave to choose from. Errors: UNSUPPORTED, if that is nothing. */
enum collet_result gpu_limit(const struct chan *chan, const struct config *config, const struct map *map,
                             struct tuner_limits *limits);

/* Chooses for a message, or for a call that copy engines do. */
enum collet_result gpu_choose(const struct chan *chan, struct tuner_limits *limits, const struct exec_request *request,
                              uint64_t bytes, struct plan_choice *choice);

/* Says of a request whether it may lend its buffers, and whether it may be a sum that switches make: both if its buffers lie in such
 * windows as the communicator has had. Whether they do, each rank knows of its own alone. That there was a window, all know: then programs
 * tend to use them. So all ranks come to the same answer. */
void gpu_mark(const struct chan *chan, struct exec_request *request);

#endif
