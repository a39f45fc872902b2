/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/ipc/gpu_fifos.h"

#include "base/call_lock.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdlib.h>

#define FEWEST_PIECES 8u
#define MOST_PIECES 64u

struct slab {
    struct slab *next;
    int ordinal;
    size_t piece_bytes;
    uint32_t npieces;
    char *memory;
    uint64_t taken, written; /* one bit per piece. taken: the piece is in use; written: it was used before */
};

PROCESS_LOCK(slabs_lock);
static struct slab *slabs;

static bool is_like(const struct slab *slab, int ordinal, size_t bytes) {
    return slab->ordinal == ordinal && slab->piece_bytes == bytes;
}

static uint64_t all_of(const struct slab *slab) {
    return slab->npieces == MOST_PIECES ? UINT64_MAX : (1ull << slab->npieces) - 1;
}

/* A new slab has as many pieces as all slabs before it. So there are few slabs, and at least half of the memory is in use. */
static uint32_t pieces_wanted(int ordinal, size_t bytes) {
    uint32_t n = 0;
    for (const struct slab *slab = slabs; slab != NULL; slab = slab->next)
        n += is_like(slab, ordinal, bytes) ? slab->npieces : 0;
    return n < FEWEST_PIECES ? FEWEST_PIECES : n > MOST_PIECES ? MOST_PIECES : n;
}

/* Creates a slab. If a GPU has no room for so many pieces, it may have room for one. */
static enum collet_result slab_create(const struct gpu_driver *driver, int ordinal, size_t bytes,
                                      struct slab **slab_p) {
    struct slab *slab;
    COLLET_TRY(memory_get(&slab, 1, sizeof *slab, "no memory to note slots on GPU %d", ordinal));
    *slab = (struct slab){
        .next = slabs, .ordinal = ordinal, .piece_bytes = bytes, .npieces = pieces_wanted(ordinal, bytes)};
    enum collet_result result = driver->memory->create(slab->npieces * bytes, (void **)&slab->memory);
    if (result != COLLET_SUCCESS && slab->npieces > 1) {
        slab->npieces = 1;
        result = driver->memory->create(bytes, (void **)&slab->memory);
    }
    if (result == COLLET_SUCCESS)
        *slab_p = slabs = slab;
    else
        free(slab);
    return result;
}

static struct slab *slab_with_room(int ordinal, size_t bytes) {
    struct slab *slab = slabs;
    while (slab != NULL && (!is_like(slab, ordinal, bytes) || slab->taken == all_of(slab)))
        slab = slab->next;
    return slab;
}

enum collet_result gpu_fifo_take(const struct gpu_driver *driver, int ordinal, size_t bytes, void **memory_p) {
    SCOPED_LOCK(&slabs_lock);
    struct slab *slab = slab_with_room(ordinal, bytes);
    if (slab == NULL)
        COLLET_TRY(slab_create(driver, ordinal, bytes, &slab));
    const uint32_t piece = (uint32_t)__builtin_ctzll(~slab->taken);
    char *memory = slab->memory + piece * bytes;
    if (slab->written >> piece & 1)
        COLLET_TRY(driver->memory->clear(memory, bytes));
    slab->taken |= 1ull << piece;
    slab->written |= 1ull << piece;
    *memory_p = memory;
    return COLLET_SUCCESS;
}

static bool slab_has(const struct slab *slab, const char *memory) {
    return memory >= slab->memory && memory < slab->memory + slab->npieces * slab->piece_bytes;
}

void gpu_fifo_give_back(const struct gpu_driver *driver, void *memory) {
    if (memory == NULL)
        return;
    SCOPED_LOCK(&slabs_lock);
    struct slab **link = &slabs;
    while (!slab_has(*link, memory))
        link = &(*link)->next;
    struct slab *slab = *link;
    slab->taken &= ~(1ull << (size_t)((char *)memory - slab->memory) / slab->piece_bytes);
    if (slab->taken != 0)
        return;
    *link = slab->next;
    driver->memory->destroy(slab->memory);
    free(slab);
}

/* ---- what connections keep there ---- */

enum collet_result conn_counter_init_on_gpu(const struct conn *conn, void *counter) {
    const uint64_t step = (uint64_t)conn->owner->config->first_step;
    if (step == 0)
        return COLLET_SUCCESS; /* the memory was zeroed */
    return conn->owner->gpu->driver->memory->write(counter, &step, sizeof(step));
}

enum collet_result conn_memory_init_on_gpu(const struct conn *conn, void *memory) {
    COLLET_TRY(conn_counter_init_on_gpu(conn, memory));
    return conn_counter_init_on_gpu(conn, (char *)memory + conn_layout(conn)->head_at);
}

enum collet_result conn_err_not_whole(const struct conn *conn) {
    return err_set(
        COLLET_ERR_SYSTEM,
        "when the communicator was created, the GPUs of ranks %d and %d were said to reach each other by NVLink, "
        "and now they do not; with COLLET_PROTO=LL,Simple they go by another way",
        conn->peer, conn->owner->rank);
}
