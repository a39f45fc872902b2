/* SPDX-License-Identifier: Apache-2.0
 *
 * The connections of a fan (fifo/fan.h), between ranks of one host. The producer makes the memory, and offers it to all other ranks:
 *
 *    producer of rank 0                                        consumers
 *    a connection with rank 1 ── offer: process, descriptor ──▶ maps it; answer: I am here, and take loans
 *    a connection with rank 2 ── the same offer ──────────────▶ maps it; answer
 *    …    │                                                       │
 *         └─ all share the end of the first one, its lead          └─ an end of its own, with its line's head
 *
 *    memfd:   │ FIFO (fifo/layout.h) │ lines of the consumers │ nonce │
 *
 * There is a connection for each consumer, so that each wait can name a rank. The descriptor stays open until all consumers
 * have answered. The nonce shows that the descriptor is still the one that was offered. Ranks of one process use one
 * mapping of the memory. Payloads are lent to all consumers or to none. If all ranks are in one process, any payload may be
 * lent; otherwise only payloads in the shared heap (layers/memory/heap.h).
 */
#include "fifo/fan.h"

#include "base/mapping.h"
#include "base/memory.h"
#include "base/os.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum fan_answer { FAN_ANSWERED = 1, FAN_TAKES_LOANS = 2 };

struct fan_offer {
    uint64_t nonce;
    int32_t pid, fd;
    struct heap_ticket ticket; /* the producer's shared heap */
};

/* The memory of a fan, as it is mapped in this process. All its ranks use one mapping. */
struct fan_mapping {
    void *memory;
    size_t bytes;
    uint64_t nonce;
    int users; /* number of ends that use the mapping */
    struct fan_mapping *next;
};

/* The part of a fan that belongs to one end. */
struct fan {
    struct fan_mapping *mapping; /* NULL: not mapped yet */
    struct fan_offer offer;
    int fd;                 /* producer: open until all consumers have answered; then −1 */
    struct heap_view *view; /* consumer: the producer's shared heap; NULL: not opened, or none */
};

static uint32_t consumers(const struct conn_owner *owner) { return (uint32_t)owner->nranks - 1; }

/* The place of a consumer. A producer's consumers are the ranks after it, in order, modulo nranks. */
static uint32_t place_of(const struct conn_owner *owner, int producer, int consumer) {
    return (uint32_t)((consumer - producer - 1 + owner->nranks) % owner->nranks);
}

static struct fan_line *lines_of(const struct conn *conn, void *memory) {
    return (struct fan_line *)(void *)((char *)memory + conn_layout(conn)->total_bytes);
}

static uint64_t *fan_nonce(const struct conn *conn, void *memory) {
    return (uint64_t *)(void *)(lines_of(conn, memory) + consumers(conn->owner));
}

static size_t bytes_of(const struct conn *conn) {
    return conn_layout(conn)->total_bytes + (consumers(conn->owner) + 1) * sizeof(struct fan_line);
}

static bool is_one_process(const struct conn_owner *owner) {
    bool one = true;
    for (int rank = 1; rank < owner->nranks; rank++)
        one &= memcmp(owner->peers[rank].process, owner->peers[0].process, sizeof owner->peers[0].process) == 0;
    return one;
}

static void fan_allow_loans(struct conn *conn, struct heap_view *view) {
    if (is_one_process(conn->owner))
        conn_allow_loans(conn, LOAN_PROCESS, LOAN_PROCESS_BYTES);
    else
        conn_allow_heap(conn, view);
}

/* Initializes an end, whose memory exists, with the head of a line. */
static void fan_end_init(struct conn *conn, void *memory, uint32_t line) {
    fifo_end_init(&conn->end, memory, conn_layout(conn), conn->owner->config);
    conn->end.head = &lines_of(conn, memory)[line].head;
}

static enum collet_result fan_create(struct conn *conn, struct fan **fan_p) {
    struct fan *fan;
    COLLET_TRY(memory_get(&fan, 1, sizeof *fan, "no memory for a connection with rank %d", conn->peer));
    *fan = (struct fan){.fd = -1};
    conn->impl = fan; /* from here on fan_close() cleans up */
    *fan_p = fan;
    return COLLET_SUCCESS;
}

/* ---- mappings of this process ---- */

PROCESS_LOCK(mappings_lock); /* protects the list, and `users` */
static struct fan_mapping *mappings;

/* The mapping with this nonce, with one more user; NULL: this process has none. */
static struct fan_mapping *find_mapping(uint64_t nonce) {
    SCOPED_LOCK(&mappings_lock);
    struct fan_mapping *mapping = mappings;
    while (mapping != NULL && mapping->nonce != nonce)
        mapping = mapping->next;
    if (mapping != NULL)
        mapping->users++;
    return mapping;
}

/* Makes the memory that is offered, or maps it. */
static enum collet_result add_mapping(const struct conn *conn, struct fan *fan) {
    struct fan_mapping *mapping;
    COLLET_TRY(memory_get(&mapping, 1, sizeof *mapping, "no memory for a connection with rank %d", conn->peer));
    *mapping = (struct fan_mapping){.bytes = bytes_of(conn), .nonce = fan->offer.nonce, .users = 1};
    enum collet_result result = conn->side == CONN_PRODUCER
                                    ? os_shared_create("collet-fan", mapping->bytes, &mapping->memory, &fan->fd)
                                    : os_shared_open(fan->offer.pid, fan->offer.fd, mapping->bytes, &mapping->memory);
    if (result != COLLET_SUCCESS) {
        free(mapping);
        return result;
    }
    fan->mapping = mapping;
    SCOPED_LOCK(&mappings_lock);
    mapping->next = mappings;
    mappings = mapping;
    return COLLET_SUCCESS;
}

static void leave_mapping(struct fan_mapping *mapping) {
    SCOPED_LOCK(&mappings_lock);
    if (mapping == NULL || --mapping->users > 0)
        return;
    struct fan_mapping **link = &mappings;
    while (*link != mapping)
        link = &(*link)->next;
    *link = mapping->next;
    os_memory_destroy(mapping->memory, mapping->bytes);
    free(mapping);
}

/* ---- producer ---- */

static enum collet_result make_memory(struct conn *lead) {
    const struct conn_owner *owner = lead->owner;
    struct fan *fan = NULL;
    COLLET_TRY(fan_create(lead, &fan));
    fan->offer = (struct fan_offer){.pid = os_pid(), .ticket.fd = -1};
    os_random(&fan->offer.nonce, sizeof fan->offer.nonce);
    COLLET_TRY(add_mapping(lead, fan));
    void *memory = fan->mapping->memory;
    fifo_memory_init(memory, conn_layout(lead), owner->config);
    for (uint32_t k = 0; k < consumers(owner); k++)
        lines_of(lead, memory)[k].head = (uint64_t)owner->config->first_step;
    *fan_nonce(lead, memory) = fan->offer.nonce;
    fan_end_init(lead, memory, 0);
    lead->end.nheads = consumers(owner);
    fan->offer.fd = fan->fd;
    if (conn_is_direct(owner, "shared") && !is_one_process(owner))
        fan->offer.ticket = heap_own()->ticket;
    return COLLET_SUCCESS;
}

static enum collet_result fan_offer(struct conn *conn, struct conn_blob *blob) {
    if (conn->lead->impl == NULL)
        COLLET_TRY(make_memory(conn->lead));
    const struct fan *fan = conn->lead->impl;
    if (conn != conn->lead)
        fan_end_init(conn, fan->mapping->memory, place_of(conn->owner, conn->owner->rank, conn->peer));
    memcpy(blob->data, &fan->offer, sizeof fan->offer);
    blob->bytes = sizeof fan->offer;
    return COLLET_SUCCESS;
}

/* Called when all consumers have answered. */
static void open_fan(struct conn *lead, struct fan *fan, uint64_t answers) {
    close(fan->fd);
    fan->fd = -1;
    if ((answers & FAN_TAKES_LOANS) != 0)
        fan_allow_loans(lead, NULL);
}

static enum collet_result producer_ready(const struct conn *conn) {
    struct fan *fan = conn->lead->impl;
    const struct fan_line *lines = lines_of(conn, fan->mapping->memory);
    uint64_t answers = FAN_ANSWERED | FAN_TAKES_LOANS;
    if (port_load_acquire(&lines[place_of(conn->owner, conn->owner->rank, conn->peer)].answer) ==
        0) /* Pairs with fan_accept(). */
        return COLLET_IN_PROGRESS;
    for (uint32_t k = 0; k < consumers(conn->owner); k++)
        answers &= port_load_acquire(&lines[k].answer); /* Pairs with fan_accept(). */
    if (answers != 0 && fan->fd >= 0)
        open_fan(conn->lead, fan, answers);
    return COLLET_SUCCESS;
}

/* ---- consumer ---- */

/* Can this rank read the payloads that the producer lends? */
static enum collet_result find_loans(struct conn *conn, struct fan *fan, bool *takes) {
    const bool one = is_one_process(conn->owner);
    *takes = conn_is_direct(conn->owner, "process") && one;
    if (one || fan->offer.ticket.fd < 0 || !conn_is_direct(conn->owner, "shared"))
        return COLLET_SUCCESS;
    COLLET_TRY(heap_view_open(&fan->offer.ticket, &fan->view));
    *takes = heap_view_map(fan->view);
    return COLLET_SUCCESS;
}

static enum collet_result fan_accept(struct conn *conn, const struct conn_blob *blob) {
    struct fan *fan = NULL;
    if (blob->bytes != sizeof fan->offer)
        return err_set(COLLET_ERR_INTERNAL, "fan offer of rank %d has %zu bytes", conn->peer, blob->bytes);
    COLLET_TRY(fan_create(conn, &fan));
    memcpy(&fan->offer, blob->data, sizeof fan->offer);
    fan->mapping = find_mapping(fan->offer.nonce);
    if (fan->mapping == NULL)
        COLLET_TRY(add_mapping(conn, fan));
    void *memory = fan->mapping->memory;
    if (*fan_nonce(conn, memory) != fan->offer.nonce)
        return err_set(COLLET_ERR_REMOTE,
                       "rank %d's shared memory is gone: descriptor %d of process %d is another file", conn->peer,
                       fan->offer.fd, fan->offer.pid);
    const uint32_t place = place_of(conn->owner, conn->peer, conn->owner->rank);
    struct fan_line *line = &lines_of(conn, memory)[place];
    bool takes;
    fan_end_init(conn, memory, place);
    COLLET_TRY(find_loans(conn, fan, &takes));
    if (takes) {
        conn->end.loans.reading = &line->reading;
        fan_allow_loans(conn, fan->view);
    }
    port_store_release(&line->answer,
                       takes ? FAN_ANSWERED | FAN_TAKES_LOANS : FAN_ANSWERED); /* Pairs with producer_ready(). */
    return COLLET_SUCCESS;
}

static enum collet_result fan_ready(struct conn *conn) {
    return conn->side == CONN_PRODUCER ? producer_ready(conn) : COLLET_SUCCESS;
}

/* Closes an end. Of a producer's connections, only the lead owns the memory. */
static void fan_close(struct conn *conn) {
    struct fan *fan = conn->impl;
    if (fan == NULL)
        return;
    if (fan->fd >= 0)
        close(fan->fd);
    leave_mapping(fan->mapping);
    heap_view_close(fan->view);
    free(fan);
}

const struct transport transport_fan = {
    .name = "fan",
    .bit = COLLET_TRANSPORT_SHM,
    .fans = true,
    .offer = fan_offer,
    .accept = fan_accept,
    .ready = fan_ready,
    .close = fan_close,
};
