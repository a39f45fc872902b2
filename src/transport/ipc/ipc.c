/* SPDX-License-Identifier: Apache-2.0
 *
 * ipc: GPUs of one host, in different processes. The consumer makes the FIFO where the producer's GPU can write it:
 *
 *    the producer's GPU reaches the consumer's   memory of the consumer's GPU. The producer attaches it for its own GPU, by a
 *                                                handle or, if the driver gives none, by a descriptor
 *    it does not, or nobody knows                a memfd that both processes map and pin
 *
 * In the first case the head lies on the producer's GPU, if the consumer's GPU reaches it (gpu_heads.h): the consumer says
 * so in its offer, and waits for an answer.
 *
 * The producer's card says on which GPU it is. A process that sees only its own GPU can still use memory of another GPU;
 * the host's graph knows the link between the two (layers/gpu/nvlink.h). Descriptors are handed over (hand_over.h). When the
 * consumer frees the memory, it has received everything that was sent, so nobody reads the memory any more. If a producer
 * still has it open, the driver does not free it before the producer closes it.
 */
#include "base/log.h"
#include "base/memory.h"
#include "base/mapping.h"
#include "layers/gpu/buffers.h"
#include "transport/ipc/gpu_fifos.h"
#include "transport/ipc/gpu_heads.h"
#include "transport/ipc/gpu_peers.h"
#include "transport/ipc/hand_over.h"
#include "transport/transport.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct transport transport_ipc;

enum ipc_kind { IPC_GPU = 1, IPC_PINNED };

struct ipc_offer {
    int32_t kind;
    int32_t takes_loans;  /* 1: the consumer borrows payloads */
    int32_t reaches_back; /* 1: the consumer's GPU reaches the producer's memory; the consumer awaits an answer */
    struct gpu_name name; /* for IPC_GPU. Its descriptor belongs to the consumer's process */
    char hand_over[HAND_OVER_NAME_BYTES]; /* name of the socket at which the descriptor can be got; "": there is none */
};

/* The producer's answer, if the consumer's GPU reaches its GPU. */
#define IPC_ANSWER 0u /* number of the letter (transport_key()) */
struct ipc_answer {
    struct gpu_head_place head;           /* 0 bytes: the head is with the slots */
    char hand_over[HAND_OVER_NAME_BYTES]; /* see struct ipc_offer */
};

struct ipc_end {
    enum ipc_kind kind;
    void *memory; /* address on the GPU, or in this process; NULL: not mapped yet */
    size_t bytes;
    struct gpu_name name;
    bool pinned;
    bool lends;                 /* producer: the end lends payloads */
    bool answers;               /* producer: the end must answer; consumer: an answer will come */
    struct gpu_head_place head; /* consumer: the producer's answer, until the head is reached; 0 bytes: there is none */
    int fd;     /* descriptor of this end's memory, to be handed over; −1: none, or it was handed over */
    int socket; /* the listener that hands fd over; or the socket for the other end's descriptor; −1: neither */
};

/* The identity of the rank's GPU; 0: the rank uses host memory. */
static uint64_t ipc_card(int device) {
    return device == COLLET_DEVICE_HOST ? 0 : gpu_driver()->identity(device - COLLET_DEVICE_CUDA(0));
}

static bool ipc_reaches(const struct peer_info *a, const struct peer_info *b, const char **why) {
    *why = a->node != b->node ? "different hosts" : "not on GPUs";
    return a->node == b->node && a->device != COLLET_DEVICE_HOST && b->device != COLLET_DEVICE_HOST;
}

static enum collet_result ipc_end_create(struct conn *conn, enum ipc_kind kind, struct ipc_end **end_p) {
    struct ipc_end *end;
    COLLET_TRY(memory_get(&end, 1, sizeof(*end), "no memory for a connection with rank %d", conn->peer));
    *end = (struct ipc_end){.kind = kind, .bytes = conn_layout(conn)->total_bytes, .fd = -1, .socket = -1};
    conn->impl = end; /* from here on ipc_close() cleans up */
    *end_p = end;
    return COLLET_SUCCESS;
}

/* Offers a descriptor to the other end. fd: the end owns it from now on; −1: there is none. */
static enum collet_result offer_fd(struct ipc_end *end, int fd, char hand_over[HAND_OVER_NAME_BYTES]) {
    end->fd = fd;
    return fd < 0 ? COLLET_SUCCESS : hand_over_listen(hand_over, &end->socket);
}

/* Allows loans of payloads that lie in windows (layers/gpu/windows.h). */
static void lend_windows(struct conn *conn) {
    conn_allow_loans(conn, LOAN_WINDOW, LOAN_PROCESS_BYTES);
    conn->end.loans.windows = conn->owner->windows + (size_t)conn->peer * LOAN_WINDOWS;
}

static enum collet_result offer_gpu(struct conn *conn, struct ipc_offer *offer) {
    struct ipc_end *end = NULL;
    COLLET_TRY(ipc_end_create(conn, IPC_GPU, &end));
    end->answers = offer->reaches_back != 0;
    COLLET_TRY(gpu_shared_create(conn->owner->config->cumem_enable, end->bytes, &end->memory, &end->name));
    offer->name = end->name;
    COLLET_TRY(offer_fd(end, end->name.fd, offer->hand_over));
    COLLET_TRY(conn_memory_init_on_gpu(conn, end->memory));
    fifo_end_init(&conn->end, end->memory, conn_layout(conn), conn->owner->config);
    offer->takes_loans = conn_is_direct(conn->owner, "shared") && gpu_peer_is_near(conn->owner, conn->peer);
    if (offer->takes_loans)
        lend_windows(conn);
    return COLLET_SUCCESS;
}

/* Maps the memory into end->memory. Points conn->end to the address at which the GPU sees it. */
static enum collet_result end_pin(struct conn *conn, struct ipc_end *end) {
    void *on_gpu;
    COLLET_TRY(conn->owner->gpu->driver->memory->pin(end->memory, end->bytes, &on_gpu));
    end->pinned = true;
    fifo_end_init(&conn->end, on_gpu, conn_layout(conn), conn->owner->config);
    return COLLET_SUCCESS;
}

static enum collet_result offer_pinned(struct conn *conn, struct ipc_offer *offer) {
    struct ipc_end *end = NULL;
    COLLET_TRY(ipc_end_create(conn, IPC_PINNED, &end));
    int fd;
    COLLET_TRY(os_shared_create("collet-fifo", end->bytes, &end->memory, &fd));
    COLLET_TRY(offer_fd(end, fd, offer->hand_over));
    fifo_memory_init(end->memory, conn_layout(conn), conn->owner->config);
    return end_pin(conn, end);
}

/* Does one GPU of this host reach another one? ordinal < 0: this process does not see that GPU. */
static bool reaches_gpu(const struct conn_owner *owner, int from, int to) {
    return from >= 0 && to >= 0 ? owner->gpu->driver->sharing->can_reach(from, to) : owner->joined;
}

static enum collet_result make_offer(struct conn *conn, int producer, struct ipc_offer *offer) {
    const struct conn_owner *owner = conn->owner;
    const int consumer = owner->gpu->ordinal;
    const bool reached = reaches_gpu(owner, producer, consumer);
    if (!reached && owner->whole_lines)
        return conn_err_not_whole(conn);
    offer->kind = reached ? IPC_GPU : IPC_PINNED;
    offer->reaches_back = reached && producer != consumer && reaches_gpu(owner, consumer, producer);
    log_info(CONN, "channel %d lane %d: rank %d <- %d: slots in %s", conn->channel, conn->lane, owner->rank, conn->peer,
             reached ? "memory of this rank's GPU, which the other one reaches"
             : producer >= 0
                 ? "pinned host memory: the other GPU does not reach this one"
                 : "pinned host memory: this process does not see the other GPU, and no NVLink is known to join them");
    return reached ? offer_gpu(conn, offer) : offer_pinned(conn, offer);
}

static enum collet_result ipc_offer(struct conn *conn, struct conn_blob *blob) {
    struct gpu_rank *gpu = conn->owner->gpu;
    struct ipc_offer offer = {0};
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    enum collet_result result = make_offer(conn, gpu_peer_ordinal(conn->owner, conn->peer), &offer);
    memcpy(blob->data, &offer, sizeof(offer));
    blob->bytes = sizeof(offer);
    return result;
}

static bool makes_sense(const struct conn *conn, const struct ipc_offer *offer) {
    return offer->kind == IPC_PINNED || (offer->kind == IPC_GPU && offer->name.bytes >= conn_layout(conn)->total_bytes);
}

static enum collet_result ipc_accept(struct conn *conn, const struct conn_blob *blob) {
    struct ipc_end *end = NULL;
    struct ipc_offer offer;
    if (blob->bytes == sizeof(offer))
        memcpy(&offer, blob->data, sizeof(offer));
    if (blob->bytes != sizeof(offer) || !makes_sense(conn, &offer))
        return err_set(COLLET_ERR_INTERNAL, "the ipc offer of rank %d has %zu bytes and makes no sense", conn->peer,
                       blob->bytes);
    COLLET_TRY(ipc_end_create(conn, (enum ipc_kind)offer.kind, &end));
    end->name = offer.name;
    end->answers = offer.reaches_back != 0;
    end->lends = offer.takes_loans && conn_is_direct(conn->owner, "shared");
    return offer.hand_over[0] == '\0' ? COLLET_SUCCESS : hand_over_connect(offer.hand_over, &end->socket);
}

static void forget_fd(struct ipc_end *end) {
    if (end->fd >= 0)
        close(end->fd);
    if (end->socket >= 0)
        close(end->socket);
    end->fd = end->socket = -1;
}

static enum collet_result give_fd(struct ipc_end *end) {
    if (end->fd < 0)
        return COLLET_SUCCESS;
    COLLET_TRY(hand_over_give(end->socket, end->fd));
    forget_fd(end);
    return COLLET_SUCCESS;
}

static enum collet_result take_fd(struct ipc_end *end, int *fd_p) {
    *fd_p = -1;
    if (end->socket < 0)
        return COLLET_SUCCESS;
    COLLET_TRY(hand_over_take(end->socket, fd_p));
    forget_fd(end);
    return COLLET_SUCCESS;
}

static enum collet_result take_memory(struct conn *conn, struct ipc_end *end, int fd) {
    end->name.fd = fd;
    if (end->kind == IPC_PINNED) {
        COLLET_TRY(os_shared_map(fd, end->bytes, &end->memory));
        return end_pin(conn, end);
    }
    COLLET_TRY(conn->owner->gpu->driver->sharing->attach(&end->name, &end->memory));
    fifo_end_init(&conn->end, end->memory, conn_layout(conn), conn->owner->config);
    if (end->lends)
        lend_windows(conn);
    return COLLET_SUCCESS;
}

/* Sends the place of the head. If the head has a descriptor, the consumer gets it in the same way as the descriptor of the
 * slots. */
static enum collet_result send_answer(struct conn *conn, struct ipc_end *end) {
    struct ipc_answer answer = {0};
    if (gpu_heads_take(conn, &answer.head) && answer.head.name.fd >= 0) {
        const int fd = fcntl(answer.head.name.fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (fd < 0)
            return err_set(COLLET_ERR_SYSTEM, "cannot duplicate a descriptor: %m");
        COLLET_TRY(offer_fd(end, fd, answer.hand_over));
    }
    return boot_send(conn->owner->boot, conn->peer, transport_key(conn, IPC_ANSWER), &answer, sizeof(answer));
}

static enum collet_result ipc_producer_ready(struct conn *conn, struct ipc_end *end) {
    struct gpu_rank *gpu = conn->owner->gpu;
    int fd;
    if (end->memory != NULL)
        return give_fd(end);
    COLLET_TRY(take_fd(end, &fd));
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    enum collet_result result = take_memory(conn, end, fd);
    if (fd >= 0)
        close(fd);
    if (result == COLLET_SUCCESS && end->answers)
        result = send_answer(conn, end);
    return result == COLLET_SUCCESS ? give_fd(end) : result;
}

static enum collet_result take_answer(struct conn *conn, struct ipc_end *end) {
    struct ipc_answer answer;
    size_t bytes;
    COLLET_TRY(
        boot_try_recv(conn->owner->boot, conn->peer, transport_key(conn, IPC_ANSWER), &answer, sizeof(answer), &bytes));
    if (bytes != sizeof(answer))
        return err_set(COLLET_ERR_INTERNAL, "the ipc answer of rank %d has %zu bytes, not %zu", conn->peer, bytes,
                       sizeof(answer));
    end->answers = false;
    end->head = answer.head;
    return answer.hand_over[0] == '\0' ? COLLET_SUCCESS : hand_over_connect(answer.hand_over, &end->socket);
}

static enum collet_result take_head(struct conn *conn, struct ipc_end *end) {
    struct gpu_rank *gpu = conn->owner->gpu;
    COLLET_TRY(take_fd(end, &end->head.name.fd));
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    enum collet_result result = gpu_heads_reach(conn, &end->head);
    if (end->head.name.fd >= 0)
        close(end->head.name.fd);
    end->head.name.bytes = 0;
    return result;
}

static enum collet_result ipc_consumer_ready(struct conn *conn, struct ipc_end *end) {
    COLLET_TRY(give_fd(end));
    if (end->answers)
        COLLET_TRY(take_answer(conn, end));
    return end->head.name.bytes > 0 ? take_head(conn, end) : COLLET_SUCCESS;
}

static enum collet_result ipc_ready(struct conn *conn) {
    struct ipc_end *end = conn->impl;
    return conn->side == CONN_PRODUCER ? ipc_producer_ready(conn, end) : ipc_consumer_ready(conn, end);
}

static void ipc_close(struct conn *conn) {
    struct ipc_end *end = conn->impl;
    struct gpu_rank *gpu = conn->owner->gpu;
    if (end == NULL)
        return;
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    if (end->pinned)
        gpu->driver->memory->unpin(end->memory, end->bytes);
    else if (end->kind == IPC_PINNED)
        os_memory_destroy(end->memory, end->bytes);
    else if (end->memory != NULL && conn->side == CONN_CONSUMER)
        gpu->driver->sharing->destroy(end->memory, &end->name);
    else if (end->memory != NULL)
        gpu->driver->sharing->detach(end->memory, &end->name);
    forget_fd(end);
    free(end);
}

const struct transport transport_ipc = {
    .name = "ipc",
    .bit = COLLET_TRANSPORT_IPC,
    .card = ipc_card,
    .card_is_device = true,
    .reaches = ipc_reaches,
    .offer = ipc_offer,
    .accept = ipc_accept,
    .ready = ipc_ready,
    .close = ipc_close,
};
