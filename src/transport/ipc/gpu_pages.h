/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU memory for slots that NICs read and write. Drivers of GPUs allocate 2 MiB at least, aligned to a page of the GPU.
 * Drivers of NICs pin pages of 64 KiB. So small connections share a block.
 *
 *    block of 2 MiB    │ connection A │ B │ free │ C … │     pages of 64 KiB; a bit says whether a page is taken
 *    longer            │ connection D                │     a block of its own
 */
#ifndef COLLET_TRANSPORT_IPC_GPU_PAGES_H
#define COLLET_TRANSPORT_IPC_GPU_PAGES_H

#include "layers/gpu/gpu.h"

#define GPU_PAGE_BYTES ((size_t)64 << 10)

static inline size_t gpu_pages_bytes(size_t bytes) {
    return (bytes + GPU_PAGE_BYTES - 1) / GPU_PAGE_BYTES * GPU_PAGE_BYTES;
}

/* Takes whole pages of the GPU that is entered. The pages still have the content of their earlier use. */
enum collet_result gpu_pages_take(const struct gpu_rank *gpu, size_t bytes, void **memory_p);
void gpu_pages_give_back(const struct gpu_rank *gpu, void *memory, size_t bytes); /* NULL is fine */

#endif
