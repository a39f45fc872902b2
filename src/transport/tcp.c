/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp: two FIFOs of the same layout, one at each end, and sockets that make the consumer's follow the producer's.
 *
 *    producer's FIFO                                                               consumer's FIFO
 *    slot s ───── one of n sockets: │ frame │ payload │ frame │ payload │ … ─────▶ slot s, header s, then tail
 *    head: the kernel has taken                                                    head: moved by the executor;
 *    all slots before it                                                           a full FIFO reads no socket
 *
 * wire.h describes the frame, and the consumer's checks.
 * Everything is in the byte order of the machine; both ends are the same library (the hello's magic shows if not).
 *
 * With COLLET_ENCRYPT, frames and payloads are sealed (tcp_seal.h), each with a MAC behind it.
 *
 * No credit goes back over the wire. TCP does that already: a consumer without room leaves its sockets alone, their
 * buffers fill up, and the kernel takes no more from the producer. So what is under way may be as much as the kernel finds
 * that the path needs, and not only what slots hold.
 *
 * The connection in the other direction uses the same sockets (tcp_link.h). Between hosts slots take turns: slot s is on
 * socket (s mod n); from the higher rank to the lower rank, it is on socket (s + 1 mod n). So two ranks that send to each
 * other at the same time use different sockets, and do not block each other. Data in one direction acknowledges data of the
 * other direction. On one host tcp_pass_slot() (tcp_end.h) chooses the next socket.
 *
 * The consumer reads slots in the order of their positions, so it reads a socket only when the next position is on it. What
 * other sockets receive waits in the kernel. A read asks for the rest of the current payload, straight into the slot, and
 * for what may follow (`ahead`). So a small frame with its payload takes one read, and a stream of large ones one per slot.
 *
 * A lent payload (layers/memory/loan.h) is sent from the program's memory. A payload for which the executor waits is
 * received into its final place.
 *
 * An end that leaves has consumed all slots that were sent to it, so it closes sockets without unread bytes. (With unread
 * bytes, the kernel throws away what the other end has not received yet.)
 *
 * When a connection breaks, slots that have come can still be consumed, and the failure is reported after the last of them.
 * An orderly end between two frames is no failure, because the other rank may have finished and left. The executor knows
 * whether somebody waits for more slots, and the control plane knows that the rank is gone. If the rank has not gone for
 * some time, something on the way has ended the connection.
 *
 * Read next: tcp_producer.c and tcp_consumer.c, how slots move; tcp_link.h, which connections share sockets; tcp_socket.h,
 * how sockets are connected.
 */
#include "base/memory.h"
#include "transport/tcp_end.h"
#include "transport/transport.h"

#include <stdio.h>
#include <stdlib.h>

static bool tcp_reaches(const struct peer_info *a, const struct peer_info *b, const char **why) {
    (void)a, (void)b, (void)why;
    return true;
}

/* Does the connection go from the lower rank to the higher one? A rank's connection with itself does not. */
static bool upward(const struct conn *conn) {
    return conn->side == CONN_PRODUCER ? conn->owner->rank < conn->peer : conn->peer < conn->owner->rank;
}

/* The link of the opposite connection, to share its sockets; NULL: none. A rank's connection with itself shares no link: there the
 * opposite connection is the other end. */
static struct tcp_link *link_of_other(const struct conn *conn) {
    const struct conn *other = conn->peer == conn->owner->rank ? NULL : conn->opposite;
    if (other != NULL && other->transport != conn->transport) /* it may fall back to tcp later (chan.c) */
        return NULL;
    return other == NULL || other->impl == NULL ? NULL : ((struct tcp_end *)other->impl)->link;
}

static enum collet_result tcp_end_create(struct conn *conn) {
    const struct fifo_layout *layout = conn_layout(conn);
    struct tcp_end *end;
    COLLET_TRY(memory_get(&end, 1, sizeof *end, "no memory for a connection with rank %d", conn->peer));
    uint32_t wanted = (uint32_t)conn->owner->config->nsockets;
    end->nsockets = wanted < layout->nslots ? wanted : layout->nslots;
    end->bytes = layout->total_bytes;
    end->ahead_room = end->bytes < TCP_AHEAD_BYTES ? (uint32_t)end->bytes : TCP_AHEAD_BYTES;
    end->first = (upward(conn) ? 0 : 1) % end->nsockets;
    end->next = end->first;
    end->stays = conn->owner->peers[conn->peer].node == conn->owner->peers[conn->owner->rank].node;
    conn->impl = end; /* from here on tcp_close() cleans up */
    COLLET_TRY(tcp_link_join(conn, link_of_other(conn), (int)end->nsockets, &end->link));
    COLLET_TRY(wire_memory_create(conn->owner, end->bytes, &end->memory));
    fifo_memory_init(end->memory, layout, conn->owner->config);
    fifo_end_init(&conn->end, end->memory, layout, conn->owner->config);
    if (conn->owner->config->encrypt && conn->side == CONN_PRODUCER &&
        (end->sealed = malloc(layout->nslots * tcp_sealed_stride(layout))) == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory to encrypt what goes to rank %d", conn->peer);
    for (uint32_t k = 0; k < end->nsockets && conn->side == CONN_CONSUMER; k++)
        if ((end->sockets[k].ahead = malloc(end->ahead_room)) == NULL)
            return err_set(COLLET_ERR_NO_MEMORY, "no memory for a connection from rank %d", conn->peer);
    return COLLET_SUCCESS;
}

/* The offer is empty: it only says that the consumer exists. The link finds out how to reach it. */
static enum collet_result tcp_offer(struct conn *conn, struct conn_blob *blob) {
    blob->bytes = 0;
    return tcp_end_create(conn);
}

static enum collet_result tcp_accept(struct conn *conn, const struct conn_blob *blob) {
    (void)blob;
    return tcp_end_create(conn);
}

static enum collet_result tcp_ready(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    if (end->connected)
        return COLLET_SUCCESS;
    COLLET_TRY(tcp_link_try(end->link, conn));
    for (uint32_t k = 0; k < end->nsockets; k++)
        end->sockets[k].fd = end->link->fds[k];
    for (uint32_t k = 0; k < end->nsockets; k++)
        end->sockets[k].step = conn->end.position;
    end->assigned = end->summed = end->sealed_to = conn->end.position;
    end->key = conn->owner->config->encrypt ? end->link->keys[upward(conn) ? 0 : 1] : NULL;
    end->connected = true;
    wire_allow_loans(conn, NULL);
    return COLLET_SUCCESS;
}

static void tcp_close(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    if (end == NULL)
        return;
    if (end->link != NULL)
        tcp_link_leave(end->link);
    for (uint32_t k = 0; k < end->nsockets; k++)
        free(end->sockets[k].ahead);
    wire_memory_destroy(conn->owner, end->memory, end->bytes);
    free(end->sealed);
    free(end);
}

static void tcp_link_text(const struct conn *conn, uint64_t step, char text[CONN_LINK_BYTES]) {
    const struct tcp_end *end = conn->impl;
    const uint32_t k = end->assignments[step & (conn->end.nslots - 1)];
    char to[ADDRESS_TEXT_BYTES], interface[TCP_INTERFACES_TEXT_BYTES];
    tcp_own_text(end->sockets[k].fd, to);
    tcp_interfaces_text(&end->sockets[k].fd, 1, interface);
    snprintf(text, CONN_LINK_BYTES, "socket %u of %u, %s to %s by %s", k, end->nsockets, end->link->peers[k], to,
             interface);
}

static enum collet_result tcp_progress(struct conn *conn) {
    return conn->side == CONN_PRODUCER ? tcp_producer_progress(conn) : tcp_consumer_progress(conn);
}

/* The other host's kernel acknowledges data, whatever that rank does. If it does not, the network is dead; this kernel would try
 * for a quarter of an hour. Other ranks may wait for the lost data on other connections, so all ranks are told. If the whole host
 * is unreachable, the heartbeats notice first. */
static void tcp_attend(struct conn *conn) {
    struct tcp_end *end = conn->impl;
    const uint64_t limit_ns = (uint64_t)conn->owner->config->heartbeat_timeout * 1000000u / 2 * 3;
    if (!end->connected || end->broken != NULL || limit_ns == 0 || !tcp_link_is_dead(end->link, limit_ns))
        return;
    tcp_set_broken(end, "nothing is acknowledged that was sent; the network to it does not answer");
    tcp_err_broken(conn);
    boot_fail(conn->owner->boot, COLLET_ERR_REMOTE, err_last());
}

static bool tcp_idle(const struct conn *conn) {
    return conn->side == CONN_CONSUMER || *conn->end.head == wire_tail(conn); /* the kernel has taken all slots */
}

const struct transport transport_tcp = {
    .name = "tcp",
    .bit = COLLET_TRANSPORT_TCP,
    .remote = true,
    .messages = true,
    .copies = true,
    .encrypts = true,
    .reaches = tcp_reaches,
    .offer = tcp_offer,
    .accept = tcp_accept,
    .ready = tcp_ready,
    .progress = tcp_progress,
    .idle = tcp_idle,
    .attend = tcp_attend,
    .link_text = tcp_link_text,
    .close = tcp_close,
};
