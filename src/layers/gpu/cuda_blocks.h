/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that collet has from CUDA. To free or unmap memory waits for every kernel that runs. Such a kernel may wait for the very rank
 * that frees the memory. So memory that is given back stays, and is taken again.
 *
 *    take ──▶ a block of this kind, GPU and size that was given back ──▶ if there is none, the caller makes one, and notes it
 *    give back ──▶ the block stays until no rank of the process is on a GPU; then it is freed
 *              └─▶ a mapped block also goes when no rank has work on its GPU, and a window or a new rank asks (gpu_rank_detach_all())
 *
 * Memory with a handle (cuda_share.c) is never freed: another process may still have it open. A mapped block is never taken again. If the
 * program resets the GPU, the context is gone with its blocks. They are not freed, because their addresses may belong to others by now.
 */
#ifndef COLLET_LAYERS_GPU_CUDA_BLOCKS_H
#define COLLET_LAYERS_GPU_CUDA_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

enum cuda_block {
    BLOCK_PLAIN,      /* cudaMalloc */
    BLOCK_PINNED,     /* pages of cudaHostRegister(); the pages are unmapped with the block */
    BLOCK_REGISTERED, /* like BLOCK_PINNED, but other processes have the pages too; such a block is never taken again */
    BLOCK_NAMED,      /* cudaMalloc, with a handle */
    BLOCK_OPENED,     /* opened by a handle of another process. This kind and the kinds below are mapped */
    BLOCK_MAPPED,     /* cuda_vmm.h */
    BLOCK_TEAM,       /* a struct gpu_team that has ended */
};

/* Sets the function that ends a team of kind BLOCK_TEAM, before its memory is freed. */
void cuda_blocks_end_teams_by(void (*end)(void *team));

/* Takes a block that was given back. NULL: there is none. */
void *cuda_block_take(enum cuda_block kind, int ordinal, size_t bytes);
/* Notes a block that the caller has made. False: there is no memory for the note. */
bool cuda_block_note(enum cuda_block kind, int ordinal, void *memory, size_t bytes);
void cuda_block_give_back(void *memory);
/* Frees a noted block at once. If it is mapped, first unmaps all blocks that were given back on its GPU. */
void cuda_block_free(void *memory);
/* Frees all blocks that were given back, except named ones. Call it when no rank of the process is on a GPU. */
void cuda_blocks_sweep(void);
/* The program has reset this GPU, which freed all of its memory. Forgets all blocks there. False: older ranks still use some blocks. */
bool cuda_blocks_forget(int ordinal);
/* Unmaps the mapped blocks that were given back on this GPU. Call it when no rank of the process has work there. */
void cuda_blocks_unmap(int ordinal);

#endif
