/* SPDX-License-Identifier: Apache-2.0
 *
 * libnccl-net-collet.so: a network plugin for NCCL and for other programs that load such plugins. It carries messages by
 * collet's transports between hosts, verbs and tcp. So these programs get their features: several interfaces or rails at
 * once, failover between rails, checksums, encryption.
 *
 *      receiver                                              sender
 *      listen: rank 0 of 2 of a new unique id ── handle ───▶ connect: rank 1 of 2 of that id
 *      accept: both have met (boot/), their connection is ready (chan/)
 *      irecv of tags 5, 7: places 8, 9 ──────── asks ─────▶ isend of tag 7: it goes to place 9
 *      test: connection's slots ─▶ memory ◀──────────────── test: memory ─▶ connection's slots
 *
 * A handle is a unique id: both have 128 bytes. One irecv may ask for several messages, and is done when all are here.
 * Messages with one tag come in order; messages with different tags may come in any order. So a sender must not send a
 * message before one that the receiver needs sooner. Therefore the receiver tells the sender, by a connection in the other
 * direction, what it asks for. isend takes no other message.
 *
 * A message is sent in a sequence of slots. Each slot's header has the length of the message, and its place at the
 * receiver. A message of 0 bytes is one empty slot. No function blocks, and data moves only during calls.
 *
 * Read next: nccl_net_forms.c, what NCCL calls; layers/nccl/plug_abi.h, the interface; layers/nccl/plug.c, its other side.
 */
#include "layers/nccl/nccl_net.h"

#include "base/config_read.h"
#include "base/err.h"
#include "base/memory.h"
#include "boot/boot.h"
#include "chan/chan.h"
#include "layers/nccl/plug_abi.h"
#include "transport/transport.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct collet_unique_id) <= PLUG_HANDLE_BYTES, "a handle is a unique id");

struct net_line;

struct net_message {
    char *data;
    size_t bytes; /* bytes of the message; receiver, until the first slot has come: bytes of room */
    size_t moved;
    bool whole; /* sender: all bytes are in slots; receiver: all bytes have come */
    int tag;
};

struct net_request {
    struct net_line *line; /* NULL: this entry is free */
    int nmessages;         /* 1 for a sender */
    struct net_message messages[PLUG_RECEIVES_MAX];
    uint32_t place; /* sender: place of the message at its receiver (struct net_ask) */
    uint64_t end;   /* sender: position behind the message's last slot */
};

/* A receiver's demand for a message with this tag. The place is its message number `place % PLUG_RECEIVES_MAX` of
 * request `place / PLUG_RECEIVES_MAX`. */
struct net_ask {
    int tag;
    uint32_t place;
};

/* A sender or a receiver. Requests are numbered; request n uses entry n % PLUG_REQUESTS_MAX. Of the requests `waiting` …
 * `next`−1, something must still be put into slots: a sender's messages, or a receiver's demands. */
struct net_line {
    struct collet_unique_id id;
    struct config config;
    struct boot *boot;
    struct chan *chan; /* NULL: the two ranks have not met yet */
    struct conn *conn, *asking;
    bool sends;
    unsigned waiting, next;
    struct net_request requests[PLUG_REQUESTS_MAX];
    struct net_line *next_pending; /* list of senders that are not connected yet */
    /* Sender: number of demands that no isend has met yet; asks[] has the oldest first. */
    int nasks;
    struct net_ask asks[PLUG_REQUESTS_MAX * PLUG_RECEIVES_MAX];
};

struct net_listener {
    struct net_line *line; /* NULL: net_accept() has returned it */
};

static plug_log *net_log;

void net_tell(plug_log *log) { net_log = log; }

/* Translates a result, and reports a failure to the program's log function. */
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

/* Other transports would be useless between hosts, or would be this very plugin. Loans are off: messages are copied. */
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

/* SUCCESS: messages can be sent. */
static enum collet_result line_try(struct net_line *line) {
    COLLET_TRY(boot_try_init(line->boot));
    if (line->chan == NULL) {
        struct chan_options options = {.boot = line->boot, .config = &line->config, .nranks = 2, .rank = line->sends};
        COLLET_TRY(chan_create(&options, &line->chan));
    }
    const int peer = !line->sends;
    COLLET_TRY(conn_get(line->chan, peer, 0, 0, line->sends ? CONN_PRODUCER : CONN_CONSUMER, &line->conn));
    COLLET_TRY(conn_get(line->chan, peer, 0, 0, line->sends ? CONN_CONSUMER : CONN_PRODUCER, &line->asking));
    COLLET_TRY(boot_check(line->boot));
    enum collet_result result = conn_try(line->conn), back = conn_try(line->asking);
    return result < 0 || back == COLLET_SUCCESS ? result : back;
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

/* Senders that are not connected yet. The program calls net_connect() again with the same handle, which has room only
 * for the id. */
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

/* ---- demands of a receiver ---- */

/* Puts the next bytes of a message into a slot, as many as fit. False: no slot is free. */
static bool put_slot(struct conn *conn, uint32_t place, struct net_message *message) {
    size_t left = message->bytes - message->moved, most = fifo_payload_bytes(conn_layout(conn), PROTOCOL_SIMPLE);
    uint32_t bytes = (uint32_t)(left < most ? left : most);
    if (!fifo_has_credit(&conn->end))
        return false;
    *fifo_header(&conn->end) = (struct fifo_slot_header){
        .word = fifo_word(PROTOCOL_SIMPLE, bytes), .signature = place, .sequence = message->bytes};
    if (bytes > 0)
        memcpy(fifo_slot_at(&conn->end, PROTOCOL_SIMPLE, conn->end.position), message->data + message->moved, bytes);
    fifo_publish(&conn->end);
    message->moved += bytes;
    message->whole = message->moved == message->bytes;
    return true;
}

/* Receiver: sends the demands of its waiting requests, one slot per request, in order, while slots are free. */
static void ask(struct net_line *line) {
    for (; line->waiting != line->next; line->waiting++) {
        struct net_ask asks[PLUG_RECEIVES_MAX];
        const uint32_t at = line->waiting % PLUG_REQUESTS_MAX;
        const struct net_request *request = &line->requests[at];
        for (int k = 0; k < request->nmessages; k++)
            asks[k] = (struct net_ask){request->messages[k].tag, at * PLUG_RECEIVES_MAX + (uint32_t)k};
        struct net_message all = {.data = (char *)asks, .bytes = sizeof(asks[0]) * (size_t)request->nmessages};
        if (!put_slot(line->asking, 0, &all))
            break;
    }
}

/* Sender: reads the demands that have come. */
static enum collet_result hear(struct net_line *line) {
    struct fifo_end *end = &line->asking->end;
    while (fifo_has_data(end)) {
        const uint32_t bytes = fifo_word_bytes(fifo_header(end)->word);
        const int more = (int)(bytes / sizeof(struct net_ask));
        if (more > (int)(sizeof(line->asks) / sizeof(line->asks[0])) - line->nasks)
            return err_set(COLLET_ERR_INTERNAL, "the receiver asks for too many messages: %d and %d more", line->nasks,
                           more);
        memcpy(line->asks + line->nasks, fifo_slot_at(end, PROTOCOL_SIMPLE, end->position),
               sizeof(struct net_ask) * (size_t)more);
        line->nasks += more;
        fifo_consumed(end);
    }
    return COLLET_SUCCESS;
}

/* Takes the oldest demand for this tag. False: there is none yet. */
static bool take_ask(struct net_line *line, int tag, uint32_t *place) {
    int k = 0;
    while (k < line->nasks && line->asks[k].tag != tag)
        k++;
    if (k == line->nasks)
        return false;
    *place = line->asks[k].place;
    line->nasks--;
    memmove(line->asks + k, line->asks + k + 1, sizeof(struct net_ask) * (size_t)(line->nasks - k));
    return true;
}

/* ---- messages ---- */

/* Receiver: copies one slot into its message. IN_PROGRESS: no slot has come. */
static enum collet_result take_slot(struct net_line *line) {
    struct fifo_end *end = &line->conn->end;
    if (!fifo_has_data(end))
        return COLLET_IN_PROGRESS;
    const struct fifo_slot_header *header = fifo_header(end);
    struct net_request *request = &line->requests[header->signature / PLUG_RECEIVES_MAX % PLUG_REQUESTS_MAX];
    struct net_message *message = &request->messages[header->signature % PLUG_RECEIVES_MAX];
    const uint32_t bytes = fifo_word_bytes(header->word);
    if (request->line == NULL || message >= request->messages + request->nmessages || message->whole)
        return err_set(COLLET_ERR_INTERNAL, "a message came that nobody has asked for");
    if (message->moved == 0 && header->sequence <= message->bytes)
        message->bytes = header->sequence;
    if (header->sequence != message->bytes || bytes > message->bytes - message->moved)
        return err_set(COLLET_ERR_INTERNAL, "a message of %llu bytes came where there is room for %zu",
                       (unsigned long long)header->sequence, message->bytes);
    if (bytes > 0)
        memcpy(message->data + message->moved, fifo_slot_at(end, PROTOCOL_SIMPLE, end->position), bytes);
    fifo_consumed(end);
    message->moved += bytes;
    message->whole = message->moved == message->bytes;
    return COLLET_SUCCESS;
}

static enum collet_result receiver_move(struct net_line *line) {
    enum collet_result taken = COLLET_SUCCESS;
    ask(line);
    while (taken == COLLET_SUCCESS)
        taken = take_slot(line);
    return taken;
}

/* Puts the messages of all waiting requests into slots, in order, until no slot is free. */
static enum collet_result sender_move(struct net_line *line) {
    COLLET_TRY(hear(line));
    for (; line->waiting != line->next; line->waiting++) {
        struct net_request *request = &line->requests[line->waiting % PLUG_REQUESTS_MAX];
        while (!request->messages[0].whole)
            if (!put_slot(line->conn, request->place, &request->messages[0]))
                return COLLET_IN_PROGRESS;
        request->end = line->conn->end.position;
    }
    return COLLET_SUCCESS;
}

/* Called when no data moved. REMOTE: the peer has left, or is dead. A receiver has by then received all that its peer
 * sent. */
static enum collet_result check_peer(const struct net_line *line) {
    int peer = !line->sends;
    COLLET_TRY(boot_check(line->boot));
    if (boot_missing_count(line->boot) == 0 || boot_peer_settled(line->boot, peer, true) == PEER_ALIVE)
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_REMOTE, "the other end of a connection (host %s) has closed it, or is dead",
                   line->conn->owner->peers[peer].host);
}

static enum collet_result line_move(struct net_line *line) {
    return line->sends ? sender_move(line) : receiver_move(line);
}

static enum collet_result line_progress(struct net_line *line) {
    enum collet_result moved = line_move(line);
    if (moved < 0)
        return moved;
    enum collet_result asked = line->asking->transport->progress(line->asking);
    enum collet_result carried = line->conn->transport->progress(line->conn);
    if (asked < 0 || carried < 0)
        return asked < 0 ? asked : carried;
    moved = line_move(line);
    return moved < 0 || carried == COLLET_SUCCESS ? moved : check_peer(line);
}

/* A free entry for the next request. NULL: all are in use. */
static struct net_request *free_request(struct net_line *line) {
    struct net_request *request = &line->requests[line->next % PLUG_REQUESTS_MAX];
    return request->line == NULL ? request : NULL;
}

int net_isend(void *line_p, void *data, size_t bytes, int tag, void **request_p) {
    struct net_line *line = line_p;
    struct net_request *request = free_request(line);
    uint32_t place;
    *request_p = NULL; /* NULL: not taken now; the program calls again */
    if (request == NULL)
        return PLUG_SUCCESS;
    if (!take_ask(line, tag, &place)) {
        enum collet_result result = line_progress(line);
        if (result < 0 || !take_ask(line, tag, &place))
            return net_result(result);
    }
    *request = (struct net_request){.line = line, .nmessages = 1, .place = place};
    request->messages[0] = (struct net_message){.data = data, .bytes = bytes, .tag = tag};
    line->next++;
    *request_p = request;
    return PLUG_SUCCESS;
}

int net_irecv(void *line_p, int n, void **data, const size_t *bytes, const int *tags, void **request_p) {
    struct net_line *line = line_p;
    struct net_request *request = free_request(line);
    *request_p = NULL;
    if (n < 1 || n > PLUG_RECEIVES_MAX)
        return net_result(err_set(COLLET_ERR_INTERNAL, "irecv of %d messages: 1 to %d can be received together", n,
                                  PLUG_RECEIVES_MAX));
    if (request == NULL)
        return PLUG_SUCCESS;
    *request = (struct net_request){.line = line, .nmessages = n};
    for (int k = 0; k < n; k++)
        request->messages[k] = (struct net_message){.data = data[k], .bytes = bytes[k], .tag = tags[k]};
    line->next++;
    *request_p = request;
    /* Sends the demand at once. If that fails, net_test() of the request fails too, and says why. */
    line_progress(line);
    return PLUG_SUCCESS;
}

/* Is the request done? Data moves only during calls, so it is done only when nothing is left to do for it. */
static bool is_over(const struct net_request *request) {
    const struct conn *conn = request->line->conn;
    bool consumed = request->line->sends && (int64_t)(*conn->end.head - request->end) >= 0, whole = true;
    for (int k = 0; k < request->nmessages; k++)
        whole = whole && request->messages[k].whole;
    return whole && (consumed || conn->transport->idle(conn));
}

int net_test(void *request_p, int *done, int *bytes) {
    struct net_request *request = request_p;
    enum collet_result result = line_progress(request->line);
    *done = is_over(request);
    if (!*done)
        return net_result(result);
    for (int k = 0; k < request->nmessages && bytes != NULL; k++)
        bytes[k] = (int)request->messages[k].bytes;
    request->line = NULL;
    return PLUG_SUCCESS;
}
