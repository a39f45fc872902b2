/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLET_LAYERS_GPU_CUDA_WORDS_H
#define COLLET_LAYERS_GPU_CUDA_WORDS_H

#include "layers/gpu/gpu.h"

/* See gpu_streams. */
bool gpu_cuda_has_words(void);
enum collet_result gpu_cuda_words(const struct gpu_word_op *ops, uint32_t nops, void *stream);

#endif
