/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of the device executor (kernels/exec_cuda.cu), as the functions of CUDA's runtime name them. All take one
 * struct work_launch.
 */
#ifndef COLLET_GPU_KERNELS_H
#define COLLET_GPU_KERNELS_H

#include "base/types.h"

#define GPU_LANES 512 /* of a block, at most */

struct gpu_kernels {
    const void *copy;
    const void *reduce[COLLET_OP_COUNT][COLLET_TYPE_COUNT]; /* in the order of collet.h; AVG is SUM, with a divisor */
};
extern const struct gpu_kernels gpu_cuda_kernels;

#endif
