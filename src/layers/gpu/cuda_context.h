/* SPDX-License-Identifier: Apache-2.0
 *
 * Which GPU a thread works with, for as long as a function of ours runs.
 *
 * cudaSetDevice() there and back would make a context on the caller's GPU too, be it one that the process never uses: some
 * hundred MB on GPU 0 for every process of a node. Pushing the context of our GPU, and popping it, leaves everything as it was.
 */
#ifndef COLLET_LAYERS_GPU_CUDA_CONTEXT_H
#define COLLET_LAYERS_GPU_CUDA_CONTEXT_H

#include "collet.h"

#include <stdint.h>

#define CUDA_GPUS_MAX 64 /* maximum number of GPUs of a process; ordinals are below it */

/* Makes the primary context of this GPU, if it is not there, and keeps it for as long as the process lives; or until the program resets
 * the GPU, which destroys it. */
enum collet_result cuda_context_make(int ordinal);

/* Returns the number of this GPU's context. No other context ever has it. 0: it was not made, or it was destroyed. */
uint64_t cuda_context_id(int ordinal);

/* The thread works with this GPU until cuda_context_pop(). False: it already does, or the GPU's context could not be made; then there is
 * nothing to pop. */
int cuda_context_push(int ordinal);
void cuda_context_pop(void);

#endif
