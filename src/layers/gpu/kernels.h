/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of the device executor, as the functions of CUDA's runtime name them. `signals` takes one struct signal_launch
 * (kernels/cuda/signal_work.h), and runs with one lane. `pieces` takes one struct piece_launch (kernels/cuda/piece_work.h). All others take one
 * struct work_launch.
 */
#ifndef COLLET_LAYERS_GPU_KERNELS_H
#define COLLET_LAYERS_GPU_KERNELS_H

#include "base/types.h"

#define GPU_LANES 512 /* maximum number of lanes of a block */

struct gpu_kernels {
    const char *code; /* its GPUs: "sm_90" is machine code, "compute_90" is PTX, which the driver compiles */
    const void *copy;
    const void *signals;
    const void *pieces;
    const void *const
        *reduce[COLLET_OP_COUNT]; /* an array per operator, with a kernel per type; NULL: no kernel for this type */
    /* Kernels for sums by switches, for GPUs with teams (gpu.h); NULL: there is no such sum, or no kernel. */
    const void *(*team_sum)(int op, int type);
};
extern const struct gpu_kernels gpu_cuda_kernels;

#endif
