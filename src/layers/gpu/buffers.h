/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers: memory of GPUs that programs get from collet (collet_mem_alloc()). If the driver gives such memory a name, other
 * processes can attach it:
 *
 *    create ──▶ the program's ── hold ──▶ in a window, perhaps in several: other processes may have it open
 *                 │        ▲                       │
 *                 ▼        └──────── release ──────┘
 *              destroy     while nothing holds it
 *
 * In CUDA, it is an error to free memory while another process has its handle open. So collet does not free a buffer if its window
 * has ended without a word from all ranks: collet keeps the buffer for its own later use.
 */
#ifndef COLLET_LAYERS_GPU_BUFFERS_H
#define COLLET_LAYERS_GPU_BUFFERS_H

#include "layers/gpu/gpu.h"

struct gpu_buffer {
    struct gpu_buffer *next;
    char *memory;
    size_t bytes;
    int ordinal;
    bool is_named; /* other processes can attach the whole buffer by its name. The buffer owns the name's descriptor */
    struct gpu_name name;
    int holders;
    bool may_be_open; /* no holder is left here, but another process may still have the buffer open by handle */
};

/* Makes a zeroed buffer on a GPU that is open. */
enum collet_result gpu_buffer_create(int ordinal, size_t bytes, void **memory_p);
/* Frees a buffer. False: no buffer begins there. INVALID_USAGE: a window has it, so it stays. May wait for the GPU. */
bool gpu_buffer_destroy(void *memory, enum collet_result *result);
/* Gives back a buffer of collet itself, which no window has. Waits for nothing: the memory may be kept for later. NULL is fine. */
void gpu_buffer_give_back(void *memory);

/* Does the address lie in a buffer on this GPU? GPUs of the process that have opened it as a peer reach all of the buffer. */
bool gpu_buffer_has(int ordinal, const void *address);

/* Finds and holds the buffer on this GPU in which all these bytes lie; NULL: there is none. The buffer stays until it is released. */
struct gpu_buffer *gpu_buffer_hold(int ordinal, const void *address, size_t bytes);
/* closed: this holder knows that no other process has the buffer open any more. */
void gpu_buffer_release(struct gpu_buffer *buffer, bool closed);

/* Makes memory with a name, on the GPU that is entered; see gpu_sharing.create(). COLLET_CUMEM_ENABLE says whether the name is a handle or
 * a descriptor; without it, the driver decides. */
enum collet_result gpu_shared_create(int64_t cumem_enable, size_t bytes, void **memory_p, struct gpu_name *name);

#endif
