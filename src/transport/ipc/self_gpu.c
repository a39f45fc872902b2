/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport self between ranks on GPUs of one process. This chooses the memory of a connection:
 *
 *    the producer's GPU reaches the consumer's   the FIFO on the consumer's GPU; its head on the producer's GPU, which polls it
 *    it does not                                 both in pinned host memory
 *
 * Payloads are lent (layers/memory/loan.h) if both ranks use one GPU, or if NVLink joins the two GPUs. A loan needs only the address.
 */
#include "transport/self.h"

#include "base/log.h"
#include "base/memory.h"
#include "transport/ipc/gpu_fifos.h"

#include <stdlib.h>

struct gpu_memory_of {
    struct self_memory shared;
    const struct gpu_driver *driver;
    int ordinal; /* CUDA ordinal of the consumer's GPU */
    bool pinned; /* the memory is pinned host memory */
};

static struct gpu_memory_of *of(struct self_memory *memory) { return (struct gpu_memory_of *)memory; }

/* Consumer: the CUDA ordinal of the producer's GPU. */
static int producer_ordinal(const struct conn *conn) {
    return conn->owner->peers[conn->peer].device - COLLET_DEVICE_CUDA(0);
}

/* Chooses memory that the producer's GPU can write. *pinned: it is host memory. */
static enum collet_result choose_place(const struct conn *conn, bool *pinned) {
    const struct gpu_rank *gpu = conn->owner->gpu;
    int producer = producer_ordinal(conn);
    *pinned = !gpu->driver->sharing->open_peer(producer, gpu->ordinal);
    if (!*pinned)
        return COLLET_SUCCESS;
    if (conn->owner->whole_lines)
        return conn_err_not_whole(conn);
    log_info(CONN, "channel %d lane %d: rank %d <- %d: slots in pinned host memory: GPU %d does not reach GPU %d",
             conn->channel, conn->lane, conn->owner->rank, conn->peer, producer, gpu->ordinal);
    return COLLET_SUCCESS;
}

/* How may the consumer read payloads where they lie? Its GPU must reach the producer's memory, by a link that has native atomics. */
static enum loan_way way_to_borrow(const struct conn *conn, bool pinned) {
    const struct gpu_rank *gpu = conn->owner->gpu;
    int producer = producer_ordinal(conn);
    if (!conn_is_direct(conn->owner, "process") || pinned)
        return LOAN_NONE;
    if (producer == gpu->ordinal)
        return LOAN_GPU;
    return gpu->driver->sharing->keeps_lines(gpu->ordinal, producer) &&
                   gpu->driver->sharing->open_peer(gpu->ordinal, producer)
               ? LOAN_PROCESS
               : LOAN_NONE;
}

/* Places the head as gpu_heads.h says. Both GPUs are of this process, so the consumer does it. */
static enum collet_result head_create(const struct conn *conn, struct gpu_memory_of *memory) {
    const int producer = producer_ordinal(conn);
    if (producer == memory->ordinal || !memory->driver->sharing->open_peer(memory->ordinal, producer))
        return COLLET_SUCCESS;
    GPU_ENTERED(memory->driver, producer);
    COLLET_TRY(memory->driver->memory->create(FIFO_LINE_BYTES, &memory->shared.head));
    return conn_counter_init_on_gpu(conn, memory->shared.head);
}

static enum collet_result fifo_create(const struct conn *conn, struct gpu_memory_of *memory) {
    const size_t bytes = conn_layout(conn)->total_bytes;
    if (!memory->pinned) {
        COLLET_TRY(gpu_fifo_take(memory->driver, memory->ordinal, bytes, &memory->shared.fifo));
        COLLET_TRY(conn_memory_init_on_gpu(conn, memory->shared.fifo));
        return head_create(conn, memory);
    }
    COLLET_TRY(memory->driver->memory->pinned_create(bytes, &memory->shared.fifo));
    fifo_memory_init(memory->shared.fifo, conn_layout(conn), conn->owner->config);
    return COLLET_SUCCESS;
}

static void memory_destroy(struct gpu_memory_of *memory) {
    if (memory->shared.head != NULL)
        memory->driver->memory->destroy(memory->shared.head);
    if (memory->pinned)
        memory->driver->memory->pinned_destroy(memory->shared.fifo);
    else
        gpu_fifo_give_back(memory->driver, memory->shared.fifo);
    free(memory);
}

static enum collet_result self_gpu_offer(struct conn *conn, struct conn_blob *offer) {
    const struct gpu_rank *gpu = conn->owner->gpu;
    bool pinned;
    COLLET_TRY(choose_place(conn, &pinned));
    struct gpu_memory_of *memory;
    COLLET_TRY(memory_get(&memory, 1, sizeof(*memory), "no memory for a connection from rank %d", conn->peer));
    *memory = (struct gpu_memory_of){.driver = gpu->driver, .ordinal = gpu->ordinal, .pinned = pinned};
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    enum collet_result result = fifo_create(conn, memory);
    if (result != COLLET_SUCCESS) {
        memory_destroy(memory);
        return result;
    }
    memory->shared.borrows = way_to_borrow(conn, pinned);
    self_offer_memory(conn, &memory->shared, offer);
    return COLLET_SUCCESS;
}

static void self_gpu_close(struct conn *conn) {
    struct self_memory *memory = self_leave(conn);
    if (memory != NULL)
        memory_destroy(of(memory));
}

const struct transport transport_self_on_gpus = {.name = "self", .offer = self_gpu_offer, .close = self_gpu_close};
