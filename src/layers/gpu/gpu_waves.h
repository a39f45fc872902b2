/* SPDX-License-Identifier: Apache-2.0
 *
 * Which calls of a group are launched together, and in what order.
 *
 *    ranks of one communicator on one GPU     collective 0   collective 1   messages, by (how many-th of their pair, round)
 *      rank 0   on stream s0                  ┌─────────┐    ┌─────────┐    ┌──────────────┐
 *      rank 1   on stream s1                  │ 1 grid  │ ─▶ │ 1 grid  │ ─▶ │ 1 grid or so │
 *
 * Round r of the messages is to the rank r places further and from the rank r places back. Both ends of a message give it
 * the same place in that order, and so its parts on channels. A grid takes whole rounds, or some channels of one round. So of
 * all parts that are not done, the first one has both its ends running or about to run, whatever fits into a grid elsewhere. Messages
 * that copies carry stand before all rounds, if they are sent, and behind them, if they are received: such a send waits for no receive.
 */
#ifndef COLLET_LAYERS_GPU_GPU_WAVES_H
#define COLLET_LAYERS_GPU_GPU_WAVES_H

#include "layers/gpu/gpu_launch.h"

/* before: the entry of the call before it; NULL: there is none. */
enum collet_result gpu_waves_entry(struct gpu_entry *e, struct exec_call *call, const struct gpu_entry *before);

void gpu_waves_sort(struct gpu_entry *entries, int n);

/* For sorted entries: the number of entries from the first on that are one wave; and that are messages of one communicator, GPU and capture. */
int gpu_waves_length(const struct gpu_entry *entries, int n);
int gpu_waves_messages(const struct gpu_entry *entries, int n);

/* Sorted messages of one communicator and GPU: wave by wave, several in a grid if they fit. */
enum collet_result gpu_waves_launch(struct gpu_entry *entries, int n);

#endif
