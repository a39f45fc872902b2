/* SPDX-License-Identifier: Apache-2.0
 *
 * The sockets between two ranks, on one channel and lane: both connections use them, each its own way.
 *
 *    lower rank                                                       higher rank
 *    connection to it   ───── slots ─────▶   socket 0 … n−1   ─────▶   connection from it
 *    connection from it ◀──── slots ──────   the same         ◀─────   connection to it
 *
 * So what goes one way acknowledges what came the other way, and the kernel need not send a packet for that alone: for small
 * messages in turns, a fifth of their time.
 *
 * The lower rank listens, the higher one dials (tcp_socket.h), whichever of the two connections either of them uses first:
 * nothing need be agreed on. A rank's connection with itself has both its ends here, and a link for each.
 *
 * The link lives as long as one of its connections does, and all ends of one rank are closed at once. An end that leaves has
 * consumed all slots that were sent to it, so closing throws nothing away that is still on its way to the other rank.
 */
#ifndef COLLET_TRANSPORT_TCP_LINK_H
#define COLLET_TRANSPORT_TCP_LINK_H

#include "transport/conn.h"
#include "transport/tcp_seal.h"
#include "transport/tcp_socket.h"

enum tcp_letter { TCP_LISTENS }; /* of the control plane: where the lower of two ranks does */

struct tcp_link {
    int users;                           /* connections */
    bool listens, dials, up;             /* one of the first two as soon as it does; `up` when that is done */
    struct tcp_listener listener;        /* of the lower rank */
    struct tcp_dialer dialer;            /* of the higher one */
    uint8_t keys[2][TCP_SEAL_KEY_BYTES]; /* with COLLET_ENCRYPT: from the lower rank to the higher one, and back */
    int nsockets;
    int fds[TCP_SOCKETS_MAX]; /* once it is up */
    char peers[TCP_SOCKETS_MAX]
              [ADDRESS_TEXT_BYTES];     /* their other ends: a socket that is broken does not know any more */
    uint64_t looked_ns;                 /* when tcp_link_is_dead() did */
    uint64_t waits_ns[TCP_SOCKETS_MAX]; /* since when nothing was acknowledged, as far as it saw; 0: all is */
};

/* The link of a connection: that of the other connection between the two ranks (NULL: it has none), or a new one, which
 * needs tcp_link_try() until that is SUCCESS. */
enum collet_result tcp_link_join(const struct conn *conn, struct tcp_link *of_other, int nsockets,
                                 struct tcp_link **link_p);
enum collet_result tcp_link_try(struct tcp_link *link, const struct conn *conn);
/* Once it is up: has nothing been acknowledged for so long that was sent? It looks now and then, so it may notice that a little later. */
bool tcp_link_is_dead(struct tcp_link *link, uint64_t limit_ns);
void tcp_link_leave(struct tcp_link *link); /* closes it after the last connection */

#endif
