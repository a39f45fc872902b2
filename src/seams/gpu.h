/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "gpu", which runs calls of ranks on GPUs. Without the layer gpu_find() refuses every GPU. So no rank is
 * on a GPU, and the other functions have nothing to do.
 */
#ifndef COLLET_SEAMS_GPU_H
#define COLLET_SEAMS_GPU_H

#include "collet.h"

#include <stdbool.h>
#include <stdint.h>

struct chan;
struct exec_request;
struct gpu_rank;
struct gpu_window;
struct post;

/* A place in a window of this rank. Calls that copy engines execute use it. */
struct gpu_window_place {
    const struct gpu_window *window; /* The window, which may be deregistered later */
    uint32_t number;                 /* Number of the window: 1 … LOAN_WINDOWS − 1, equal on all ranks */
    uint64_t offset;                 /* Offset of the place in the window, in bytes */
};

/* Converts COLLET_DEVICE_CUDA(ordinal) or COLLET_DEVICE_CUDA_CURRENT to an ordinal that exists here. Errors: UNSUPPORTED without driver or
 * GPU; INVALID_ARGUMENT if there is no such GPU. argument: the name in the error text. */
enum collet_result gpu_find(int device, const char *argument, int *ordinal_p);

/* Allocates zeroed host memory that the rank's GPU can access. */
enum collet_result gpu_pinned_create(const struct gpu_rank *rank, size_t bytes, void **memory_p);
void gpu_pinned_destroy(const struct gpu_rank *rank, void *memory);

/* Launches all posts of communicators on GPUs, and ignores other posts. On a failure every communicator of the posts fails, also one on
 * host memory, because the calls of a group are one unit. */
enum collet_result launch_run(struct post *posts, int nposts);

#endif
