/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/ipc/gpu_heads.h"

#include "base/err.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/wait.h"
#include "layers/gpu/buffers.h"
#include "transport/ipc/gpu_fifos.h"

#include <stdlib.h>
#include <unistd.h>

#define HEADS_BYTES ((size_t)2 << 20) /* the smallest memory that has a handle of its own */
#define HEADS_WAIT_NS 2000000000u     /* maximum wait for heads that are still to come */

struct heads_block {
    char *memory; /* NULL: not allocated, or not attached */
    struct gpu_name name;
};

struct gpu_heads {
    struct heads_block own;
    bool refused; /* there was no memory for the block */
    uint64_t taken_bytes;
    struct heads_block *others; /* [rank] the rank's block, if it is attached */
};

enum collet_result gpu_heads_create(int nranks, struct gpu_heads **heads_p) {
    struct gpu_heads *heads;
    COLLET_TRY(memory_get(&heads, 1, sizeof(*heads), "no memory to note heads of connections"));
    enum collet_result result = memory_get(&heads->others, (size_t)nranks, sizeof(*heads->others),
                                           "no memory to note heads of %d ranks", nranks);
    if (result == COLLET_SUCCESS)
        *heads_p = heads;
    else
        free(heads);
    return result;
}

static bool has_block(const struct conn_owner *owner) {
    struct gpu_heads *heads = owner->heads;
    if (heads->own.memory != NULL || heads->refused)
        return !heads->refused;
    heads->refused =
        gpu_shared_create(owner->config->cumem_enable, HEADS_BYTES, (void **)&heads->own.memory, &heads->own.name) < 0;
    if (heads->refused)
        log_info(CONN, "rank %d polls heads on GPUs of other processes: %s", owner->rank, err_last());
    return !heads->refused;
}

bool gpu_heads_take(struct conn *conn, struct gpu_head_place *place) {
    struct gpu_heads *heads = conn->owner->heads;
    if (!has_block(conn->owner) || heads->taken_bytes == HEADS_BYTES)
        return false;
    char *head = heads->own.memory + heads->taken_bytes;
    if (conn_counter_init_on_gpu(conn, head) != COLLET_SUCCESS)
        return false;
    *place = (struct gpu_head_place){heads->own.name, heads->taken_bytes};
    heads->taken_bytes += FIFO_LINE_BYTES;
    conn->end.head = (uint64_t *)(void *)head;
    return true;
}

/* Can a head lie at this place? The place comes from another rank. A rank has only one block: if it is attached, its length is known. */
static bool head_is_there(const struct gpu_head_place *place, const struct heads_block *block) {
    const uint64_t bytes = block->memory != NULL ? block->name.bytes : place->name.bytes;
    return place->name.bytes == bytes && bytes >= FIFO_LINE_BYTES && place->offset <= bytes - FIFO_LINE_BYTES &&
           place->offset % FIFO_LINE_BYTES == 0;
}

enum collet_result gpu_heads_reach(struct conn *conn, const struct gpu_head_place *place) {
    struct heads_block *block = &conn->owner->heads->others[conn->peer];
    if (!head_is_there(place, block))
        return err_set(COLLET_ERR_INTERNAL, "rank %d has a head at byte %llu of a block of %llu: no head is there",
                       conn->peer, (unsigned long long)place->offset, (unsigned long long)place->name.bytes);
    if (block->memory == NULL)
        COLLET_TRY(conn->owner->gpu->driver->sharing->attach(&place->name, (void **)&block->memory));
    block->name = place->name;
    conn->end.head = (uint64_t *)(void *)(block->memory + place->offset);
    return COLLET_SUCCESS;
}

/* ---- the end ---- */

static bool is_here(const struct gpu_heads *heads, const struct conn *conn) {
    const uint64_t at = (uint64_t)((uintptr_t)conn->end.head - (uintptr_t)heads->own.memory);
    return conn->side == CONN_PRODUCER && conn->end_on_gpu != NULL && at < heads->taken_bytes;
}

/* Has the consumer read all sent slots? A kernel that has failed may have sent more slots than its end says. */
static bool has_come(const struct conn *conn) {
    const struct gpu_memory *memory = conn->owner->gpu->driver->memory;
    struct fifo_end end;
    uint64_t head;
    return memory->write(&end, conn->end_on_gpu, sizeof(end)) == COLLET_SUCCESS &&
           memory->write(&head, conn->end.head, sizeof(head)) == COLLET_SUCCESS && head == end.position;
}

static bool all_have_come(const struct conn_owner *owner) {
    struct waiter waiter = {.spin = 0};
    const struct conn *conn = owner->first;
    while (conn != NULL && boot_failed(owner->boot) == COLLET_SUCCESS && wait_idle_ns(&waiter) < HEADS_WAIT_NS)
        if (!is_here(owner->heads, conn) || has_come(conn))
            conn = conn->next;
        else
            wait_pause(&waiter);
    return conn == NULL;
}

static void end_own(const struct conn_owner *owner) {
    const struct heads_block *own = &owner->heads->own;
    if (own->memory == NULL)
        return;
    if (all_have_come(owner))
        owner->gpu->driver->sharing->destroy(own->memory, &own->name);
    else
        log_info(CONN, "rank %d keeps the memory of its heads: other ranks may still write there", owner->rank);
    if (own->name.fd >= 0)
        close(own->name.fd);
}

void gpu_heads_destroy(const struct conn_owner *owner) {
    struct gpu_heads *heads = owner->heads;
    if (heads == NULL)
        return;
    GPU_ENTERED(owner->gpu->driver, owner->gpu->ordinal);
    for (const struct heads_block *block = heads->others; block < heads->others + owner->nranks; block++)
        if (block->memory != NULL)
            owner->gpu->driver->sharing->detach(block->memory, &block->name);
    end_own(owner);
    free(heads->others);
    free(heads);
}
