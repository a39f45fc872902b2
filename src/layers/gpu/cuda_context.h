/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the GPU with which a thread works while a function of ours runs.
 *
 * Why not cudaSetDevice() there and back? It would make a context on the caller's GPU too, even if the process never uses that GPU:
 * some hundred MB on GPU 0 for every process of a node. To push our GPU's context, and to pop it, leaves everything as it was.
 */
#ifndef COLLET_LAYERS_GPU_CUDA_CONTEXT_H
#define COLLET_LAYERS_GPU_CUDA_CONTEXT_H

#include "collet.h"

#include <stdint.h>

#define CUDA_GPUS_MAX 64 /* maximum number of GPUs of a process; ordinals are below it */

/* Makes the primary context of this GPU, if it is not there. Keeps the context until the process ends, or until the program resets the
 * GPU: a reset destroys the context. */
enum collet_result cuda_context_make(int ordinal);

/* Returns the number of this GPU's context. No other context ever has this number. 0: the context was not made, or it was destroyed. */
uint64_t cuda_context_id(int ordinal);

/* The thread works with this GPU until cuda_context_pop(). False: there is nothing to pop. Either the thread already works with this GPU,
 * or the GPU's context could not be made. */
int cuda_context_push(int ordinal);
void cuda_context_pop(void);

#endif
