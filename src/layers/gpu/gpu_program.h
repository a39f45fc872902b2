/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLET_LAYERS_GPU_GPU_PROGRAM_H
#define COLLET_LAYERS_GPU_GPU_PROGRAM_H

#include "exec/exec.h"

/* Puts a program with connections on the GPU of its rank, once. */
enum collet_result exec_gpu_load(struct exec_call *call);

#endif
