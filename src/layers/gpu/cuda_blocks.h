/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that collet has from CUDA. To free it, or to unmap it, would wait for every kernel that runs, also for one that waits for
 * the rank that does it. So what is given back stays, and is taken again.
 *
 *    take ──▶ one that was given back, of this kind, GPU and size ──▶ else the caller makes one, and notes it
 *    give back ──▶ until no rank of the process is on a GPU, and then it is freed
 *              └─▶ what is mapped: or until none of them has work on its GPU, when a window or a new rank asks (gpu_rank_detach_all())
 *
 * Memory with a handle (cuda_share.c) is never freed: another process may still have it open. What is mapped is never taken again. And what
 * was in a context that is no more, since the program has reset the GPU, is not freed either: its address may be somebody else's by now.
 */
#ifndef COLLET_LAYERS_GPU_CUDA_BLOCKS_H
#define COLLET_LAYERS_GPU_CUDA_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

enum cuda_block {
    BLOCK_PLAIN,      /* cudaMalloc */
    BLOCK_PINNED,     /* pages of cudaHostRegister(), which are unmapped with it */
    BLOCK_REGISTERED, /* like BLOCK_PINNED, but other processes have the pages too; it is never taken again */
    BLOCK_NAMED,      /* cudaMalloc, with a handle */
    BLOCK_OPENED,     /* opened by a handle of another process. This kind and those below are mapped */
    BLOCK_MAPPED,     /* cuda_vmm.h */
    BLOCK_TEAM,       /* a struct gpu_team that has ended */
};

/* Sets the function that ends a team of kind BLOCK_TEAM, before its memory is freed. */
void cuda_blocks_end_teams_by(void (*end)(void *team));

/* NULL: there is none. */
void *cuda_block_take(enum cuda_block kind, int ordinal, size_t bytes);
/* Notes a block that the caller has made. False: no memory to note it. */
bool cuda_block_note(enum cuda_block kind, int ordinal, void *memory, size_t bytes);
void cuda_block_give_back(void *memory);
/* Frees a noted block at once. For a mapped one, also unmaps all that was given back before on its GPU. */
void cuda_block_free(void *memory);
/* Frees everything that was given back. Call it when no rank of the process is on a GPU. */
void cuda_blocks_sweep(void);
/* The program has reset this GPU, and so has freed all of its memory: forgets all of it. False: older ranks still use some of it. */
bool cuda_blocks_forget(int ordinal);
/* Unmaps what was given back on this GPU. Call it when no rank of the process has work there. */
void cuda_blocks_unmap(int ordinal);

#endif
