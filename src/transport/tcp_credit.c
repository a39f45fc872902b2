/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads of a tcp connection. A head says how far the consumer has come; the producer may then fill those slots again.
 *
 *    by itself    consumer ── tcp_credit_send ─────────── socket n ───────────▶ tcp_credit_receive ── producer
 *    in a frame   consumer's connection the other way: tcp_credit_put ─▶ frame of a slot ─▶ tcp_credit_take ── producer
 *
 * Both may be under way at once; a head that is older than what the producer knows is of no interest.
 */
#include "program/program.h"
#include "transport/tcp_end.h"

#include <string.h>
#include <sys/socket.h>

/* ---- by itself ---- */

static bool is_due(const struct conn *conn) {
    const struct tcp_end *end = conn->impl;
    return end->credit_done > 0 || wire_credit_is_due(conn, end->credit);
}

void tcp_credit_send(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    if (tcp_credit_is_sent(conn))
        return;
    if (end->credit_done == 0)
        end->credit = wire_head(conn);
    ssize_t n = send(end->credit_fd, (char *)&end->credit + end->credit_done, sizeof(end->credit) - end->credit_done,
                     MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0)
        end->credit_done = (end->credit_done + (uint32_t)n) % sizeof(end->credit);
    else if (!tcp_would_block())
        end->credits_ended = true;
}

bool tcp_credit_is_sent(const struct conn *conn) {
    const struct tcp_end *end = conn->impl;
    return end->credits_ended || !is_due(conn);
}

/* Reads what there is of the next head. True if it is whole now. */
static bool read_head(struct tcp_end *end) {
    ssize_t n = recv(end->credit_fd, (char *)&end->credit + end->credit_done, sizeof(end->credit) - end->credit_done,
                     MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno == ECONNRESET)) /* it left, perhaps without having read all heads that it was sent */
        end->credits_ended = true;
    else if (n < 0 && !tcp_would_block())
        tcp_set_broken(end, strerror(errno));
    if (n <= 0)
        return false;
    end->credit_done = (end->credit_done + (uint32_t)n) % sizeof(end->credit);
    return end->credit_done == 0;
}

/* Only when so few credits are left that a new head must be on its way: a read costs a system call. */
bool tcp_credit_receive(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    bool moved = false;
    while (!end->credits_ended && wire_tail(conn) - *conn->end.head > conn->end.nslots / 2) {
        if (!read_head(end))
            break;
        if (!wire_take_head(conn, end->credit)) {
            tcp_set_broken(end, WIRE_NOT_SENT);
            break;
        }
        moved = true;
    }
    return moved;
}

/* ---- in a frame ---- */

/* The connection the other way, once it is in use. */
static struct conn *other_in_use(const struct conn *conn) {
    struct conn *other = tcp_other(conn);
    return other != NULL && other->state == CONN_READY ? other : NULL;
}

void tcp_credit_put(const struct conn *conn, struct tcp_frame *frame) {
    const struct conn *other = other_in_use(conn);
    if (other == NULL || conn->lane == PROG_LANE_P2P) /* there, the other rank may not read this socket for long */
        return;
    struct tcp_end *consumer = other->impl;
    if (consumer->credit_done > 0)
        return; /* an older head is half sent: let it arrive whole */
    frame->has_head = 1;
    frame->head = consumer->credit = wire_head(other);
}

bool tcp_credit_take(const struct conn *conn, const struct tcp_frame *frame) {
    struct conn *other = frame->has_head ? other_in_use(conn) : NULL;
    return other == NULL || wire_take_head(other, frame->head);
}
