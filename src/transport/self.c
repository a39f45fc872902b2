/* SPDX-License-Identifier: Apache-2.0
 *
 * self: ranks of one process. The consumer allocates the FIFO, the producer gets its address. Both ends count themselves
 * in and out, and the last one out frees it: ranks of a process may be destroyed in any order.
 */
#include "base/err.h"
#include "base/os.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>

struct self_memory {
    int users;
    size_t bytes;
    void *fifo;
};

static bool self_reaches(const struct peer_info *a, const struct peer_info *b, const char **why) {
    *why = "different processes";
    return memcmp(a->process, b->process, sizeof(a->process)) == 0;
}

static enum collet_result self_offer(struct conn *conn, struct conn_blob *offer) {
    const struct fifo_layout *layout = &conn->chan->layout;
    struct self_memory *memory = malloc(sizeof(*memory));
    if (memory == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a connection from rank %d", conn->peer);
    /* One user for each end, from the start: the producer may come after the consumer has gone. */
    *memory = (struct self_memory){.users = 2, .bytes = layout->total_bytes};
    enum collet_result result = os_memory_create(memory->bytes, &memory->fifo);
    if (result != COLLET_SUCCESS) {
        free(memory);
        return result;
    }
    fifo_memory_init(memory->fifo, layout, conn->chan->config);
    fifo_end_init(&conn->end, memory->fifo, layout, conn->chan->config);
    conn->impl = memory;
    memcpy(offer->data, &memory, sizeof(memory));
    offer->bytes = sizeof(memory);
    return COLLET_SUCCESS;
}

static enum collet_result self_accept(struct conn *conn, const struct conn_blob *offer) {
    struct self_memory *memory;
    memcpy(&memory, offer->data, sizeof(memory));
    fifo_end_init(&conn->end, memory->fifo, &conn->chan->layout, conn->chan->config);
    conn->impl = memory;
    return COLLET_SUCCESS;
}

static enum collet_result self_ready(struct conn *conn) {
    (void)conn;
    return COLLET_SUCCESS;
}

static void self_close(struct conn *conn) {
    struct self_memory *memory = conn->impl;
    if (memory == NULL || __atomic_sub_fetch(&memory->users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    os_memory_destroy(memory->fifo, memory->bytes);
    free(memory);
}

const struct transport transport_self = {
    .name = "self",
    .bit = COLLET_TRANSPORT_SELF,
    .reaches = self_reaches,
    .offer = self_offer,
    .accept = self_accept,
    .ready = self_ready,
    .close = self_close,
};
