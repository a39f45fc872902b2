/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that collet has from CUDA. To free it would wait for every kernel that runs, also for one that waits for the rank that
 * frees it. So what is given back stays, and is taken again.
 *
 *    take ──▶ one that was given back, of this kind, GPU and size ──▶ else the caller makes one, and notes it
 *    give back ──▶ until no rank of the process is on a GPU, and then it is freed
 *
 * Memory with a name (cuda_share.c) is never freed: another process may still have it open.
 */
#ifndef COLLET_GPU_CUDA_BLOCKS_H
#define COLLET_GPU_CUDA_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

enum cuda_block {
    BLOCK_PLAIN,      /* cudaMalloc */
    BLOCK_PINNED,     /* cudaHostAlloc */
    BLOCK_REGISTERED, /* cudaHostRegister, of pages that are unmapped with it; never taken again */
    BLOCK_NAMED,      /* cudaMalloc, with a handle */
};

/* NULL: there is none. */
void *cuda_block_take(enum cuda_block kind, int ordinal, size_t bytes);
/* The caller has made it. False: no memory to note it. */
bool cuda_block_note(enum cuda_block kind, int ordinal, void *memory, size_t bytes);
void cuda_block_give_back(void *memory);
/* Frees one that was noted, now. */
void cuda_block_free(void *memory);
/* Frees what has been given back. No rank of the process is on a GPU. */
void cuda_blocks_sweep(void);

#endif
