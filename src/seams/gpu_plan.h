/* SPDX-License-Identifier: Apache-2.0
 *
 * What the planner asks of the layer "gpu". It asks only for ranks on GPUs, and without the layer there are no such ranks.
 */
#ifndef COLLET_SEAMS_GPU_PLAN_H
#define COLLET_SEAMS_GPU_PLAN_H

#include "chan/chan.h"
#include "plan/choice.h"
#include "plan/limits.h"
#include "plan/map.h"

struct exec_request;

/* Restricts the limits to what the GPUs of all ranks can do. Errors: UNSUPPORTED if no plan is left. */
enum collet_result gpu_limit(const struct chan *chan, const struct config *config, const struct map *map,
                             struct tuner_limits *limits);

/* Chooses a plan for a message, or for a call by copy engines. */
enum collet_result gpu_choose(const struct chan *chan, struct tuner_limits *limits, const struct exec_request *request,
                              uint64_t bytes, struct plan_choice *choice);

/* Decides whether a request may lend its buffers, and whether a switch may compute its sum. It may lend if all ranks are on one GPU and
 * of one process. Otherwise both need buffers in windows. But all ranks must decide alike, and only this rank knows whether its own
 * buffers are in windows. So the decision depends on what all ranks know: whether the communicator has had such windows. A program that
 * has registered windows usually uses them. */
void gpu_mark(const struct chan *chan, struct exec_request *request);

#endif
