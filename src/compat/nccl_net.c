/* SPDX-License-Identifier: Apache-2.0
 *
 * libnccl-net-collet.so: a network plugin for NCCL, and for whoever else takes such plugins, that carries messages by collet's
 * own transports between hosts, verbs and tcp. With them come what they have: several interfaces or rails at once, rails that
 * take over, checksums, encryption.
 *
 *      receiver                                              sender
 *      listen: rank 0 of 2 of a new unique id ── handle ───▶ connect: rank 1 of 2 of that id
 *      accept: both have met (boot/), their connection is ready (chan/)
 *      irecv: a request in the queue                         isend: a request in the queue
 *      test: connection's slots ─▶ memory ◀──────────────── test: memory ─▶ connection's slots
 *
 * A handle is a unique id: both have 128 bytes. A message is a row of slots, each with the message's length in its header; one
 * without bytes is one empty slot. Nothing blocks, and nothing moves unless somebody tests.
 *
 * Read next: nccl_net_forms.c, what NCCL calls; transport/plug_abi.h, the interface; transport/plug.c, its other side.
 */
#include "compat/nccl_net.h"

#include "base/config.h"
#include "base/err.h"
#include "base/memory.h"
#include "boot/boot.h"
#include "chan/chan.h"
#include "transport/plug_abi.h"
#include "transport/transport.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct collet_unique_id) <= PLUG_HANDLE_BYTES, "a handle is a unique id");

struct net_line;

struct net_request {
    struct net_line *line; /* NULL: the place is free */
    char *data;
    size_t bytes; /* of the message; a receiver's: room, until its first slot has come */
    size_t moved;
    bool whole;   /* all of it is in slots, or out of them */
    uint64_t end; /* sender: the position behind its last slot */
};

/* A sender or a receiver. Requests first … next−1 are in the queue, modulo their number. */
struct net_line {
    struct collet_unique_id id;
    struct config config;
    struct boot *boot;
    struct chan *chan; /* NULL: the two have not met yet */
    struct conn *conn;
    bool sends;
    unsigned first, next;
    struct net_request requests[PLUG_REQUESTS_MAX];
    struct net_line *next_pending; /* of senders that are not connected yet */
};

struct net_listener {
    struct net_line *line; /* NULL: it has been handed over */
};

static plug_log *net_log;

void net_tell(plug_log *log) { net_log = log; }

/* Tells the program why. */
static int net_result(enum collet_result result) {
    if (result == COLLET_SUCCESS || result == COLLET_IN_PROGRESS)
        return PLUG_SUCCESS;
    if (net_log != NULL)
        net_log(2, 0x10, "collet", 0, "%s", err_last());
    return result == COLLET_ERR_SYSTEM     ? PLUG_SYSTEM_ERROR
           : result == COLLET_ERR_INTERNAL ? PLUG_INTERNAL_ERROR
                                           : PLUG_REMOTE_ERROR;
}

/* ---- lines ---- */

static void line_destroy(struct net_line *line) {
    if (line == NULL)
        return;
    chan_destroy(line->chan);
    boot_destroy(line->boot);
    free(line);
}

/* Other transports would be none between hosts, or this very plugin. Nothing is lent: a message is copied. */
static enum collet_result configure(struct config *config) {
    COLLET_TRY(config_read(config));
    snprintf(config->transport, sizeof config->transport, "verbs,tcp");
    snprintf(config->direct, sizeof config->direct, "off");
    config->trace[0] = config->dump_file[0] = '\0';
    config->proxy = 0;
    return COLLET_SUCCESS;
}

static enum collet_result line_join(struct net_line *line) {
    const struct transport *verbs = transport_named("verbs");
    struct boot_self self = {.device = COLLET_DEVICE_HOST};
    COLLET_TRY(configure(&line->config));
    self.cards[transport_number(verbs)] = verbs->card(COLLET_DEVICE_HOST);
    return boot_join(&line->id, 2, line->sends, &self, &line->config, &line->boot);
}

static enum collet_result line_create(const struct collet_unique_id *id, bool sends, struct net_line **line_p) {
    struct net_line *line;
    COLLET_TRY(memory_get(&line, 1, sizeof *line, "no memory for a connection"));
    line->id = *id;
    line->sends = sends;
    enum collet_result result = line_join(line);
    if (result == COLLET_SUCCESS)
        *line_p = line;
    else
        line_destroy(line);
    return result;
}

/* SUCCESS once messages can be sent. */
static enum collet_result line_try(struct net_line *line) {
    COLLET_TRY(boot_try_init(line->boot));
    if (line->chan == NULL) {
        struct chan_options options = {.boot = line->boot, .config = &line->config, .nranks = 2, .rank = line->sends};
        COLLET_TRY(chan_create(&options, &line->chan));
    }
    if (line->conn == NULL)
        COLLET_TRY(conn_get(line->chan, !line->sends, 0, 0, line->sends ? CONN_PRODUCER : CONN_CONSUMER, &line->conn));
    COLLET_TRY(boot_check(line->boot));
    return conn_try(line->conn);
}

/* ---- connecting ---- */

int net_listen(void *handle, void **listener_p) {
    struct collet_unique_id id;
    struct net_listener *listener = calloc(1, sizeof *listener);
    *listener_p = NULL;
    if (listener == NULL)
        return PLUG_SYSTEM_ERROR;
    enum collet_result result = boot_unique_id_fresh(false, &id);
    if (result == COLLET_SUCCESS)
        result = line_create(&id, false, &listener->line);
    if (result != COLLET_SUCCESS) {
        free(listener);
        return net_result(result);
    }
    memcpy(handle, &id, sizeof id);
    *listener_p = listener;
    return PLUG_SUCCESS;
}

int net_close_listen(void *listener) {
    line_destroy(((struct net_listener *)listener)->line);
    free(listener);
    return PLUG_SUCCESS;
}

int net_accept(void *listener, void **receiver, void **on_device) {
    struct net_line **line = &((struct net_listener *)listener)->line;
    (void)on_device;
    *receiver = NULL;
    enum collet_result result = line_try(*line);
    if (result == COLLET_SUCCESS) {
        *receiver = *line;
        *line = NULL;
    }
    return net_result(result);
}

/* The program calls again with the same handle, which has no room for more than the id. */
PROCESS_LOCK(pending_lock);
static struct net_line *pending;

static struct net_line *take_pending(const void *handle) {
    SCOPED_LOCK(&pending_lock);
    struct net_line **at = &pending;
    while (*at != NULL && memcmp(&(*at)->id, handle, sizeof(*at)->id) != 0)
        at = &(*at)->next_pending;
    struct net_line *line = *at;
    if (line != NULL)
        *at = line->next_pending;
    return line;
}

static void put_pending(struct net_line *line) {
    SCOPED_LOCK(&pending_lock);
    line->next_pending = pending;
    pending = line;
}

int net_connect(void *handle, void **sender) {
    struct net_line *line = take_pending(handle);
    enum collet_result result = COLLET_SUCCESS;
    *sender = NULL;
    if (line == NULL)
        result = line_create(handle, true, &line);
    if (result == COLLET_SUCCESS)
        result = line_try(line);
    if (result == COLLET_IN_PROGRESS)
        put_pending(line);
    else if (result == COLLET_SUCCESS)
        *sender = line;
    else
        line_destroy(line);
    return net_result(result);
}

int net_close(void *line) {
    line_destroy(line);
    return PLUG_SUCCESS;
}

/* ---- messages ---- */

int net_enqueue(void *line_p, void *data, size_t bytes, void **request_p) {
    struct net_line *line = line_p;
    struct net_request *request = &line->requests[line->next % PLUG_REQUESTS_MAX];
    *request_p = NULL; /* no room now: to be called again */
    if (request->line != NULL)
        return PLUG_SUCCESS;
    *request = (struct net_request){.line = line, .data = data, .bytes = bytes};
    line->next++;
    *request_p = request;
    return PLUG_SUCCESS;
}

/* False: no slot is free. */
static bool put_slot(struct conn *conn, struct net_request *request) {
    size_t left = request->bytes - request->moved, most = fifo_payload_bytes(conn_layout(conn), PROTOCOL_SIMPLE);
    uint32_t bytes = (uint32_t)(left < most ? left : most);
    if (!fifo_has_credit(&conn->end))
        return false;
    struct fifo_slot_header *header = fifo_header(&conn->end);
    *header = (struct fifo_slot_header){.word = fifo_word(PROTOCOL_SIMPLE, bytes), .sequence = request->bytes};
    if (bytes > 0)
        memcpy(fifo_slot_at(&conn->end, PROTOCOL_SIMPLE, conn->end.position), request->data + request->moved, bytes);
    fifo_publish(&conn->end);
    request->moved += bytes;
    request->whole = request->moved == request->bytes;
    request->end = conn->end.position;
    return true;
}

/* IN_PROGRESS: no slot has come. */
static enum collet_result take_slot(struct conn *conn, struct net_request *request) {
    if (!fifo_has_data(&conn->end))
        return COLLET_IN_PROGRESS;
    const struct fifo_slot_header *header = fifo_header(&conn->end);
    uint32_t bytes = fifo_word_bytes(header->word);
    if (request->moved == 0 && header->sequence <= request->bytes)
        request->bytes = header->sequence;
    if (header->sequence != request->bytes || bytes > request->bytes - request->moved)
        return err_set(COLLET_ERR_INTERNAL, "a message of %llu bytes came where there is room for %zu",
                       (unsigned long long)header->sequence, request->bytes);
    if (bytes > 0)
        memcpy(request->data + request->moved, fifo_slot_at(&conn->end, PROTOCOL_SIMPLE, conn->end.position), bytes);
    fifo_consumed(&conn->end);
    request->moved += bytes;
    request->whole = request->moved == request->bytes;
    return COLLET_SUCCESS;
}

/* Moves slots of all requests, in their order, until there is none. */
static enum collet_result line_move(struct net_line *line) {
    struct conn *conn = line->conn;
    while (line->first != line->next) {
        struct net_request *request = &line->requests[line->first % PLUG_REQUESTS_MAX];
        while (!request->whole) {
            if (line->sends && !put_slot(conn, request))
                return COLLET_IN_PROGRESS;
            if (!line->sends)
                COLLET_TRY(take_slot(conn, request));
        }
        line->first++;
    }
    return COLLET_SUCCESS;
}

/* A receiver has what its peer sent before it left; a sender needs the peer. */
static enum collet_result check_peer(const struct net_line *line) {
    int peer = !line->sends;
    COLLET_TRY(boot_check(line->boot));
    if (boot_missing_count(line->boot) == 0 || boot_peer_settled(line->boot, peer, true) == PEER_ALIVE)
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_REMOTE, "the other end of a connection (host %s) has closed it, or is dead",
                   line->conn->owner->peers[peer].host);
}

static enum collet_result line_progress(struct net_line *line) {
    enum collet_result moved = line_move(line);
    if (moved < 0)
        return moved;
    enum collet_result carried = line->conn->transport->progress(line->conn);
    if (carried < 0)
        return carried;
    moved = line_move(line);
    return moved < 0 || carried == COLLET_SUCCESS ? moved : check_peer(line);
}

/* Nobody makes progress between tests, so a request is done when nothing of it is left to do. */
static bool is_over(const struct net_request *request) {
    const struct conn *conn = request->line->conn;
    bool consumed = request->line->sends && (int64_t)(*conn->end.head - request->end) >= 0;
    return request->whole && (consumed || conn->transport->idle(conn));
}

int net_test(void *request_p, int *done, int *bytes) {
    struct net_request *request = request_p;
    enum collet_result result = line_progress(request->line);
    *done = is_over(request);
    if (!*done)
        return net_result(result);
    if (bytes != NULL)
        *bytes = (int)request->bytes;
    request->line = NULL;
    return PLUG_SUCCESS;
}
