/* SPDX-License-Identifier: Apache-2.0
 *
 * shm: processes of one host. The consumer makes a memfd and tells the producer its process and descriptor; the producer
 * maps it through /proc. The memory has no name, so nothing is left behind however a process ends, and /dev/shm's size
 * does not matter.
 *
 *    memfd:  │ FIFO (fifo.h) │ trailer: nonce, attached, proof, answered │
 *
 * The consumer keeps its descriptor open until the producer has set `attached`. The nonce shows that the descriptor is
 * still the one that was offered.
 *
 * Payloads are lent (layers/memory/loan.h) in two ways. If they lie in the shared heap (layers/memory/heap.h), the other
 * process maps them: each end has the other's ticket. Otherwise the kernel copies them, if it allows that; a container may
 * forbid it. So the consumer tries to read a copy of the nonce:
 *
 *    consumer                                              producer
 *    offer: ticket ──────────────────────────────────────▶
 *    reads the copy: is it the nonce? ◀─────────────────── ticket; proof: where its copy is; attached
 *    answered: which ways ───────────────────────────────▶ lends in these
 */
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/mapping.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the producer keeps a copy of the nonce, for a test of process_vm_readv. */
struct shm_proof {
    uint64_t address;
    int32_t pid; /* 0: the producer does not lend this way */
};

struct shm_trailer {
    uint64_t nonce;
    uint64_t attached;
    struct shm_proof proof;
    struct heap_ticket ticket; /* the producer's shared heap, if it lends memory there */
    uint64_t answered;         /* bits of enum shm_answer; 0: no answer yet */
};

enum shm_answer { SHM_ANSWERED = 1, SHM_TAKES_HEAP = 2, SHM_TAKES_ANY = 4 };

struct shm_offer {
    uint64_t nonce;
    int32_t pid, fd;
    struct heap_ticket ticket; /* the consumer's shared heap */
};

struct shm_end {
    void *memory;
    size_t bytes;
    int fd;         /* consumer: open until the producer has attached; then −1 */
    uint64_t nonce; /* producer: the copy that the consumer tries to read */
    int32_t consumer_pid;
    struct heap_view *view; /* shared heap of the other process; NULL: not opened, or none */
};

static bool shm_reaches(const struct peer_info *a, const struct peer_info *b, const char **why) {
    *why = a->node != b->node ? "different hosts" : "for host memory only";
    return a->node == b->node && a->device == COLLET_DEVICE_HOST && b->device == COLLET_DEVICE_HOST;
}

static size_t shm_bytes(const struct fifo_layout *layout) { return layout->total_bytes + sizeof(struct shm_trailer); }

static struct shm_trailer *shm_trailer(const struct conn *conn, void *memory) {
    return (struct shm_trailer *)(void *)((char *)memory + conn_layout(conn)->total_bytes);
}

static enum collet_result shm_end_create(struct conn *conn, struct shm_end **end_p) {
    struct shm_end *end;
    COLLET_TRY(memory_get(&end, 1, sizeof(*end), "no memory for a connection with rank %d", conn->peer));
    *end = (struct shm_end){.bytes = shm_bytes(conn_layout(conn)), .fd = -1};
    conn->impl = end; /* from here on shm_close() cleans up */
    *end_p = end;
    return COLLET_SUCCESS;
}

static struct heap_ticket shm_ticket(const struct conn *conn) {
    return conn_is_direct(conn->owner, "shared") ? heap_own()->ticket : (struct heap_ticket){.fd = -1};
}

static enum collet_result shm_offer(struct conn *conn, struct conn_blob *blob) {
    const struct fifo_layout *layout = conn_layout(conn);
    struct shm_end *end = NULL;
    COLLET_TRY(shm_end_create(conn, &end));
    COLLET_TRY(os_shared_create("collet-fifo", end->bytes, &end->memory, &end->fd));
    fifo_memory_init(end->memory, layout, conn->owner->config);
    fifo_end_init(&conn->end, end->memory, layout, conn->owner->config);

    struct shm_offer offer = {.pid = os_pid(), .fd = end->fd, .ticket = shm_ticket(conn)};
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
    fifo_end_init(&conn->end, end->memory, conn_layout(conn), conn->owner->config);
    end->nonce = trailer->nonce;
    end->consumer_pid = offer.pid;
    COLLET_TRY(heap_view_open(&offer.ticket, &end->view));
    trailer->ticket = shm_ticket(conn);
    trailer->proof = (struct shm_proof){(uintptr_t)&end->nonce, conn_is_direct(conn->owner, "cma") ? os_pid() : 0};
    port_store_release(&trailer->attached, 1); /* Pairs with consumer_ready(). */
    return COLLET_SUCCESS;
}

/* Can the consumer read the producer's copy of the nonce? */
static bool reaches_producer(const struct conn *conn, const struct shm_trailer *trailer) {
    uint64_t seen;
    if (trailer->proof.pid == 0 || !conn_is_direct(conn->owner, "cma"))
        return false;
    if (os_process_read(trailer->proof.pid, &seen, trailer->proof.address, sizeof seen))
        return seen == trailer->nonce;
    log_info(CONN, "rank %d cannot read memory of rank %d, whose payloads go through slots: %m", conn->owner->rank,
             conn->peer);
    return false;
}

static void allow_loans(struct conn *conn, uint64_t answer, int32_t pid) {
    const struct shm_end *end = conn->impl;
    if ((answer & SHM_TAKES_ANY) != 0) {
        conn_allow_loans(conn, LOAN_HOST, conn->owner->kernel_from);
        conn->end.loans.pid = pid;
    }
    if ((answer & SHM_TAKES_HEAP) != 0)
        conn_allow_heap(conn, end->view);
}

static enum collet_result consumer_ready(struct conn *conn, struct shm_end *end, struct shm_trailer *trailer) {
    if (end->fd < 0)
        return COLLET_SUCCESS;
    if (!port_load_acquire(&trailer->attached)) /* Pairs with shm_accept(). */
        return COLLET_IN_PROGRESS;
    close(end->fd);
    end->fd = -1;
    uint64_t answer = SHM_ANSWERED;
    if (trailer->ticket.fd >= 0 && conn_is_direct(conn->owner, "shared")) {
        COLLET_TRY(heap_view_open(&trailer->ticket, &end->view));
        answer |= SHM_TAKES_HEAP;
    }
    if (reaches_producer(conn, trailer))
        answer |= SHM_TAKES_ANY;
    allow_loans(conn, answer, trailer->proof.pid);
    port_store_release(&trailer->answered, answer); /* Pairs with shm_producer_ready(). */
    return COLLET_SUCCESS;
}

static enum collet_result shm_producer_ready(struct conn *conn, const struct shm_end *end,
                                             const struct shm_trailer *trailer) {
    uint64_t answer = port_load_acquire(&trailer->answered); /* Pairs with consumer_ready(). */
    if (answer == 0)
        return COLLET_IN_PROGRESS;
    allow_loans(conn, answer, end->consumer_pid);
    return COLLET_SUCCESS;
}

static enum collet_result shm_ready(struct conn *conn) {
    struct shm_end *end = conn->impl;
    struct shm_trailer *trailer = shm_trailer(conn, end->memory);
    return conn->side == CONN_CONSUMER ? consumer_ready(conn, end, trailer) : shm_producer_ready(conn, end, trailer);
}

static void shm_close(struct conn *conn) {
    struct shm_end *end = conn->impl;
    if (end == NULL)
        return;
    if (end->fd >= 0)
        close(end->fd);
    os_memory_destroy(end->memory, end->bytes);
    heap_view_close(end->view);
    free(end);
}

/* The minimum payload that this rank lends from any of its memory, if the kernel allows it. */
static uint64_t shm_card(int device) {
    return device == COLLET_DEVICE_HOST ? conn_least_lent(config_process(), "cma", LOAN_CMA_BYTES) : 0;
}

const struct transport transport_shm = {
    .name = "shm",
    .bit = COLLET_TRANSPORT_SHM,
    .card = shm_card,
    .reaches = shm_reaches,
    .offer = shm_offer,
    .accept = shm_accept,
    .ready = shm_ready,
    .close = shm_close,
};
