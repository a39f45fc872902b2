/* SPDX-License-Identifier: Apache-2.0
 *
 * shm: processes of one host. The consumer makes a memfd and tells the producer its process and descriptor; the producer
 * maps it through /proc. The memory has no name, so nothing is left behind however a process ends, and /dev/shm's size
 * does not matter.
 *
 *    memfd:  │ FIFO (fifo.h) │ trailer: nonce, attached │
 *
 * The consumer keeps its descriptor open until the producer has set `attached`. The nonce shows that the descriptor is
 * still the one that was offered.
 */
#include "base/memory.h"
#include "base/os.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct shm_trailer {
    uint64_t nonce;
    uint64_t attached;
};

struct shm_offer {
    uint64_t nonce;
    int32_t pid, fd;
};

struct shm_end {
    void *memory;
    size_t bytes;
    int fd; /* consumer, until the producer has attached; else −1 */
};

static bool shm_reaches(const struct peer_info *a, const struct peer_info *b, const char **why) {
    *why = a->node != b->node ? "different hosts" : "for host memory only";
    return a->node == b->node && a->device == COLLET_DEVICE_HOST && b->device == COLLET_DEVICE_HOST;
}

static size_t shm_bytes(const struct fifo_layout *layout) { return layout->total_bytes + sizeof(struct shm_trailer); }

static struct shm_trailer *shm_trailer(const struct conn *conn, void *memory) {
    return (struct shm_trailer *)(void *)((char *)memory + conn->owner->layout.total_bytes);
}

static enum collet_result shm_end_create(struct conn *conn, struct shm_end **end_p) {
    struct shm_end *end;
    COLLET_TRY(memory_get(&end, 1, sizeof(*end), "no memory for a connection with rank %d", conn->peer));
    *end = (struct shm_end){.bytes = shm_bytes(&conn->owner->layout), .fd = -1};
    conn->impl = end; /* from here on shm_close() cleans up */
    *end_p = end;
    return COLLET_SUCCESS;
}

static enum collet_result shm_offer(struct conn *conn, struct conn_blob *blob) {
    const struct fifo_layout *layout = &conn->owner->layout;
    struct shm_end *end = NULL;
    COLLET_TRY(shm_end_create(conn, &end));
    COLLET_TRY(os_shared_create("collet-fifo", end->bytes, &end->memory, &end->fd));
    fifo_memory_init(end->memory, layout, conn->owner->config);
    fifo_end_init(&conn->end, end->memory, layout, conn->owner->config);

    struct shm_offer offer = {.pid = os_pid(), .fd = end->fd};
    os_random(&offer.nonce, sizeof(offer.nonce));
    shm_trailer(conn, end->memory)->nonce = offer.nonce;
    memcpy(blob->data, &offer, sizeof(offer));
    blob->bytes = sizeof(offer);
    return COLLET_SUCCESS;
}

static enum collet_result shm_accept(struct conn *conn, const struct conn_blob *blob) {
    struct shm_end *end = NULL;
    struct shm_offer offer;
    if (blob->bytes != sizeof(offer))
        return err_set(COLLET_ERR_INTERNAL, "shm offer of rank %d has %zu bytes", conn->peer, blob->bytes);
    memcpy(&offer, blob->data, sizeof(offer));
    COLLET_TRY(shm_end_create(conn, &end));
    COLLET_TRY(os_shared_open(offer.pid, offer.fd, end->bytes, &end->memory));
    struct shm_trailer *trailer = shm_trailer(conn, end->memory);
    if (trailer->nonce != offer.nonce)
        return err_set(COLLET_ERR_REMOTE,
                       "rank %d's shared memory is gone: descriptor %d of process %d is another file", conn->peer,
                       offer.fd, offer.pid);
    fifo_end_init(&conn->end, end->memory, &conn->owner->layout, conn->owner->config);
    port_store_release(&trailer->attached, 1); /* pairs with shm_ready() */
    return COLLET_SUCCESS;
}

static enum collet_result shm_ready(struct conn *conn) {
    struct shm_end *end = conn->impl;
    if (end->fd < 0)
        return COLLET_SUCCESS;
    if (!port_load_acquire(&shm_trailer(conn, end->memory)->attached)) /* pairs with shm_accept() */
        return COLLET_IN_PROGRESS;
    close(end->fd);
    end->fd = -1;
    return COLLET_SUCCESS;
}

static void shm_close(struct conn *conn) {
    struct shm_end *end = conn->impl;
    if (end == NULL)
        return;
    if (end->fd >= 0)
        close(end->fd);
    os_memory_destroy(end->memory, end->bytes);
    free(end);
}

const struct transport transport_shm = {
    .name = "shm",
    .bit = COLLET_TRANSPORT_SHM,
    .reaches = shm_reaches,
    .offer = shm_offer,
    .accept = shm_accept,
    .ready = shm_ready,
    .close = shm_close,
};
