/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/ipc/gpu_pages.h"

#include "base/call_lock.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdlib.h>

#define BLOCK_PAGES 32
#define BLOCK_BYTES (BLOCK_PAGES * GPU_PAGE_BYTES)

struct pages_block {
    struct pages_block *next;
    int ordinal;
    char *memory;
    uint32_t taken; /* bits by page */
};

PROCESS_LOCK(blocks_lock);
static struct pages_block *blocks;

static uint32_t bits_of(size_t pages) { return pages == BLOCK_PAGES ? UINT32_MAX : (1u << pages) - 1; }

/* Finds `pages` free pages in a row. Returns the first; −1: there are none. */
static int find_run(const struct pages_block *block, size_t pages) {
    for (int first = 0; first + (int)pages <= BLOCK_PAGES; first++)
        if ((block->taken & bits_of(pages) << first) == 0)
            return first;
    return -1;
}

static enum collet_result block_create(const struct gpu_rank *gpu, struct pages_block **block_p) {
    struct pages_block *block;
    COLLET_TRY(memory_get(&block, 1, sizeof *block, "no memory to note a block of GPU %d", gpu->ordinal));
    enum collet_result result = gpu->driver->memory->create(BLOCK_BYTES, (void **)&block->memory);
    if (result != COLLET_SUCCESS) {
        free(block);
        return result;
    }
    block->ordinal = gpu->ordinal;
    block->next = blocks;
    *block_p = blocks = block;
    return COLLET_SUCCESS;
}

enum collet_result gpu_pages_take(const struct gpu_rank *gpu, size_t bytes, void **memory_p) {
    const size_t pages = gpu_pages_bytes(bytes) / GPU_PAGE_BYTES;
    if (pages > BLOCK_PAGES)
        return gpu->driver->memory->create(pages * GPU_PAGE_BYTES, memory_p);
    SCOPED_LOCK(&blocks_lock);
    struct pages_block *block = blocks;
    while (block != NULL && (block->ordinal != gpu->ordinal || find_run(block, pages) < 0))
        block = block->next;
    if (block == NULL)
        COLLET_TRY(block_create(gpu, &block));
    const int first = find_run(block, pages);
    block->taken |= bits_of(pages) << first;
    *memory_p = block->memory + (size_t)first * GPU_PAGE_BYTES;
    return COLLET_SUCCESS;
}

static bool is_within(const struct pages_block *block, const void *memory) {
    return (const char *)memory >= block->memory && (const char *)memory < block->memory + BLOCK_BYTES;
}

void gpu_pages_give_back(const struct gpu_rank *gpu, void *memory, size_t bytes) {
    const size_t pages = gpu_pages_bytes(bytes) / GPU_PAGE_BYTES;
    if (memory == NULL)
        return;
    if (pages > BLOCK_PAGES) {
        gpu->driver->memory->destroy(memory);
        return;
    }
    SCOPED_LOCK(&blocks_lock);
    struct pages_block **link = &blocks;
    while (!is_within(*link, memory))
        link = &(*link)->next;
    struct pages_block *block = *link;
    block->taken &= ~(bits_of(pages) << ((size_t)((char *)memory - block->memory) / GPU_PAGE_BYTES));
    if (block->taken != 0)
        return;
    *link = block->next;
    gpu->driver->memory->destroy(block->memory);
    free(block);
}
