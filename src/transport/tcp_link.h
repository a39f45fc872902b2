/* SPDX-License-Identifier: Apache-2.0
 *
 * The sockets between two ranks, on one channel and lane. The connections of both directions use them:
 *
 *    lower rank                                                       higher rank
 *    connection to it   ───── slots ─────▶   socket 0 … n−1   ─────▶   connection from it
 *    connection from it ◀──── slots ──────   the same         ◀─────   connection to it
 *
 * So data in one direction acknowledges data of the other direction, and the kernel need not send a packet only for that.
 * This saves a fifth of the time of small messages in turns.
 *
 * The lower rank listens and the higher rank dials (tcp_socket.h), no matter which of the two connections is used first. So
 * nothing must be agreed on. A rank's connection with itself has both its ends here, and each end has a link of its own.
 *
 * The link lives as long as one of its connections. All ends of one rank are closed at once. An end that leaves has
 * consumed all slots that were sent to it, so closing discards nothing that is still on its way to the other rank.
 */
#ifndef COLLET_TRANSPORT_TCP_LINK_H
#define COLLET_TRANSPORT_TCP_LINK_H

#include "transport/conn.h"
#include "transport/tcp_seal.h"
#include "transport/tcp_socket.h"

enum tcp_letter { TCP_LISTENS }; /* message of the lower rank: the addresses on which it listens */

struct tcp_link {
    int users;                           /* number of connections */
    bool listens, dials, up;             /* listens, dials: that has begun; up: the sockets are connected */
    struct tcp_listener listener;        /* used by the lower rank */
    struct tcp_dialer dialer;            /* used by the higher rank */
    uint8_t keys[2][TCP_SEAL_KEY_BYTES]; /* COLLET_ENCRYPT: [0] from the lower rank to the higher one, [1] back */
    int nsockets;
    int fds[TCP_SOCKETS_MAX]; /* valid if the link is up */
    char peers[TCP_SOCKETS_MAX]
              [ADDRESS_TEXT_BYTES];     /* [socket] address of its other end: a broken socket cannot tell it any more */
    uint64_t looked_ns;                 /* time of the last check by tcp_link_is_dead() */
    uint64_t waits_ns[TCP_SOCKETS_MAX]; /* [socket] time since which data waits for an acknowledgement; 0: none */
};

/* Gets the link of a connection: of_other, the link of the opposite connection, or a new one if that is NULL. Call tcp_link_try()
 * until it returns SUCCESS. */
enum collet_result tcp_link_join(const struct conn *conn, struct tcp_link *of_other, int nsockets,
                                 struct tcp_link **link_p);
enum collet_result tcp_link_try(struct tcp_link *link, const struct conn *conn);
/* Is the link, which is up, dead? Yes, if data waits for an acknowledgement for limit_ns. It checks at intervals, so it may say so late. */
bool tcp_link_is_dead(struct tcp_link *link, uint64_t limit_ns);
void tcp_link_leave(struct tcp_link *link); /* closes it after the last connection */

#endif
