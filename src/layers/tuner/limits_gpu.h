/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits of the choice on GPUs: the blocks of all channels must find room there.
 */
#ifndef COLLET_LAYERS_TUNER_LIMITS_GPU_H
#define COLLET_LAYERS_TUNER_LIMITS_GPU_H

#include "plan/choice.h"
#include "plan/limits.h"

/* Sets the limits of a communicator of ranks on GPUs. A GPU runs at most `blocks` blocks at once, and is shared by at most
 * `ranks` ranks. apart: not all ranks of the communicator share one GPU. Each channel has blocks of its own, so the number
 * of channels is chosen too, unless the configuration sets it. */
void tuner_limits_of_gpus(const struct config *config, int blocks, int ranks, bool apart, struct tuner_limits *limits);

/* The maximum number of channels of a rank, if each channel takes `blocks` blocks. Ranks that share a GPU may be launched
 * one by one and wait for each other, so the blocks of all of them must find room at once. 0: the blocks of one channel find
 * no room. On host memory there is no limit. */
int tuner_fitting_channels(const struct tuner_limits *limits, int blocks);

/* Returns the error that blocks find no room. `what` names the collective, such as "allreduce". */
enum collet_result tuner_err_no_room(const struct tuner_limits *limits, const char *what, int blocks);

/* Warns, once, that a choice has fewer channels than were asked for. */
void tuner_warn_of_channels(struct tuner_limits *limits, const struct plan_choice *choice);

#endif
