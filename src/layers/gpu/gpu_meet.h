/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLET_LAYERS_GPU_GPU_MEET_H
#define COLLET_LAYERS_GPU_GPU_MEET_H

#include "exec/exec.h"

/* Waits until every rank has its connections and its program. Before that nobody launches the program. Why? To make connections may wait
 * for running kernels, and these would wait for the rank that makes them. SUCCESS: all have come. IN_PROGRESS: not yet. */
enum collet_result exec_gpu_meet(struct chan *chan, struct exec_meeting *meeting, bool *moved);

#endif
