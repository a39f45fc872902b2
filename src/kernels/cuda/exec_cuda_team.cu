/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of sums that switches make (block_team.cuh): for GPUs from sm_90 on, with a compiler of CUDA 12.1 or later. The
 * Makefile compiles this file for no others.
 */
#include "kernels/cuda/kernel.cuh"

#define TEAM_ROW(TYPE)                                                                                                 \
    case COLLET_##TYPE: return (const void *)run_launch<team_sum<COLLET_##TYPE>>;

/* Averages of 16-bit types are for lanes (block_team.cuh). */
extern "C" const void *exec_cuda_team_sum(int op, int type) {
    if (op != COLLET_SUM && !(op == COLLET_AVG && type == COLLET_FLOAT32))
        return NULL;
    switch (type) {
        TEAM_ROW(FLOAT32)
        TEAM_ROW(FLOAT16)
        TEAM_ROW(BFLOAT16)
    }
    return NULL;
}
