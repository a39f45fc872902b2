/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp_link.h"

#include "base/err.h"
#include "base/log.h"
#include "base/os.h"
#include "seams/topology.h"
#include "transport/tcp_way.h"
#include "transport/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_ours_to_listen(const struct conn *conn) {
    return conn->peer != conn->owner->rank ? conn->owner->rank < conn->peer : conn->side == CONN_CONSUMER;
}

static void derive_keys(struct tcp_link *link, const struct conn *conn, const uint8_t token[TCP_TOKEN_BYTES]) {
    static const char *const uses[2] = {"tcp data upward", "tcp data downward"};
    _Static_assert(TCP_SEAL_KEY_BYTES == BOOT_KEY_BYTES, "the same key");
    for (int k = 0; k < 2 && conn->owner->config->encrypt; k++)
        boot_derive_key(conn->owner->boot, uses[k], token, TCP_TOKEN_BYTES, link->keys[k]);
}

static void wipe_offer(struct tcp_offer *offer) { sodium_memzero(offer->token, sizeof(offer->token)); }
#define SCOPED_OFFER __attribute__((cleanup(wipe_offer)))

static enum collet_result begin_to_listen(struct tcp_link *link, const struct conn *conn) {
    const struct conn_owner *owner = conn->owner;
    char interface[ADDRESS_INTERFACE_BYTES];
    SCOPED_OFFER struct tcp_offer offer = {0};
    map_interface(conn, interface);
    COLLET_TRY(tcp_listen_start(&link->listener, owner->config, interface, link->nsockets, &offer));
    link->listens = true;
    derive_keys(link, conn, offer.token);
    return boot_send(owner->boot, conn->peer, transport_key(conn, TCP_LISTENS), &offer, sizeof(offer));
}

static enum collet_result begin_to_dial(struct tcp_link *link, const struct conn *conn) {
    const struct conn_owner *owner = conn->owner;
    char interface[ADDRESS_INTERFACE_BYTES];
    SCOPED_OFFER struct tcp_offer offer = {0};
    size_t bytes;
    COLLET_TRY(boot_try_recv(owner->boot, conn->peer, transport_key(conn, TCP_LISTENS), &offer, sizeof(offer), &bytes));
    if (bytes != sizeof(offer) || offer.set.count < 1 || offer.set.count > ADDRESS_MAX)
        return err_set(COLLET_ERR_INTERNAL, "the tcp offer of rank %d has %zu bytes and makes no sense", conn->peer,
                       bytes);
    map_interface(conn, interface);
    tcp_dial_start(&link->dialer, &offer, interface, link->nsockets, conn->peer, owner->peers[conn->peer].host);
    link->dials = true;
    derive_keys(link, conn, offer.token);
    return COLLET_SUCCESS;
}

enum collet_result tcp_link_join(const struct conn *conn, struct tcp_link *of_other, int nsockets,
                                 struct tcp_link **link_p) {
    struct tcp_link *link = of_other != NULL ? of_other : calloc(1, sizeof(*link));
    if (link == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for sockets to rank %d", conn->peer);
    link->nsockets = nsockets;
    link->users++;
    *link_p = link;
    return COLLET_SUCCESS;
}

/* Logs the interfaces that the sockets use. The form of the line is documented. */
static void log_interfaces(const struct tcp_link *link, const struct conn *conn) {
    char text[TCP_INTERFACES_TEXT_BYTES];
    tcp_interfaces_text(link->fds, link->nsockets, text);
    log_info(CONN, "channel %d lane %d: %d sockets of rank %d with rank %d (host %s) over %s", conn->channel,
             conn->lane, link->nsockets, conn->owner->rank, conn->peer, conn->owner->peers[conn->peer].host, text);
}

enum collet_result tcp_link_try(struct tcp_link *link, const struct conn *conn) {
    if (link->up)
        return COLLET_SUCCESS;
    bool listen = is_ours_to_listen(conn);
    if (!link->listens && !link->dials)
        COLLET_TRY(listen ? begin_to_listen(link, conn) : begin_to_dial(link, conn));
    COLLET_TRY(listen ? tcp_listen_try(&link->listener, link->fds) : tcp_dial_try(&link->dialer, link->fds));
    for (int k = 0; k < link->nsockets; k++)
        tcp_peer_text(link->fds[k], link->peers[k]);
    link->up = true;
    if (log_wanted(LOG_INFO, LOG_CONN))
        log_interfaces(link, conn);
    return COLLET_SUCCESS;
}

#define LOOKS 8 /* checks within the time limit */

/* Notes since when data waits for an acknowledgement. The time starts anew when an acknowledgement comes. */
static void look_at_socket(int fd, uint64_t now_ns, uint64_t *waits_ns) {
    struct tcp_info info;
    socklen_t bytes = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || info.tcpi_unacked == 0)
        *waits_ns = 0;
    else if (*waits_ns == 0 || info.tcpi_last_ack_recv * 1000000ull < now_ns - *waits_ns)
        *waits_ns = now_ns;
}

bool tcp_link_is_dead(struct tcp_link *link, uint64_t limit_ns) {
    const uint64_t now_ns = os_now_ns();
    bool dead = false;
    if (now_ns - link->looked_ns < limit_ns / LOOKS)
        return false;
    link->looked_ns = now_ns;
    for (int k = 0; k < link->nsockets; k++) {
        look_at_socket(link->fds[k], now_ns, &link->waits_ns[k]);
        dead |= link->waits_ns[k] != 0 && now_ns - link->waits_ns[k] > limit_ns;
    }
    return dead;
}

void tcp_link_leave(struct tcp_link *link) {
    if (--link->users > 0)
        return;
    if (link->listens)
        tcp_listen_stop(&link->listener);
    if (link->dials)
        tcp_dial_stop(&link->dialer);
    for (int k = 0; link->up && k < link->nsockets; k++)
        close(link->fds[k]);
    sodium_memzero(link->keys, sizeof(link->keys));
    free(link);
}
