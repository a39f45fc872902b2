/* SPDX-License-Identifier: Apache-2.0
 *
 * The device executor: one kernel for every type × operator, and one that moves bytes. A grid is a launch of work.h, a
 * block is a worker.
 *
 * Compiled for every architecture that nvcc knows from 7.0 on. Not run on a GPU yet; block.cuh, which is all that happens
 * here, runs on the host in tests/unit/test_block.c.
 */
#include "kernels/block.cuh"
extern "C" {
#include "gpu/kernels.h"
}

template <class R>
__global__ void __launch_bounds__(GPU_LANES, 1) run_launch(const __grid_constant__ struct work_launch launch) {
    __shared__ struct block_memory memory;
    launch_run<R>(&memory, &launch, blockIdx.x);
}

#define KERNEL(type, op) (const void *)run_launch<reduction<type, op>>
#define ROW_SUM(TYPE, ...) KERNEL(COLLET_##TYPE, COLLET_SUM),
#define ROW_PROD(TYPE, ...) KERNEL(COLLET_##TYPE, COLLET_PROD),
#define ROW_MIN(TYPE, ...) KERNEL(COLLET_##TYPE, COLLET_MIN),
#define ROW_MAX(TYPE, ...) KERNEL(COLLET_##TYPE, COLLET_MAX),
#define ROW_AVG(TYPE, ...) KERNEL(COLLET_##TYPE, COLLET_SUM),
#define ROW(OP, op) {COLLET_TYPES(ROW_##OP)},
extern "C" const struct gpu_kernels gpu_cuda_kernels = {
    (const void *)run_launch<copying>,
    {COLLET_OPS(ROW)},
};
