/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a tcp connection that sends slots. See tcp.c.
 */
#include "transport/tcp_end.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Up to this, copying costs less than a second piece in the system call. */
#define SMALL_BYTES 4096u

static uint64_t next_on_socket(const struct conn *conn, const struct tcp_socket *socket) {
    uint64_t step = socket->step + 1;
    while (tcp_socket_of(conn->impl, conn, step) != socket)
        step++;
    return step;
}

static void make_frame(const struct conn *conn, struct tcp_socket *socket) {
    const struct fifo_slot_header *header = &conn->end.headers[socket->step & (conn->end.nslots - 1)];
    socket->sending = (struct tcp_frame){header->word, header->signature, header->sequence, socket->step, 0, 0};
    tcp_credit_put(conn, &socket->sending);
}

/* In the slot, or lent: then the executor keeps it as it is until the call is over, and until then it is sent. */
static char *payload_of(const struct conn *conn, const struct tcp_frame *frame) {
    const struct fifo_slot_header *header = &conn->end.headers[frame->step & (conn->end.nslots - 1)];
    bool lent = conn->end.loans.way == LOAN_WIRE && header->loan.address != 0;
    return lent ? (char *)(uintptr_t)header->loan.address : tcp_payload_at(conn, frame);
}

/* Sends the rest of the current frame and its payload, or what the socket takes of them. A small slot is copied behind its
 * frame, which costs less than telling the kernel of two places. */
static ssize_t send_rest(const struct conn *conn, const struct tcp_socket *socket, size_t payload_bytes) {
    const struct tcp_frame *frame = &socket->sending;
    size_t of_frame = socket->sent < sizeof(*frame) ? socket->sent : sizeof(*frame);
    size_t of_payload = socket->sent - of_frame;
    char *payload = payload_of(conn, frame);
    if (socket->sent == 0 && payload_bytes <= SMALL_BYTES) {
        char copy[sizeof(*frame) + SMALL_BYTES];
        memcpy(copy, frame, sizeof(*frame));
        memcpy(copy + sizeof(*frame), payload, payload_bytes);
        return send(socket->fd, copy, sizeof(*frame) + payload_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    struct iovec parts[2] = {
        {(char *)frame + of_frame, sizeof(*frame) - of_frame},
        {payload + of_payload, payload_bytes - of_payload},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    return sendmsg(socket->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Sends what the socket takes of the slots that are published. */
static bool send_slots(struct conn *conn, struct tcp_socket *socket) {
    uint64_t tail = wire_tail(conn);
    bool moved = false;
    while ((int64_t)(tail - socket->step) > 0) {
        if (socket->sent == 0)
            make_frame(conn, socket);
        size_t bytes = fifo_word_bytes(socket->sending.word);
        ssize_t n = send_rest(conn, socket, bytes);
        if (n < 0) {
            if (!tcp_would_block())
                tcp_set_broken(conn->impl, strerror(errno));
            return moved;
        }
        moved = true;
        socket->sent += (size_t)n;
        if (socket->sent < sizeof(socket->sending) + bytes)
            return true; /* the socket is full */
        socket->sent = 0;
        socket->step = next_on_socket(conn, socket);
    }
    return moved;
}

enum collet_result tcp_producer_progress(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    bool moved = false;
    if (end->broken != NULL)
        return tcp_err_broken(conn);
    for (uint32_t k = 0; k < end->nsockets; k++)
        moved |= send_slots(conn, &end->sockets[k]);
    moved |= tcp_credit_receive(conn);
    if (end->broken != NULL && !moved)
        return tcp_err_broken(conn);
    return moved ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}

bool tcp_producer_is_idle(const struct conn *conn) {
    const struct tcp_end *end = conn->impl;
    for (uint32_t k = 0; k < end->nsockets; k++)
        if ((int64_t)(wire_tail(conn) - end->sockets[k].step) > 0)
            return false;
    return true;
}
