/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLET_LAYERS_GPU_GPU_MEET_H
#define COLLET_LAYERS_GPU_GPU_MEET_H

#include "exec/exec.h"

/* No launch of a program before every rank has its connections and the program: making them may have to wait
 * for running kernels, which would wait for the rank that is making them. SUCCESS once all have come, IN_PROGRESS before. */
enum collet_result exec_gpu_meet(struct chan *chan, struct exec_meeting *meeting, bool *moved);

#endif
