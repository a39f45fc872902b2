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

/* May calls lend their buffers? All ranks come to the same answer. */
bool gpu_may_lend(const struct chan *chan);

#endif
