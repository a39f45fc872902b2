/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLET_LAYERS_GPU_CONNECT_H
#define COLLET_LAYERS_GPU_CONNECT_H

#include "exec/exec.h"

/* Makes the connections of these calls of GPU communicators, puts their programs on the GPUs, and waits until all ranks have met. */
enum collet_result exec_connect(struct exec_call *calls, int ncalls);

#endif
