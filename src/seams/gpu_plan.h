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

/* Restricts the limits to what the GPUs of all ranks can do. Errors: UNSUPPORTED if nothing is left. */
enum collet_result gpu_limit(const struct chan *chan, const struct config *config, const struct map *map,
                             struct tuner_limits *limits);

/* Chooses a plan for a message, or for a call by copy engines. */
enum collet_result gpu_choose(const struct chan *chan, struct tuner_limits *limits, const struct exec_request *request,
                              uint64_t bytes, struct plan_choice *choice);

/* Decides whether a request may lend its buffers, and whether a switch may compute its sum. Both need buffers in windows. Only this rank
 * knows whether its buffers are in windows. But all ranks know whether the communicator has had such windows; then programs usually use
 * them. So this decides by that, and all ranks decide alike. */
void gpu_mark(const struct chan *chan, struct exec_request *request);

#endif
