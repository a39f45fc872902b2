/* SPDX-License-Identifier: Apache-2.0
 *
 * This decides which calls of a group are launched together, and in what order.
 *
 *    ranks of one communicator on one GPU     collective 0   collective 1   messages, by (number in their pair, round)
 *      rank 0   on stream s0                  ┌─────────┐    ┌─────────┐    ┌──────────────┐
 *      rank 1   on stream s1                  │ 1 grid  │ ─▶ │ 1 grid  │ ─▶ │ 1 grid or so │
 *
 * Round r has the messages to the rank r places further and from the rank r places back. Both ends of a message give it the same place
 * in that order, and also give its parts on channels the same place. A grid takes whole rounds, or some channels of one round. So of all
 * parts that are not done, the first one has both its ends running or about to run, whatever fits into a grid elsewhere. For messages that
 * copies carry, sends stand before all rounds, and receives behind them: such a send waits for no receive.
 */
#ifndef COLLET_LAYERS_GPU_GPU_WAVES_H
#define COLLET_LAYERS_GPU_GPU_WAVES_H

#include "layers/gpu/gpu_launch.h"

/* Fills the entry of a call. before: the entry of the call before this one; NULL: there is none. */
enum collet_result gpu_waves_entry(struct gpu_entry *e, struct exec_call *call, const struct gpu_entry *before);

void gpu_waves_sort(struct gpu_entry *entries, int n);

/* The entries are sorted. gpu_waves_length() counts the entries, from the first one on, that are one wave. gpu_waves_messages() counts the
 * entries, from the first one on, that are messages of one communicator, GPU and capture. */
int gpu_waves_length(const struct gpu_entry *entries, int n);
int gpu_waves_messages(const struct gpu_entry *entries, int n);

/* Launches sorted messages of one communicator and GPU, wave by wave. A grid takes several waves if they fit. */
enum collet_result gpu_waves_launch(struct gpu_entry *entries, int n);

#endif
