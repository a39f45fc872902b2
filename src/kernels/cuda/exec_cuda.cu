/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel that moves bytes, those of one-sided calls, and the table of all kernels. The Makefile says in EXEC_CODE for which GPUs they are,
 * and in EXEC_TEAM_SUM what finds those of teams (NULL: this compiler makes none).
 */
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/signals.cuh"

__global__ void run_signals(const __grid_constant__ struct signal_launch launch) { signals_run(&launch); }

__global__ void __launch_bounds__(GPU_LANES, 1) run_pieces(const __grid_constant__ struct piece_launch launch) {
    pieces_run(&launch, blockIdx.x);
}

#define DECLARE(OP, op, ...) extern "C" const void *const exec_cuda_##op[COLLET_TYPE_COUNT];
COLLET_OPS(DECLARE)

extern "C" const void *exec_cuda_team_sum(int op, int type);

#define ROW(OP, op, runs, kernel, ...) exec_cuda_##kernel,
extern "C" const struct gpu_kernels gpu_cuda_kernels = {
    EXEC_CODE,
    (const void *)run_launch<copying>,
    (const void *)run_signals,
    (const void *)run_pieces,
    {COLLET_OPS(ROW)},
    EXEC_TEAM_SUM,
};
