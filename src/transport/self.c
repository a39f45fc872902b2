/* SPDX-License-Identifier: Apache-2.0
 *
 * self: ranks of one process. The consumer allocates the FIFO and offers its address; the producer takes up the offer.
 * Payloads are lent (layers/memory/loan.h): a loan needs only the payload's address. Between GPUs, the memory lies
 * elsewhere: transport/ipc/self_gpu.c.
 *
 * Ends may be closed in any order, so the memory counts its users. An offer may never be taken up, so offers are listed
 * until they are taken up or withdrawn.
 */
#include "transport/self.h"

#include "base/mapping.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

PROCESS_LOCK(offers_lock); /* protects the list, and `users` */
static struct self_memory *offers;

/* Removes memory from the list of offers. False: it is not on the list, and must not be accessed. */
static bool unlist(const struct self_memory *memory) {
    struct self_memory **link = &offers;
    while (*link != NULL && *link != memory)
        link = &(*link)->next;
    if (*link == NULL)
        return false;
    *link = memory->next;
    return true;
}

/* Initialises either end. */
static void end_init(struct conn *conn, struct self_memory *memory) {
    fifo_end_init(&conn->end, memory->fifo, conn_layout(conn), conn->owner->config);
    if (memory->head != NULL)
        conn->end.head = memory->head;
    conn->impl = memory;
    if (memory->borrows != LOAN_NONE && conn_is_direct(conn->owner, "process"))
        conn_allow_loans(conn, memory->borrows, LOAN_PROCESS_BYTES);
}

void self_offer_memory(struct conn *conn, struct self_memory *memory, struct conn_blob *offer) {
    memory->users = 1;
    end_init(conn, memory);
    SCOPED_LOCK(&offers_lock);
    memory->next = offers;
    offers = memory;
    memcpy(offer->data, &memory, sizeof(memory));
    offer->bytes = sizeof(memory);
}

/* Producer: completes its end with the offered memory. REMOTE: the consumer has withdrawn the offer. */
static enum collet_result self_take_up(struct conn *conn, const struct conn_blob *offer) {
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
    return COLLET_SUCCESS;
}

struct self_memory *self_leave(struct conn *conn) {
    struct self_memory *memory = conn->impl;
    if (memory == NULL)
        return NULL;
    SCOPED_LOCK(&offers_lock);
    if (conn->side == CONN_CONSUMER)
        unlist(memory);
    return --memory->users == 0 ? memory : NULL;
}

static bool self_reaches(const struct peer_info *a, const struct peer_info *b, const char **why) {
    *why = "different processes";
    return memcmp(a->process, b->process, sizeof(a->process)) == 0;
}

static enum collet_result self_offer(struct conn *conn, struct conn_blob *offer) {
    struct self_memory *memory;
    if (conn->owner->gpu != NULL)
        return transport_self_on_gpus.offer(conn, offer);
    COLLET_TRY(memory_get(&memory, 1, sizeof(*memory), "no memory for a connection from rank %d", conn->peer));
    enum collet_result result = os_memory_create(conn_layout(conn)->total_bytes, &memory->fifo);
    if (result != COLLET_SUCCESS) {
        free(memory);
        return result;
    }
    fifo_memory_init(memory->fifo, conn_layout(conn), conn->owner->config);
    memory->borrows = conn_is_direct(conn->owner, "process") ? LOAN_PROCESS : LOAN_NONE;
    self_offer_memory(conn, memory, offer);
    return COLLET_SUCCESS;
}

static void self_close(struct conn *conn) {
    if (conn->owner->gpu != NULL) {
        transport_self_on_gpus.close(conn);
        return;
    }
    struct self_memory *memory = self_leave(conn);
    if (memory == NULL)
        return;
    os_memory_destroy(memory->fifo, conn_layout(conn)->total_bytes);
    free(memory);
}

/* The minimum payload that this rank lends by address. */
static uint64_t self_card(int device) {
    return device == COLLET_DEVICE_HOST ? conn_least_lent(config_process(), "process", LOAN_PROCESS_BYTES) : 0;
}

const struct transport transport_self = {
    .name = "self",
    .bit = COLLET_TRANSPORT_SELF,
    .card = self_card,
    .reaches = self_reaches,
    .offer = self_offer,
    .accept = self_take_up,
    .close = self_close,
};
