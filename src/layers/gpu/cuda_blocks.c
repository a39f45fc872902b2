/* SPDX-License-Identifier: Apache-2.0
 *
 * Run on one H200 on 2026-11-26, and on the simulated machine (tests/gpusim/).
 */
#include "layers/gpu/cuda_blocks.h"

#include "base/mapping.h"
#include "layers/gpu/cuda_context.h"
#include "layers/gpu/cuda_vmm.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>

#define ALL_GPUS (-1)

struct cuda_memory {
    struct cuda_memory *next;
    enum cuda_block kind;
    int ordinal;
    uint64_t context; /* cuda_context_id() of its GPU; 0: unknown */
    void *memory;
    size_t bytes;
    bool is_unused;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_memory *blocks;

/* Finds a block in use. The caller holds the lock. If a process opens memory twice, CUDA gives the same address, and counts the openings. */
static struct cuda_memory **block_at(const void *memory) {
    struct cuda_memory **link = &blocks;
    while (*link != NULL && ((*link)->memory != memory || (*link)->is_unused))
        link = &(*link)->next;
    return link;
}

static bool is_of_host(const struct cuda_memory *block) {
    return block->kind == BLOCK_PINNED || block->kind == BLOCK_REGISTERED;
}

static bool is_mapped(const struct cuda_memory *block) { return block->kind >= BLOCK_OPENED; }

/* A process must close opened memory on the GPU on which it has opened it. */
static void close_opened(const struct cuda_memory *block) {
    const int pushed = cuda_context_push(block->ordinal);
    cudaIpcCloseMemHandle(block->memory);
    if (pushed)
        cuda_context_pop();
}

static void unregister(const struct cuda_memory *block) {
    if (cudaHostUnregister(block->memory) == cudaSuccess)
        os_memory_destroy(block->memory, block->bytes);
}

/* The program has reset the GPU. The address on the GPU may belong to others now. Only pages of the host are still ours. */
static void block_is_lost(struct cuda_memory *block) {
    if (is_of_host(block))
        os_memory_destroy(block->memory, block->bytes);
    if (block->kind == BLOCK_TEAM)
        free(block->memory);
    free(block);
}

static void (*end_team)(void *team);
void cuda_blocks_end_teams_by(void (*end)(void *team)) { end_team = end; }

static void block_end(struct cuda_memory *block) {
    if (block->context != 0 && cuda_context_id(block->ordinal) != block->context) {
        block_is_lost(block);
        return;
    }
    switch (block->kind) {
    case BLOCK_PINNED:
    case BLOCK_REGISTERED: unregister(block); break;
    case BLOCK_OPENED: close_opened(block); break;
    case BLOCK_MAPPED: cuda_vmm_unmap(block->memory, block->bytes); break;
    case BLOCK_TEAM:
        end_team(block->memory);
        free(block->memory);
        break;
    case BLOCK_PLAIN:
    case BLOCK_NAMED: cudaFree(block->memory); break;
    }
    free(block);
}

void *cuda_block_take(enum cuda_block kind, int ordinal, size_t bytes) {
    void *memory = NULL;
    pthread_mutex_lock(&lock);
    for (struct cuda_memory *block = blocks; block != NULL && memory == NULL; block = block->next)
        if (block->is_unused && block->kind == kind && block->ordinal == ordinal && block->bytes == bytes) {
            block->is_unused = false;
            memory = block->memory;
        }
    pthread_mutex_unlock(&lock);
    return memory;
}

bool cuda_block_note(enum cuda_block kind, int ordinal, void *memory, size_t bytes) {
    struct cuda_memory *block = malloc(sizeof(*block));
    if (block == NULL)
        return false;
    pthread_mutex_lock(&lock);
    *block = (struct cuda_memory){blocks, kind, ordinal, cuda_context_id(ordinal), memory, bytes, false};
    blocks = block;
    pthread_mutex_unlock(&lock);
    return true;
}

void cuda_block_give_back(void *memory) {
    pthread_mutex_lock(&lock);
    struct cuda_memory *block = *block_at(memory);
    if (block != NULL)
        block->is_unused = true;
    pthread_mutex_unlock(&lock);
}

void cuda_block_free(void *memory) {
    pthread_mutex_lock(&lock);
    struct cuda_memory **link = block_at(memory), *block = *link;
    if (block != NULL)
        *link = block->next;
    pthread_mutex_unlock(&lock);
    if (block != NULL && is_mapped(block)) /* a team may still have the memory bound */
        cuda_blocks_unmap(block->ordinal);
    if (block != NULL)
        block_end(block);
}

static bool goes(const struct cuda_memory *block, int ordinal) {
    return block->is_unused &&
           (ordinal == ALL_GPUS ? block->kind != BLOCK_NAMED : is_mapped(block) && block->ordinal == ordinal);
}

/* The newest first: a team ends before the memory that it has bound. */
static void sweep(int ordinal) {
    struct cuda_memory *gone = NULL, **end = &gone;
    pthread_mutex_lock(&lock);
    for (struct cuda_memory **link = &blocks; *link != NULL;) {
        struct cuda_memory *block = *link;
        if (!goes(block, ordinal)) {
            link = &block->next;
            continue;
        }
        *link = block->next;
        *end = block;
        end = &block->next;
    }
    *end = NULL;
    pthread_mutex_unlock(&lock);
    for (struct cuda_memory *next; gone != NULL; gone = next) {
        next = gone->next;
        block_end(gone);
    }
}

/* Does a rank still use pages of the host on this GPU? Each rank has such pages. The caller holds the lock. */
static bool ranks_have_some(int ordinal) {
    const struct cuda_memory *block = blocks;
    while (block != NULL && (block->ordinal != ordinal || !is_of_host(block) || block->is_unused))
        block = block->next;
    return block != NULL;
}

bool cuda_blocks_forget(int ordinal) {
    pthread_mutex_lock(&lock);
    const bool forgets = !ranks_have_some(ordinal);
    for (struct cuda_memory **link = &blocks; forgets && *link != NULL;) {
        struct cuda_memory *block = *link;
        if (block->ordinal != ordinal) {
            link = &block->next;
            continue;
        }
        *link = block->next;
        block_is_lost(block);
    }
    pthread_mutex_unlock(&lock);
    return forgets;
}

void cuda_blocks_sweep(void) { sweep(ALL_GPUS); }
void cuda_blocks_unmap(int ordinal) { sweep(ordinal); }
