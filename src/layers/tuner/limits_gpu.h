/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be chosen on GPUs: blocks must find room there.
 */
#ifndef COLLET_LAYERS_TUNER_LIMITS_GPU_H
#define COLLET_LAYERS_TUNER_LIMITS_GPU_H

#include "plan/choice.h"
#include "plan/limits.h"

/* Ranks on GPUs that run so many blocks at once: each channel has blocks of its own, so their number is chosen too, unless the
 * configuration has it. So many of the ranks share a GPU, at most; apart: not all ranks of the communicator share one. */
void tuner_limits_of_gpus(const struct config *config, int blocks, int ranks, bool apart, struct tuner_limits *limits);

/* How many channels of so many blocks each a rank on a GPU may have. Ranks that share the GPU may be launched one by one, and
 * wait for each other: the blocks of all of them must find room. 0: not even those of one channel do. Any number on host memory. */
int tuner_fitting_channels(const struct tuner_limits *limits, int blocks);

/* The error that says so. what: "allreduce". */
enum collet_result tuner_err_no_room(const struct tuner_limits *limits, const char *what, int blocks);

/* Says once that a choice has fewer channels than were asked for. */
void tuner_warn_of_channels(struct tuner_limits *limits, const struct plan_choice *choice);

#endif
