/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the FIFOs of wires lie. If a rank has connections with very many other ranks, each FIFO is shorter than a page.
 * Such FIFOs share blocks:
 *
 *    block   │ used, users │ FIFO │ FIFO │ FIFO │ unused │       freed when none of them has a user any more
 *
 * All connections of a communicator are closed together, when it ends. So a FIFO that is given back is not reused: the
 * block is freed when all its FIFOs are given back. A block owns whole pages, because drivers of NICs pin whole pages.
 */
#include "transport/wire.h"

#include "base/mapping.h"
#include "base/memory.h"
#include "seams/gpu.h"

#include <stdlib.h>
#include <string.h>

#define SHORT_BYTES 4096u
#define BLOCK_BYTES ((size_t)64 << 10) /* blocks begin at a multiple of their size */

struct short_block {
    size_t used;
    int users;
};

PROCESS_LOCK(blocks_lock);
static struct short_block *newest; /* the block with free room; NULL: none */

static size_t in_lines(size_t bytes) { return (bytes + FIFO_LINE_BYTES - 1) / FIFO_LINE_BYTES * FIFO_LINE_BYTES; }

static enum collet_result short_block_create(void) {
    struct short_block *block = aligned_alloc(BLOCK_BYTES, BLOCK_BYTES);
    if (block == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for short connections");
    memset(block, 0, BLOCK_BYTES);
    block->used = in_lines(sizeof *block);
    newest = block;
    return COLLET_SUCCESS;
}

static enum collet_result short_create(size_t bytes, void **memory_p) {
    SCOPED_LOCK(&blocks_lock);
    if (newest == NULL || newest->used + bytes > BLOCK_BYTES)
        COLLET_TRY(short_block_create());
    *memory_p = (char *)newest + newest->used;
    newest->used += in_lines(bytes);
    newest->users++;
    return COLLET_SUCCESS;
}

static void short_destroy(void *memory) {
    SCOPED_LOCK(&blocks_lock);
    struct short_block *block = (struct short_block *)(void *)((char *)memory - (uintptr_t)memory % BLOCK_BYTES);
    if (--block->users > 0)
        return;
    newest = newest == block ? NULL : newest;
    free(block);
}

enum collet_result wire_memory_create(const struct conn_owner *owner, size_t bytes, void **memory_p) {
    if (owner->gpu == NULL)
        return bytes < SHORT_BYTES ? short_create(bytes, memory_p) : os_memory_create(bytes, memory_p);
    return gpu_pinned_create(owner->gpu, bytes, memory_p);
}

void wire_memory_destroy(const struct conn_owner *owner, void *memory, size_t bytes) {
    if (memory == NULL)
        return;
    if (owner->gpu == NULL && bytes < SHORT_BYTES) {
        short_destroy(memory);
        return;
    }
    if (owner->gpu == NULL) {
        os_memory_destroy(memory, bytes);
        return;
    }
    gpu_pinned_destroy(owner->gpu, memory);
}
