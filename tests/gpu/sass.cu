/* SPDX-License-Identifier: Apache-2.0
 *
 * A few of the kernels, for sass.sh: the one that copies, and sums of the types that training uses most.
 */
#include "kernels/cuda/kernel.cuh"

#define KERNEL(...) template __global__ void run_launch<__VA_ARGS__>(const __grid_constant__ struct work_launch launch);
KERNEL(copying)
KERNEL(reduction<COLLET_FLOAT32, COLLET_SUM>)
KERNEL(reduction<COLLET_BFLOAT16, COLLET_SUM>)
