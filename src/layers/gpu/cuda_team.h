/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda.c's part for teams of GPUs: see gpu.h.
 */
#ifndef COLLET_LAYERS_GPU_CUDA_TEAM_H
#define COLLET_LAYERS_GPU_CUDA_TEAM_H

#include "layers/gpu/gpu.h"

extern const struct gpu_teams cuda_teams;

/* Has the library kernels for teams, and has the GPU switches that sum and store? It is asked once, when the GPU is opened; before that, the
 * answer is false. */
void cuda_team_open(int ordinal);
bool cuda_can_team(int ordinal);
/* Memory of so many bytes, or of a multiple, can be bound by a GPU: `page`, or what a team needs beyond it. */
size_t cuda_team_granule(int ordinal, size_t page);

#endif
