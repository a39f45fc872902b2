/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp: two FIFOs of the same layout, one at each end, and sockets that make the consumer's follow the producer's.
 *
 *    producer's FIFO                                                               consumer's FIFO
 *    slot s ───── socket (s mod n): │ frame │ payload │ frame │ payload │ … ─────▶ slot s, header s, then tail
 *    head   ◀──── socket n:         │ head (8 bytes) │ head │ …  ─────────────────  head, now and then
 *
 *    frame field           written from               checked by the consumer
 *    bytes                 slot header                fits the slot; FIFO_LL_BIT says that the payload is LL lines
 *    signature, sequence   slot header                no: they become the slot header
 *    step                  the producer's step        is the very step that comes next
 *    head, has_head        the FIFO the other way     within what was sent there
 *
 * Everything is in the byte order of the machine; both ends are the same library (the hello's magic shows if not).
 *
 * The consumer reads slots in the order of their steps, so a socket is read only when the next step is on it; what the
 * others receive meanwhile waits in the kernel. A read asks for the rest of the current payload, straight into the slot,
 * and for a little more (`ahead`): a small frame with its payload takes one read, a stream of large ones one read a slot.
 *
 * Credits have a socket of their own. Nothing flows back on the others, so an end that leaves never has unread bytes
 * there, and the kernel delivers what was sent, also after the process has gone. (Closing a socket with unread bytes would
 * throw away what the other end has not received yet.)
 *
 * Where slots go both ways between two ranks, a frame takes the head of the other direction along, and credits cost
 * nothing. Else a head is sent when at least half of the slots were consumed since the last one. This cannot deadlock: fewer than
 * nslots/2 credits are ever held back, so to the producer the FIFO looks like one of more than nslots/2 slots whose credits
 * come at once; that is at least two, and every program is verified to run with two.
 *
 * When a connection breaks, what was received stays consumable; the failure is reported when that is all consumed. An
 * orderly end between two frames is none: the other rank may have finished and left. Whether somebody waits for more than
 * that, the executor knows (and the control plane, that the rank is gone).
 * Read next: tcp_socket.h, how the sockets come to be.
 */
#include "base/err.h"
#include "program/program.h"
#include "transport/tcp_socket.h"
#include "transport/transport.h"
#include "transport/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define AHEAD_BYTES 4096u

struct tcp_frame {
    uint32_t bytes, signature;
    uint64_t sequence;
    uint64_t step;
    uint64_t head, has_head;
};

/* A socket that carries slots. */
struct tcp_socket {
    int fd;
    bool ended; /* consumer: the producer will send no more here */
    /* Producer: what is sent next, and how much of its frame and payload is gone. */
    uint64_t step;
    size_t sent;
    struct tcp_frame sending; /* the frame that `sent` counts from */
    /* Consumer: bytes received beyond the current payload, ahead[ahead_begin … ahead_end). */
    uint32_t ahead_begin, ahead_end;
    char *ahead;
};

struct tcp_end {
    void *memory;
    size_t bytes;
    uint32_t nsockets;
    bool connected;
    struct tcp_listener listener; /* consumer */
    struct tcp_dialer dialer;     /* producer */
    struct tcp_socket sockets[TCP_SOCKETS_MAX - 1];

    int credit_fd;
    bool credits_ended;   /* the other end has left: credits are no longer of use */
    uint64_t credit;      /* the head on its way */
    uint32_t credit_done; /* bytes of it that are sent or received; 0: none is on its way */

    /* Consumer: the slot that is being received, where `tail` is. */
    bool receiving;
    struct tcp_frame frame;
    uint32_t received; /* bytes of its payload */

    const char *broken; /* why the connection is over; NULL: it is not */
    char address[ADDRESS_TEXT_BYTES];
};

static bool tcp_reaches(const struct peer_info *a, const struct peer_info *b, const char **why) {
    (void)a, (void)b, (void)why;
    return true;
}

/* ------------------------------------------------------------------------------------------------------ coming to be */

static enum collet_result tcp_end_create(struct conn *conn, struct tcp_end **end_p) {
    const struct fifo_layout *layout = &conn->chan->layout;
    struct tcp_end *end = calloc(1, sizeof(*end));
    if (end == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a connection with rank %d", conn->peer);
    uint32_t wanted = (uint32_t)conn->chan->config->nsockets;
    end->nsockets = wanted < layout->nslots ? wanted : layout->nslots;
    end->bytes = layout->total_bytes;
    end->credit_fd = end->listener.fd = -1;
    for (uint32_t k = 0; k < end->nsockets; k++)
        end->sockets[k].fd = -1;
    conn->impl = end; /* from here on tcp_close() cleans up */
    COLLET_TRY(wire_memory_create(conn->chan, end->bytes, &end->memory));
    fifo_memory_init(end->memory, layout, conn->chan->config);
    fifo_end_init(&conn->end, end->memory, layout, conn->chan->config);
    *end_p = end;
    return COLLET_SUCCESS;
}

static enum collet_result tcp_offer(struct conn *conn, struct conn_blob *blob) {
    struct tcp_end *end = NULL;
    struct tcp_offer offer;
    COLLET_TRY(tcp_end_create(conn, &end));
    for (uint32_t k = 0; k < end->nsockets; k++)
        if ((end->sockets[k].ahead = malloc(AHEAD_BYTES)) == NULL)
            return err_set(COLLET_ERR_NO_MEMORY, "no memory for a connection from rank %d", conn->peer);
    COLLET_TRY(tcp_listen_start(&end->listener, conn->chan->config, (int)end->nsockets + 1, &offer));
    memcpy(blob->data, &offer, sizeof(offer));
    blob->bytes = sizeof(offer);
    return COLLET_SUCCESS;
}

static enum collet_result tcp_accept(struct conn *conn, const struct conn_blob *blob) {
    struct tcp_end *end = NULL;
    struct tcp_offer offer;
    if (blob->bytes == sizeof(offer))
        memcpy(&offer, blob->data, sizeof(offer));
    if (blob->bytes != sizeof(offer) || offer.set.count < 1 || offer.set.count > ADDRESS_MAX)
        return err_set(COLLET_ERR_INTERNAL, "the tcp offer of rank %d has %zu bytes and makes no sense", conn->peer,
                       blob->bytes);
    COLLET_TRY(tcp_end_create(conn, &end));
    tcp_dial_start(&end->dialer, &offer, (int)end->nsockets + 1, conn->peer, conn->chan->peers[conn->peer].host);
    return COLLET_SUCCESS;
}

static struct tcp_socket *socket_of(struct tcp_end *end, const struct conn *conn, uint64_t step) {
    return &end->sockets[(step & (conn->end.nslots - 1)) % end->nsockets];
}

static enum collet_result tcp_ready(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    int fds[TCP_SOCKETS_MAX];
    if (end->connected)
        return COLLET_SUCCESS;
    COLLET_TRY(conn->side == CONN_CONSUMER ? tcp_listen_try(&end->listener, fds) : tcp_dial_try(&end->dialer, fds));
    for (uint32_t k = 0; k < end->nsockets; k++)
        end->sockets[k].fd = fds[k];
    end->credit_fd = fds[end->nsockets];
    tcp_peer_text(end->credit_fd, end->address);
    for (uint64_t step = conn->end.step + conn->end.nslots; step-- != conn->end.step;) /* each socket's first */
        socket_of(end, conn, step)->step = step;
    end->credit = conn->end.step;
    end->connected = true;
    return COLLET_SUCCESS;
}

static void tcp_close(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    if (end == NULL)
        return;
    if (conn->side == CONN_CONSUMER)
        tcp_listen_stop(&end->listener);
    else
        tcp_dial_stop(&end->dialer);
    for (uint32_t k = 0; k < end->nsockets; k++) {
        if (end->sockets[k].fd >= 0)
            close(end->sockets[k].fd);
        free(end->sockets[k].ahead);
    }
    if (end->credit_fd >= 0)
        close(end->credit_fd);
    wire_memory_destroy(conn->chan, end->memory, end->bytes);
    free(end);
}

/* ---------------------------------------------------------------------------------------------------------------- common */

static bool would_block(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

static void set_broken(struct tcp_end *end, const char *why) {
    if (end->broken == NULL)
        end->broken = why;
}

static enum collet_result err_broken(const struct conn *conn) {
    const struct tcp_end *end = conn->impl;
    return err_set(COLLET_ERR_REMOTE, "the connection %s rank %d (host %s, %s) broke: %s",
                   conn->side == CONN_PRODUCER ? "to" : "from", conn->peer, conn->chan->peers[conn->peer].host,
                   end->address, end->broken);
}

/* Where the payload of a slot is. */
static char *payload_at(const struct conn *conn, uint64_t step, uint32_t bytes) {
    const struct fifo_end *fifo = &conn->end;
    size_t slot = step & (fifo->nslots - 1);
    if (bytes & FIFO_LL_BIT)
        return (char *)(fifo->ll + slot * (fifo->ll_bytes / 4));
    return fifo->simple + slot * fifo->slot_stride;
}

/* -------------------------------------------------------------------------------------------------------------- producer */

static uint64_t next_on_socket(const struct conn *conn, const struct tcp_socket *socket) {
    uint64_t step = socket->step + 1;
    while (socket_of(conn->impl, conn, step) != socket)
        step++;
    return step;
}

/* The connection between the same two ranks the other way, if there is one in use. */
static struct conn *other_way(const struct conn *conn) {
    enum conn_side side = conn->side == CONN_PRODUCER ? CONN_CONSUMER : CONN_PRODUCER;
    struct conn *other = conn_find(conn->chan, conn->peer, conn->channel, conn->lane, side);
    return other != NULL && other->state == CONN_READY ? other : NULL;
}

static void make_frame(const struct conn *conn, struct tcp_socket *socket) {
    const struct fifo_slot_header *header = &conn->end.headers[socket->step & (conn->end.nslots - 1)];
    const struct conn *other = other_way(conn);
    socket->sending = (struct tcp_frame){header->bytes, header->signature, header->sequence, socket->step, 0, 0};
    if (other == NULL || conn->lane == PROG_LANE_P2P) /* there, who gets the head may not read this socket for long */
        return;
    struct tcp_end *consumer = other->impl;
    if (consumer->credit_done > 0)
        return; /* an older head is half sent: let it arrive whole */
    socket->sending.has_head = 1;
    socket->sending.head = consumer->credit = wire_head(other);
}

/* Sends what the socket takes of the slots that are published. */
static bool send_slots(struct conn *conn, struct tcp_socket *socket) {
    struct tcp_end *end = conn->impl;
    uint64_t tail = wire_tail(conn);
    bool moved = false;
    while ((int64_t)(tail - socket->step) > 0) {
        struct tcp_frame *frame = &socket->sending;
        if (socket->sent == 0)
            make_frame(conn, socket);
        size_t bytes = frame->bytes & ~FIFO_LL_BIT, total = sizeof(*frame) + bytes;
        size_t of_frame = socket->sent < sizeof(*frame) ? socket->sent : sizeof(*frame);
        size_t of_payload = socket->sent - of_frame;
        struct iovec parts[2] = {
            {(char *)frame + of_frame, sizeof(*frame) - of_frame},
            {payload_at(conn, socket->step, frame->bytes) + of_payload, bytes - of_payload},
        };
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t n = sendmsg(socket->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (!would_block())
                set_broken(end, strerror(errno));
            return moved;
        }
        moved = true;
        socket->sent += (size_t)n;
        if (socket->sent < total)
            return true; /* the socket is full */
        socket->sent = 0;
        socket->step = next_on_socket(conn, socket);
    }
    return moved;
}

/* A head has come. One that is older than another that came first is of no interest. */
static bool take_head(struct conn *conn, uint64_t head) {
    uint64_t known = *conn->end.head;
    if ((int64_t)(head - known) <= 0)
        return true;
    if (head - known > wire_tail(conn) - known)
        return false;
    port_store_release(conn->end.head, head); /* pairs with fifo_has_credit() */
    return true;
}

/* Reads heads that have come, when so few credits are left that a new one must be on its way. */
static bool take_credits(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    bool moved = false;
    while (!end->credits_ended && wire_tail(conn) - *conn->end.head > conn->end.nslots / 2) {
        ssize_t n = recv(end->credit_fd, (char *)&end->credit + end->credit_done,
                         sizeof(end->credit) - end->credit_done, MSG_DONTWAIT);
        if (n <= 0) {
            if (n == 0)
                end->credits_ended = true;
            else if (!would_block())
                set_broken(end, strerror(errno));
            break;
        }
        end->credit_done += (uint32_t)n;
        if (end->credit_done < sizeof(end->credit))
            break;
        end->credit_done = 0;
        if (!take_head(conn, end->credit)) {
            set_broken(end, "it returned credits for slots that were not sent");
            break;
        }
        moved = true;
    }
    return moved;
}

static enum collet_result producer_progress(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    bool moved = false;
    if (end->broken != NULL)
        return err_broken(conn);
    for (uint32_t k = 0; k < end->nsockets; k++)
        moved |= send_slots(conn, &end->sockets[k]);
    moved |= take_credits(conn);
    if (end->broken != NULL && !moved)
        return err_broken(conn);
    return moved ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}

/* -------------------------------------------------------------------------------------------------------------- consumer */

static uint32_t ahead_bytes(const struct tcp_socket *socket) { return socket->ahead_end - socket->ahead_begin; }

static void take_ahead(struct tcp_socket *socket, void *to, uint32_t bytes) {
    memcpy(to, socket->ahead + socket->ahead_begin, bytes);
    socket->ahead_begin += bytes;
}

static bool take_head_of_frame(const struct conn *conn, const struct tcp_frame *frame) {
    struct conn *other = frame->has_head ? other_way(conn) : NULL;
    return other == NULL || take_head(other, frame->head);
}

static void begin_slot(struct conn *conn, struct tcp_socket *socket) {
    struct tcp_end *end = conn->impl;
    uint64_t tail = *conn->end.tail, head = wire_head(conn);
    take_ahead(socket, &end->frame, sizeof(end->frame));
    uint32_t bytes = end->frame.bytes & ~FIFO_LL_BIT;
    bool fits =
        end->frame.bytes & FIFO_LL_BIT ? bytes <= 2 * conn->end.ll_bytes : bytes <= conn->chan->layout.slot_bytes;
    if (end->frame.step != tail)
        set_broken(end, "it sent another step than the next one");
    else if (!fits)
        set_broken(end, "it sent more than a slot holds");
    else if (tail - head >= conn->end.nslots)
        set_broken(end, "it sent without credit");
    else if (!take_head_of_frame(conn, &end->frame))
        set_broken(end, "it returned credits for slots that were not sent");
    else
        end->receiving = true;
    end->received = 0;
}

static void deliver_slot(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    uint64_t step = end->frame.step;
    struct fifo_slot_header *header = &conn->end.headers[step & (conn->end.nslots - 1)];
    header->bytes = end->frame.bytes;
    header->signature = end->frame.signature;
    header->sequence = end->frame.sequence;
    end->receiving = false;
    port_store_release(conn->end.tail, step + 1); /* pairs with fifo_has_data() */
}

/* Uses what was read ahead. True if a slot was delivered with it. */
static bool use_ahead(struct conn *conn, struct tcp_socket *socket) {
    struct tcp_end *end = conn->impl;
    if (!end->receiving && ahead_bytes(socket) >= sizeof(end->frame))
        begin_slot(conn, socket);
    if (!end->receiving)
        return false;
    uint32_t bytes = end->frame.bytes & ~FIFO_LL_BIT;
    uint32_t missing = bytes - end->received;
    uint32_t here = ahead_bytes(socket) < missing ? ahead_bytes(socket) : missing;
    if (here > 0)
        take_ahead(socket, payload_at(conn, end->frame.step, end->frame.bytes) + end->received, here);
    end->received += here;
    if (end->received < bytes)
        return false;
    deliver_slot(conn);
    return true;
}

/* Reads the rest of the current slot, if there is one, and beyond. True if that filled all that was asked for. */
static bool read_more(struct conn *conn, struct tcp_socket *socket, bool *moved) {
    struct tcp_end *end = conn->impl;
    memmove(socket->ahead, socket->ahead + socket->ahead_begin, ahead_bytes(socket)); /* at most a part of a frame */
    socket->ahead_end -= socket->ahead_begin;
    socket->ahead_begin = 0;
    uint32_t missing = end->receiving ? (end->frame.bytes & ~FIFO_LL_BIT) - end->received : 0;
    struct iovec parts[2] = {
        {end->receiving ? payload_at(conn, end->frame.step, end->frame.bytes) + end->received : NULL, missing},
        {socket->ahead + socket->ahead_end, AHEAD_BYTES - socket->ahead_end},
    };
    ssize_t n = 0;
    if (!socket->ended) /* most polls find nothing, and then the plain call is the cheaper one */
        n = missing > 0 ? readv(socket->fd, parts, 2) : recv(socket->fd, parts[1].iov_base, parts[1].iov_len, 0);
    if (n < 0) {
        if (!would_block())
            set_broken(end, strerror(errno));
        return false;
    }
    if (n == 0) {
        socket->ended = true;
        if (end->receiving || ahead_bytes(socket) > 0)
            set_broken(end, "it was closed in the middle of a slot");
        return false;
    }
    *moved = true;
    uint32_t into_slot = (size_t)n < missing ? (uint32_t)n : missing;
    end->received += into_slot;
    socket->ahead_end += (uint32_t)n - into_slot;
    return (size_t)n == parts[0].iov_len + parts[1].iov_len;
}

/* Delivers slots from what has been read, and reads until the socket is empty or a slot has come: then the executor can
 * work on it while it is in the cache. */
static bool receive_slots(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    bool moved = false, delivered = false, more = true;
    while (end->broken == NULL) {
        struct tcp_socket *socket = socket_of(end, conn, *conn->end.tail);
        if (use_ahead(conn, socket))
            moved = delivered = true;
        else if (delivered || !more || end->broken != NULL)
            break;
        else
            more = read_more(conn, socket, &moved);
    }
    return moved;
}

static bool credit_is_due(const struct conn *conn) {
    const struct tcp_end *end = conn->impl;
    uint64_t half = conn->end.nslots > 1 ? conn->end.nslots / 2 : 1;
    return end->credit_done > 0 || wire_head(conn) - end->credit >= half;
}

static void send_credit(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    if (end->credits_ended || !credit_is_due(conn))
        return;
    if (end->credit_done == 0)
        end->credit = wire_head(conn);
    ssize_t n = send(end->credit_fd, (char *)&end->credit + end->credit_done, sizeof(end->credit) - end->credit_done,
                     MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0)
        end->credit_done = (end->credit_done + (uint32_t)n) % sizeof(end->credit);
    else if (!would_block())
        end->credits_ended = true;
}

static enum collet_result consumer_progress(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    send_credit(conn);
    bool moved = receive_slots(conn);
    if (end->broken != NULL && !moved && wire_head(conn) == *conn->end.tail)
        return err_broken(conn);
    return moved ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}

/* ---------------------------------------------------------------------------------------------------------------- the table */

static enum collet_result tcp_progress(struct conn *conn) {
    return conn->side == CONN_PRODUCER ? producer_progress(conn) : consumer_progress(conn);
}

static bool tcp_idle(const struct conn *conn) {
    const struct tcp_end *end = conn->impl;
    if (conn->side == CONN_CONSUMER)
        return end->credits_ended || !credit_is_due(conn);
    for (uint32_t k = 0; k < end->nsockets; k++)
        if ((int64_t)(wire_tail(conn) - end->sockets[k].step) > 0)
            return false;
    return true;
}

const struct transport transport_tcp = {
    .name = "tcp",
    .bit = COLLET_TRANSPORT_TCP,
    .remote = 1,
    .reaches = tcp_reaches,
    .offer = tcp_offer,
    .accept = tcp_accept,
    .ready = tcp_ready,
    .progress = tcp_progress,
    .idle = tcp_idle,
    .close = tcp_close,
};
