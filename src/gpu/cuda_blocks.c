/* SPDX-License-Identifier: Apache-2.0
 *
 * Not run on a GPU yet; it runs on the simulated one (tests/gpusim/).
 */
#include "gpu/cuda_blocks.h"

#include "base/os.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>

struct block {
    struct block *next;
    enum cuda_block kind;
    int ordinal;
    void *memory;
    size_t bytes;
    bool is_unused;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks;

/* With the lock. */
static struct block **block_at(const void *memory) {
    struct block **link = &blocks;
    while (*link != NULL && (*link)->memory != memory)
        link = &(*link)->next;
    return link;
}

static void block_end(struct block *block) {
    if (block->kind == BLOCK_PINNED)
        cudaFreeHost(block->memory);
    else if (block->kind == BLOCK_REGISTERED && cudaHostUnregister(block->memory) == cudaSuccess)
        os_memory_destroy(block->memory, block->bytes);
    else
        cudaFree(block->memory);
    free(block);
}

void *cuda_block_take(enum cuda_block kind, int ordinal, size_t bytes) {
    void *memory = NULL;
    pthread_mutex_lock(&lock);
    for (struct block *block = blocks; block != NULL && memory == NULL; block = block->next)
        if (block->is_unused && block->kind == kind && block->ordinal == ordinal && block->bytes == bytes) {
            block->is_unused = false;
            memory = block->memory;
        }
    pthread_mutex_unlock(&lock);
    return memory;
}

bool cuda_block_note(enum cuda_block kind, int ordinal, void *memory, size_t bytes) {
    struct block *block = malloc(sizeof(*block));
    if (block == NULL)
        return false;
    pthread_mutex_lock(&lock);
    *block = (struct block){blocks, kind, ordinal, memory, bytes, false};
    blocks = block;
    pthread_mutex_unlock(&lock);
    return true;
}

void cuda_block_give_back(void *memory) {
    pthread_mutex_lock(&lock);
    struct block *block = *block_at(memory);
    if (block != NULL)
        block->is_unused = true;
    pthread_mutex_unlock(&lock);
}

void cuda_block_free(void *memory) {
    pthread_mutex_lock(&lock);
    struct block **link = block_at(memory), *block = *link;
    if (block != NULL)
        *link = block->next;
    pthread_mutex_unlock(&lock);
    if (block != NULL)
        block_end(block);
}

void cuda_blocks_sweep(void) {
    struct block *unused = NULL;
    pthread_mutex_lock(&lock);
    for (struct block **link = &blocks; *link != NULL;) {
        struct block *block = *link;
        if (!block->is_unused || block->kind == BLOCK_NAMED) {
            link = &block->next;
            continue;
        }
        *link = block->next;
        block->next = unused;
        unused = block;
    }
    pthread_mutex_unlock(&lock);
    for (struct block *next; unused != NULL; unused = next) {
        next = unused->next;
        block_end(unused);
    }
}
