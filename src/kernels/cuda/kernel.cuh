/* SPDX-License-Identifier: Apache-2.0
 *
 * The device executor's kernel. A grid is a launch of work.h, a block is a worker. Run on one H200 on 2026-11-26, never
 * between GPUs but on simulated ones (tests/gpusim/). block.cuh, which is all that happens here, also runs on the host, in
 * tests/layers/gpu/test_block.c.
 *
 *    exec_cuda.cu           the kernel that moves bytes, and the table of all kernels
 *    exec_cuda_reduce.cu    the kernels of one operator, one per type
 *    exec_cuda_team.cu      the kernels of sums that switches make
 */
#ifndef COLLET_KERNELS_CUDA_KERNEL_CUH
#define COLLET_KERNELS_CUDA_KERNEL_CUH

#include "kernels/cuda/block.cuh"
extern "C" {
#include "layers/gpu/kernels.h"
}

static_assert(GPU_LANES <= BLOCK_LANES_MAX, "each lane has a word");

template <class R>
__global__ void __launch_bounds__(GPU_LANES, 1) run_launch(const __grid_constant__ struct work_launch launch) {
    launch_run<R>(&block_shared, &launch, blockIdx.x);
}

#endif
