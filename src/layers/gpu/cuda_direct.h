/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda.c's part for NICs that read and write memory of GPUs (GPUDirect RDMA): see gpu.h.
 */
#ifndef COLLET_LAYERS_GPU_CUDA_DIRECT_H
#define COLLET_LAYERS_GPU_CUDA_DIRECT_H

#include "layers/gpu/gpu.h"

struct gpu_direct gpu_cuda_direct(int ordinal);
int gpu_cuda_export_dmabuf(void *memory, size_t bytes);
enum collet_result gpu_cuda_flush(void);

#endif
