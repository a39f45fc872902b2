/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda.c's part for teams of GPUs: see gpu.h.
 */
#ifndef COLLET_LAYERS_GPU_CUDA_TEAM_H
#define COLLET_LAYERS_GPU_CUDA_TEAM_H

#include "layers/gpu/gpu.h"

extern const struct gpu_teams cuda_teams;

/* Has the library kernels for teams, and has the GPU switches that sum and store? This is looked up once, when the GPU is opened. Before
 * that, gpu_teams.can_join() says false. */
void cuda_team_open(int ordinal);
bool cuda_can_team(int ordinal);
/* Returns a number of bytes, at least `page`. A GPU can bind memory whose length is a multiple of it. */
size_t cuda_team_granule(int ordinal, size_t page);

#endif
