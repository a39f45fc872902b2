/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a tcp connection that receives slots. See tcp.c.
 */
#include "transport/tcp_end.h"

#include "base/os.h"
#include "transport/transport.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define LEAVING_NS 2000000000ull /* maximum time between a closed socket and the news that its rank left */

static uint32_t ahead_bytes(const struct tcp_socket *socket) { return socket->ahead_end - socket->ahead_begin; }

static void take_ahead(struct tcp_socket *socket, void *to, uint32_t bytes) {
    memcpy(to, socket->ahead + socket->ahead_begin, bytes);
    socket->ahead_begin += bytes;
}

/* The destination of the payload: where the executor wants it, or the slot. */
static char *payload_place(const struct conn *conn, const struct wire_frame *frame) {
    char *landing = loan_landing_at(&conn->end.loans, frame->step, fifo_word_bytes(frame->word));
    return landing != NULL ? landing : wire_payload_at(conn, frame);
}

/* Ends the connection: the data changed on the way. */
static void tcp_set_changed(struct conn *conn, const char *found) {
    struct tcp_end *end = conn->impl;
    conn_text_changed(conn, *conn->end.tail, found, end->changed);
    tcp_set_broken(end, end->changed);
}

/* With COLLET_ENCRYPT: takes the seal, which is next on the socket, and decrypts the data that came before it. */
static bool take_seal(struct conn *conn, struct tcp_socket *socket, enum tcp_seal_part part, void *data,
                      uint32_t bytes) {
    const struct tcp_end *end = conn->impl;
    uint8_t seal[TCP_SEAL_BYTES];
    if (end->key == NULL)
        return true;
    take_ahead(socket, seal, sizeof(seal));
    bool fits = tcp_unseal(end->key, *conn->end.tail, part, data, bytes, seal);
    if (!fits)
        tcp_set_changed(conn, TCP_SEALED_SO);
    return fits;
}

static void begin_slot(struct conn *conn, struct tcp_socket *socket) {
    struct tcp_end *end = conn->impl;
    end->assignments[*conn->end.tail & (conn->end.nslots - 1)] = (uint8_t)end->next;
    take_ahead(socket, &end->frame, sizeof(end->frame));
    if (!take_seal(conn, socket, TCP_SEAL_FRAME, &end->frame, sizeof(end->frame)))
        return;
    if (!wire_frame_is_intact(conn, &end->frame)) {
        tcp_set_changed(conn, CONN_BY_CHECKSUM);
        return;
    }
    const char *fault = wire_frame_fault(conn, &end->frame, *conn->end.tail);
    end->received = 0;
    end->receiving = fault == NULL;
    if (fault != NULL)
        tcp_set_broken(end, fault);
    else
        end->payload = payload_place(conn, &end->frame);
}

/* Delivers a slot that is complete. False: the payload is not what was sent. */
static bool deliver_slot(struct conn *conn, struct tcp_socket *socket) {
    struct tcp_end *end = conn->impl;
    uint32_t bytes = fifo_word_bytes(end->frame.word);
    end->receiving = false;
    if (!take_seal(conn, socket, TCP_SEAL_PAYLOAD, end->payload, bytes))
        return false;
    if (!wire_payload_is_intact(conn, &end->frame, end->payload)) {
        tcp_set_changed(conn, CONN_BY_CHECKSUM);
        return false;
    }
    const char *landed = end->payload != wire_payload_at(conn, &end->frame) ? end->payload : NULL;
    tcp_pass_slot(end, end->frame.step, bytes);
    wire_deliver(conn, end->frame.word, end->frame.signature, end->frame.sequence, landed);
    return true;
}

/* Uses bytes that were read ahead. True: this completed a slot, which was delivered. */
static bool use_ahead(struct conn *conn, struct tcp_socket *socket) {
    struct tcp_end *end = conn->impl;
    if (!end->receiving && ahead_bytes(socket) >= sizeof(end->frame) + tcp_seal_bytes(end))
        begin_slot(conn, socket);
    if (!end->receiving)
        return false;
    uint32_t bytes = fifo_word_bytes(end->frame.word);
    uint32_t missing = bytes - end->received;
    uint32_t here = ahead_bytes(socket) < missing ? ahead_bytes(socket) : missing;
    if (here > 0)
        take_ahead(socket, end->payload + end->received, here);
    end->received += here;
    if (end->received < bytes || ahead_bytes(socket) < tcp_seal_bytes(end))
        return false;
    return deliver_slot(conn, socket);
}

/* Reads the rest of the current slot, if there is one, and more. True: all bytes that were asked for came. */
static bool read_more(struct conn *conn, struct tcp_socket *socket, bool *moved) {
    struct tcp_end *end = conn->impl;
    /* At most a part of a frame with its seal, or of a payload's seal, is left. */
    memmove(socket->ahead, socket->ahead + socket->ahead_begin, ahead_bytes(socket));
    socket->ahead_end -= socket->ahead_begin;
    socket->ahead_begin = 0;
    uint32_t missing = end->receiving ? fifo_word_bytes(end->frame.word) - end->received : 0;
    uint32_t behind =
        sizeof(end->frame) + 2 * tcp_seal_bytes(end); /* the payload's seal, and the next frame with its own */
    struct iovec parts[2] = {
        {end->receiving ? end->payload + end->received : NULL, missing},
        {socket->ahead + socket->ahead_end, missing > 0 ? behind : end->ahead_room - socket->ahead_end},
    };
    ssize_t n = 0;
    if (socket->ended_ns == 0) /* most polls find nothing; then plain recv() is cheaper */
        n = missing > 0 ? readv(socket->fd, parts, 2) : recv(socket->fd, parts[1].iov_base, parts[1].iov_len, 0);
    if (n < 0) {
        if (!tcp_would_block())
            tcp_set_broken(end, strerror(errno));
        return false;
    }
    if (n == 0) {
        socket->ended_ns = socket->ended_ns == 0 ? os_now_ns() : socket->ended_ns;
        if (end->receiving || ahead_bytes(socket) > 0)
            tcp_set_broken(end, "it was closed in the middle of a slot");
        return false;
    }
    *moved = true;
    uint32_t into_slot = (size_t)n < missing ? (uint32_t)n : missing;
    end->received += into_slot;
    socket->ahead_end += (uint32_t)n - into_slot;
    return (size_t)n == parts[0].iov_len + parts[1].iov_len;
}

/* Delivers slots from the bytes that were read. If no slot is free, the sockets are not read: they fill up, and the kernel stops the
 * producer. Else reads more until the socket is empty or a slot is delivered; then the executor can
 * work on the slot while it is in the cache. */
static bool receive_slots(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    bool moved = false, delivered = false, more = true;
    while (end->broken == NULL && *conn->end.tail - wire_head(conn) < conn->end.nslots) {
        struct tcp_socket *socket = &end->sockets[end->next];
        if (use_ahead(conn, socket))
            moved = delivered = true;
        else if (delivered || !more || end->broken != NULL)
            break;
        else
            more = read_more(conn, socket, &moved);
    }
    return moved;
}

/* Has something on the way closed the socket? Yes, if the other rank is still alive: a rank that closes it says that it leaves. */
static bool was_cut(const struct conn *conn) {
    const struct tcp_end *end = conn->impl;
    const uint64_t ended_ns = end->sockets[end->next].ended_ns;
    return ended_ns != 0 && os_now_ns() - ended_ns > LEAVING_NS &&
           boot_peer_state(conn->owner->boot, conn->peer, NULL) == PEER_ALIVE;
}

enum collet_result tcp_consumer_progress(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    bool moved = receive_slots(conn);
    if (!moved && end->broken == NULL && was_cut(conn))
        tcp_set_broken(end, "something on the way closed it, as the other rank has not");
    if (end->broken != NULL && !moved && wire_head(conn) == *conn->end.tail)
        return tcp_err_broken(conn);
    return moved ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}
