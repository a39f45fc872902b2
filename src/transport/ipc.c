/* SPDX-License-Identifier: Apache-2.0
 *
 * ipc: GPUs of one host, in different processes. The consumer makes the FIFO where the producer's GPU can write it:
 *
 *    the producer's GPU reaches the consumer's   memory of the consumer's GPU, attached by its handle
 *    it does not, or is not to be seen there     a memfd that both processes map and pin
 *
 * Which GPU the producer is on it says in a letter when its communicator is made (ipc_hello). The consumer keeps the memfd
 * open until the producer has taken it. Nobody looks at the memory any more when the consumer frees it: it has then
 * received all that was sent.
 */
#include "base/err.h"
#include "base/log.h"
#include "base/os.h"
#include "transport/ipc.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELLO_KEY (4ull << 56)
#define TAKEN_KEY(conn) (5ull << 56 | (uint64_t)(conn)->channel << 8 | (uint64_t)(conn)->lane)

enum ipc_kind { IPC_GPU = 1, IPC_PINNED };

struct ipc_offer {
    int32_t kind, pid, fd;
    char handle[GPU_HANDLE_BYTES];
};

struct ipc_end {
    enum ipc_kind kind;
    void *memory; /* on the GPU, or as the process maps it */
    size_t bytes;
    bool pinned;
    int fd; /* consumer: of a memfd that is not taken yet; else −1 */
};

enum collet_result ipc_hello(const struct chan *chan) {
    const struct peer_info *self = &chan->peers[chan->rank];
    uint32_t bus = chan->gpu->driver->bus(chan->gpu->ordinal);
    for (int rank = 0; rank < chan->nranks; rank++) {
        const struct peer_info *peer = &chan->peers[rank];
        bool apart = memcmp(peer->process, self->process, sizeof(self->process)) != 0;
        if (peer->node == self->node && apart)
            COLLET_TRY(boot_send(chan->boot, rank, HELLO_KEY, &bus, sizeof(bus)));
    }
    return COLLET_SUCCESS;
}

static bool ipc_reaches(const struct peer_info *a, const struct peer_info *b, const char **why) {
    *why = a->node != b->node ? "different hosts" : "not on GPUs";
    return a->node == b->node && a->device != COLLET_DEVICE_HOST && b->device != COLLET_DEVICE_HOST;
}

/* The GPU of a peer as this process numbers it; −1: not to be seen. IN_PROGRESS until its letter is there. */
static enum collet_result peer_ordinal(const struct conn *conn, int *ordinal_p) {
    struct chan *chan = conn->chan;
    const struct gpu_driver *driver = chan->gpu->driver;
    const char *why;
    uint32_t bus;
    size_t bytes;
    if (chan->gpu_buses == NULL && (chan->gpu_buses = calloc((size_t)chan->nranks, sizeof(*chan->gpu_buses))) == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the GPUs of %d ranks", chan->nranks);
    if (chan->gpu_buses[conn->peer] == 0) {
        COLLET_TRY(boot_try_recv(chan->boot, conn->peer, HELLO_KEY, &bus, sizeof(bus), &bytes));
        chan->gpu_buses[conn->peer] = (uint64_t)bus + 1;
    }
    *ordinal_p = -1;
    for (int k = 0; k < driver->count(&why); k++)
        if ((uint64_t)driver->bus(k) + 1 == chan->gpu_buses[conn->peer])
            *ordinal_p = k;
    return COLLET_SUCCESS;
}

static enum collet_result end_create(struct conn *conn, enum ipc_kind kind, struct ipc_end **end_p) {
    struct ipc_end *end = malloc(sizeof(*end));
    if (end == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a connection with rank %d", conn->peer);
    *end = (struct ipc_end){.kind = kind, .bytes = conn->chan->layout.total_bytes, .fd = -1};
    conn->impl = end; /* from here on ipc_close() cleans up */
    *end_p = end;
    return COLLET_SUCCESS;
}

static enum collet_result offer_gpu(struct conn *conn, struct ipc_offer *offer) {
    const struct gpu_driver *driver = conn->chan->gpu->driver;
    struct ipc_end *end = NULL;
    COLLET_TRY(end_create(conn, IPC_GPU, &end));
    COLLET_TRY(driver->memory_create(end->bytes, &end->memory));
    COLLET_TRY(fifo_memory_init_on_gpu(conn->chan, end->memory));
    fifo_end_init(&conn->end, end->memory, &conn->chan->layout, conn->chan->config);
    return driver->share(end->memory, offer->handle);
}

/* Maps what end->memory is to be, and points conn->end to where the GPU sees it. */
static enum collet_result end_pin(struct conn *conn, struct ipc_end *end) {
    void *on_gpu;
    COLLET_TRY(conn->chan->gpu->driver->pin(end->memory, end->bytes, &on_gpu));
    end->pinned = true;
    fifo_end_init(&conn->end, on_gpu, &conn->chan->layout, conn->chan->config);
    return COLLET_SUCCESS;
}

static enum collet_result offer_pinned(struct conn *conn, struct ipc_offer *offer) {
    struct ipc_end *end = NULL;
    COLLET_TRY(end_create(conn, IPC_PINNED, &end));
    COLLET_TRY(os_shared_create("collet-fifo", end->bytes, &end->memory, &end->fd));
    fifo_memory_init(end->memory, &conn->chan->layout, conn->chan->config);
    offer->pid = os_pid();
    offer->fd = end->fd;
    return end_pin(conn, end);
}

static enum collet_result make_offer(struct conn *conn, int producer, struct ipc_offer *offer) {
    struct chan *chan = conn->chan;
    bool reached = producer >= 0 && chan->gpu->driver->reaches(producer, chan->gpu->ordinal);
    offer->kind = reached ? IPC_GPU : IPC_PINNED;
    log_info(CONN, "channel %d lane %d: rank %d <- %d: slots in %s", conn->channel, conn->lane, chan->rank, conn->peer,
             reached         ? "memory of this rank's GPU, which the other one reaches"
             : producer >= 0 ? "pinned host memory: the other GPU does not reach this one"
                             : "pinned host memory: this process does not see the other GPU");
    return reached ? offer_gpu(conn, offer) : offer_pinned(conn, offer);
}

static enum collet_result ipc_offer(struct conn *conn, struct conn_blob *blob) {
    struct gpu_rank *gpu = conn->chan->gpu;
    struct ipc_offer offer = {0};
    int producer = -1;
    COLLET_TRY(peer_ordinal(conn, &producer));
    struct gpu_scope scope = gpu->driver->enter(gpu->ordinal);
    enum collet_result result = make_offer(conn, producer, &offer);
    gpu->driver->leave(scope);
    memcpy(blob->data, &offer, sizeof(offer));
    blob->bytes = sizeof(offer);
    return result;
}

static enum collet_result take_offer(struct conn *conn, const struct ipc_offer *offer) {
    struct ipc_end *end = NULL;
    COLLET_TRY(end_create(conn, (enum ipc_kind)offer->kind, &end));
    if (end->kind == IPC_GPU) {
        COLLET_TRY(conn->chan->gpu->driver->attach(offer->handle, &end->memory));
        fifo_end_init(&conn->end, end->memory, &conn->chan->layout, conn->chan->config);
        return COLLET_SUCCESS;
    }
    COLLET_TRY(os_shared_open(offer->pid, offer->fd, end->bytes, &end->memory));
    return end_pin(conn, end);
}

static enum collet_result ipc_accept(struct conn *conn, const struct conn_blob *blob) {
    struct gpu_rank *gpu = conn->chan->gpu;
    struct ipc_offer offer;
    if (blob->bytes != sizeof(offer))
        return err_set(COLLET_ERR_INTERNAL, "ipc offer of rank %d has %zu bytes", conn->peer, blob->bytes);
    memcpy(&offer, blob->data, sizeof(offer));
    struct gpu_scope scope = gpu->driver->enter(gpu->ordinal);
    enum collet_result result = take_offer(conn, &offer);
    gpu->driver->leave(scope);
    COLLET_TRY(result);
    return boot_send(conn->chan->boot, conn->peer, TAKEN_KEY(conn), "", 1);
}

static enum collet_result ipc_ready(struct conn *conn) {
    struct ipc_end *end = conn->impl;
    char nothing[1];
    size_t bytes;
    if (conn->side == CONN_PRODUCER)
        return COLLET_SUCCESS;
    COLLET_TRY(boot_try_recv(conn->chan->boot, conn->peer, TAKEN_KEY(conn), nothing, sizeof(nothing), &bytes));
    if (end->fd >= 0)
        close(end->fd);
    end->fd = -1;
    return COLLET_SUCCESS;
}

static void ipc_close(struct conn *conn) {
    struct ipc_end *end = conn->impl;
    struct gpu_rank *gpu = conn->chan->gpu;
    if (end == NULL)
        return;
    struct gpu_scope scope = gpu->driver->enter(gpu->ordinal);
    if (end->pinned)
        gpu->driver->unpin(end->memory);
    if (end->kind == IPC_PINNED)
        os_memory_destroy(end->memory, end->bytes);
    else if (conn->side == CONN_CONSUMER)
        gpu->driver->memory_destroy(end->memory);
    else if (end->memory != NULL)
        gpu->driver->detach(end->memory);
    gpu->driver->leave(scope);
    if (end->fd >= 0)
        close(end->fd);
    free(end);
}

const struct transport transport_ipc = {
    .name = "ipc",
    .bit = COLLET_TRANSPORT_IPC,
    .reaches = ipc_reaches,
    .offer = ipc_offer,
    .accept = ipc_accept,
    .ready = ipc_ready,
    .close = ipc_close,
};
