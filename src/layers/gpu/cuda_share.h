/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda.c's part for memory that other processes attach: see gpu.h.
 */
#ifndef COLLET_LAYERS_GPU_CUDA_SHARE_H
#define COLLET_LAYERS_GPU_CUDA_SHARE_H

#include "layers/gpu/gpu.h"

enum collet_result cuda_shared_create(size_t bytes, bool by_fd, void **memory_p, struct gpu_name *name);
void cuda_shared_destroy(void *memory, const struct gpu_name *name);
enum collet_result cuda_attach(const struct gpu_name *name, void **memory_p);
void cuda_detach(void *memory, const struct gpu_name *name);

/* cuda.c: zeroes memory, in a stream that waits for no other stream. */
enum collet_result cuda_clear(void *memory, size_t bytes);

#endif
