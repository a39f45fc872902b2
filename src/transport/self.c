/* SPDX-License-Identifier: Apache-2.0
 *
 * self: ranks of one process. The consumer allocates the FIFO and offers its address; the producer takes the offer up. Between
 * GPUs the FIFO lies where the producer's GPU can write it, and its head where that GPU polls it. Payloads are lent (layers/memory/loan.h):
 * an address is all that it takes, on the host and between GPUs that NVLink joins.
 *
 * Ends may be closed in any order, so the memory counts its users. An offer may never be taken up, so offers are listed
 * until they are taken up or withdrawn.
 */
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "transport/ipc/gpu_fifos.h"
#include "transport/transport.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum self_place { ON_HOST, ON_GPU, PINNED };

struct self_memory {
    int users;
    enum self_place place;
    const struct gpu_driver *driver; /* NULL: on the host */
    int ordinal;
    size_t bytes;
    void *fifo;
    void *head;               /* on the producer's GPU; NULL: in the FIFO */
    bool takes_loans;         /* the consumer does */
    struct self_memory *next; /* in offers */
};

PROCESS_LOCK(offers_lock); /* also guards users */
static struct self_memory *offers;

/* Takes memory off the list; false if it is not there. It is looked at only if it is. */
static bool unlist(const struct self_memory *memory) {
    struct self_memory **link = &offers;
    while (*link != NULL && *link != memory)
        link = &(*link)->next;
    if (*link == NULL)
        return false;
    *link = memory->next;
    return true;
}

/* Consumer. */
static int producer_ordinal(const struct conn *conn) {
    return conn->owner->peers[conn->peer].device - COLLET_DEVICE_CUDA(0);
}

/* Between GPUs slots lie where the producer's GPU can write them. */
static enum collet_result place_for(const struct conn *conn, enum self_place *place_p) {
    const struct gpu_rank *gpu = conn->owner->gpu;
    int producer = producer_ordinal(conn);
    *place_p = gpu == NULL ? ON_HOST : gpu->driver->sharing->open_peer(producer, gpu->ordinal) ? ON_GPU : PINNED;
    if (*place_p != PINNED)
        return COLLET_SUCCESS;
    if (conn->owner->whole_lines)
        return conn_err_not_whole(conn);
    log_info(CONN, "channel %d lane %d: rank %d <- %d: slots in pinned host memory: GPU %d does not reach GPU %d",
             conn->channel, conn->lane, conn->owner->rank, conn->peer, producer, gpu->ordinal);
    return COLLET_SUCCESS;
}

/* Does the consumer read payloads where they are? Its GPU must reach the producer's memory, by a way that has native atomics. */
static bool takes_loans(const struct conn *conn, enum self_place place) {
    const struct gpu_rank *gpu = conn->owner->gpu;
    int producer = producer_ordinal(conn);
    if (!conn_is_direct(conn->owner, "process"))
        return false;
    return gpu == NULL || (place == ON_GPU && gpu->driver->sharing->keeps_lines(gpu->ordinal, producer) &&
                           gpu->driver->sharing->open_peer(gpu->ordinal, producer));
}

/* Where gpu_heads.h says. Both GPUs are this process's, so the consumer makes it. */
static enum collet_result head_create(const struct conn *conn, struct self_memory *memory) {
    const int producer = producer_ordinal(conn);
    if (producer == memory->ordinal || !memory->driver->sharing->open_peer(memory->ordinal, producer))
        return COLLET_SUCCESS;
    GPU_ENTERED(memory->driver, producer);
    COLLET_TRY(memory->driver->memory->create(FIFO_LINE_BYTES, &memory->head));
    return conn_counter_init_on_gpu(conn, memory->head);
}

static enum collet_result fifo_create(const struct conn *conn, struct self_memory *memory) {
    if (memory->place == ON_GPU) {
        COLLET_TRY(gpu_fifo_take(memory->driver, memory->ordinal, memory->bytes, &memory->fifo));
        COLLET_TRY(conn_memory_init_on_gpu(conn, memory->fifo));
        return head_create(conn, memory);
    }
    COLLET_TRY(memory->place == PINNED ? memory->driver->memory->pinned_create(memory->bytes, &memory->fifo)
                                       : os_memory_create(memory->bytes, &memory->fifo));
    fifo_memory_init(memory->fifo, conn_layout(conn), conn->owner->config);
    return COLLET_SUCCESS;
}

static void fifo_destroy(struct self_memory *memory) {
    if (memory->head != NULL)
        memory->driver->memory->destroy(memory->head);
    if (memory->place == ON_GPU)
        gpu_fifo_give_back(memory->driver, memory->fifo);
    else if (memory->place == PINNED)
        memory->driver->memory->pinned_destroy(memory->fifo);
    else
        os_memory_destroy(memory->fifo, memory->bytes);
}

/* With the consumer's GPU entered, if it is on one. */
static enum collet_result with_gpu(const struct conn *conn, struct self_memory *memory) {
    if (memory->driver == NULL)
        return fifo_create(conn, memory);
    GPU_ENTERED(memory->driver, memory->ordinal);
    enum collet_result result = fifo_create(conn, memory);
    if (result != COLLET_SUCCESS)
        fifo_destroy(memory);
    return result;
}

/* Either end. */
static void end_init(struct conn *conn, struct self_memory *memory) {
    fifo_end_init(&conn->end, memory->fifo, conn_layout(conn), conn->owner->config);
    if (memory->head != NULL)
        conn->end.head = memory->head;
    conn->impl = memory;
}

static bool self_reaches(const struct peer_info *a, const struct peer_info *b, const char **why) {
    *why = "different processes";
    return memcmp(a->process, b->process, sizeof(a->process)) == 0;
}

static enum collet_result self_offer(struct conn *conn, struct conn_blob *offer) {
    enum self_place place;
    COLLET_TRY(place_for(conn, &place));
    struct self_memory *memory;
    COLLET_TRY(memory_get(&memory, 1, sizeof(*memory), "no memory for a connection from rank %d", conn->peer));
    *memory = (struct self_memory){.users = 1, .place = place, .bytes = conn_layout(conn)->total_bytes};
    if (memory->place != ON_HOST) {
        memory->driver = conn->owner->gpu->driver;
        memory->ordinal = conn->owner->gpu->ordinal;
    }
    enum collet_result result = with_gpu(conn, memory);
    if (result != COLLET_SUCCESS) {
        free(memory);
        return result;
    }
    end_init(conn, memory);
    memory->takes_loans = takes_loans(conn, place);
    if (memory->takes_loans)
        conn_allow_loans(conn, LOAN_PROCESS, LOAN_PROCESS_BYTES);
    pthread_mutex_lock(&offers_lock);
    memory->next = offers;
    offers = memory;
    pthread_mutex_unlock(&offers_lock);
    memcpy(offer->data, &memory, sizeof(memory));
    offer->bytes = sizeof(memory);
    return COLLET_SUCCESS;
}

static enum collet_result self_accept(struct conn *conn, const struct conn_blob *offer) {
    struct self_memory *memory;
    memcpy(&memory, offer->data, sizeof(memory));
    pthread_mutex_lock(&offers_lock);
    bool offered = unlist(memory);
    if (offered)
        memory->users++;
    pthread_mutex_unlock(&offers_lock);
    if (!offered)
        return err_set(COLLET_ERR_REMOTE, "rank %d closed the connection before rank %d had come to it", conn->peer,
                       conn->owner->rank);
    end_init(conn, memory);
    if (memory->takes_loans && conn_is_direct(conn->owner, "process"))
        conn_allow_loans(conn, LOAN_PROCESS, LOAN_PROCESS_BYTES);
    return COLLET_SUCCESS;
}

static void self_close(struct conn *conn) {
    struct self_memory *memory = conn->impl;
    if (memory == NULL)
        return;
    pthread_mutex_lock(&offers_lock);
    if (conn->side == CONN_CONSUMER)
        unlist(memory);
    bool last = --memory->users == 0;
    pthread_mutex_unlock(&offers_lock);
    if (!last)
        return;
    fifo_destroy(memory);
    free(memory);
}

/* The shortest payload that the rank lends by address. */
static uint64_t self_card(int device) {
    return device == COLLET_DEVICE_HOST ? conn_least_lent(config_process(), "process", LOAN_PROCESS_BYTES) : 0;
}

const struct transport transport_self = {
    .name = "self",
    .bit = COLLET_TRANSPORT_SELF,
    .card = self_card,
    .reaches = self_reaches,
    .offer = self_offer,
    .accept = self_accept,
    .close = self_close,
};
