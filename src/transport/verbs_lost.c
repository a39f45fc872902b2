/* SPDX-License-Identifier: Apache-2.0
 *
 * How a connection finds out that a rail is lost, and what follows from that.
 *
 *    a completion says so; the device takes no work; its port    ─▶  verbs_rail_lost ─┬─▶ another rail is up: LOST, and
 *    goes down; the other end says so (verbs_failover.c)                              │   verbs_failover.c settles it
 *                                                                                     └─▶ none is: the connection is broken
 */
#include "transport/verbs_end.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void describe(const struct conn *conn, int r, const char *what, char *text, size_t room) {
    const struct verbs_end *end = conn->impl;
    const struct verbs_port *port = end->rails[r].port;
    char address[VERBS_GID_TEXT_BYTES];
    verbs_gid_text(&end->theirs.rails[r].gid, address);
    snprintf(text, room, "peer %s %s; GID %d on %s port %d, rank %d (host %s)", address, what,
             port->gid_index[end->kind], port->device->name, port->number, conn->peer,
             conn->owner->peers[conn->peer].host);
}

void verbs_link_text(const struct conn *conn, uint64_t step, char text[CONN_LINK_BYTES]) {
    const struct verbs_end *end = conn->impl;
    int r = end->came_by[step & (conn->end.nslots - 1)];
    const struct verbs_port *port = end->rails[r].port;
    char from[VERBS_GID_TEXT_BYTES], to[VERBS_GID_TEXT_BYTES];
    verbs_gid_text(&end->theirs.rails[r].gid, from);
    verbs_gid_text(&port->gids[end->kind], to);
    snprintf(text, CONN_LINK_BYTES, "rail %d, %s to %s by %s port %d", r, from, to, port->device->name, port->number);
}

void verbs_set_broken(struct conn *conn, const char *format, ...) {
    struct verbs_end *end = conn->impl;
    char what[256];
    va_list list;
    if (end->broken[0] != '\0')
        return;
    va_start(list, format);
    vsnprintf(what, sizeof(what), format, list);
    va_end(list);
    snprintf(end->broken, sizeof(end->broken), "the connection %s rank %d (host %s) broke: %s",
             conn->side == CONN_PRODUCER ? "to" : "from", conn->peer, conn->owner->peers[conn->peer].host, what);
}

/* Are there rails to spare, and may they be used so? */
static bool can_fail_over(const struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    int up = 0;
    for (int r = 0; r < end->nrails; r++)
        up += end->rails[r].state == VERBS_RAIL_UP;
    const bool greeting = end->stage == VERBS_GREETING; /* nothing went through any */
    return greeting || (conn->owner->config->net_failover && up > 1 && end->stage == VERBS_READY);
}

bool verbs_settling(const struct verbs_end *end) {
    for (int r = 0; r < end->nrails; r++)
        if (end->rails[r].state == VERBS_RAIL_LOST)
            return true;
    return false;
}

/* Has another connection with the same rank said already that it lost this rail? One warning is enough. */
static bool is_known(const struct conn *conn, int r) {
    const struct verbs_end *end = conn->impl;
    for (const struct conn *other = conn->owner->first; other != NULL; other = other->next) {
        const struct verbs_end *its = other->impl;
        if (other == conn || other->transport != conn->transport || other->peer != conn->peer || its == NULL)
            continue;
        for (int k = 0; k < its->nrails; k++)
            if (its->rails[k].was_lost && its->rails[k].port == end->rails[r].port)
                return true;
    }
    return false;
}

void verbs_rail_lost(struct conn *conn, int r, const char *format, ...) {
    struct verbs_end *end = conn->impl;
    char what[192], text[ERR_TEXT_BYTES];
    va_list list;
    if (end->rails[r].state != VERBS_RAIL_UP || end->broken[0] != '\0')
        return;
    va_start(list, format);
    vsnprintf(what, sizeof(what), format, list);
    va_end(list);
    describe(conn, r, what, text, sizeof(text));
    if (!can_fail_over(conn)) {
        verbs_set_broken(conn, "%s", text);
        return;
    }
    if (is_known(conn, r))
        log_info(NET, "rank %d: %s; going on without this rail, in one more connection", conn->owner->rank, text);
    else
        log_warn(NET, "rank %d: %s; going on without this rail", conn->owner->rank, text);
    snprintf(end->lost, sizeof(end->lost), "%s", text);
    end->rails[r].state = VERBS_RAIL_LOST;
    end->rails[r].was_lost = true;
    for (int q = 0; q < end->nqps; q++)
        verbs_qp_fail(end->host, &end->qps[r][q]);
    verbs_update_live(end);
}

void verbs_look(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    for (int r = 0; r < end->nrails; r++) {
        struct verbs_port *port = end->rails[r].port;
        verbs_device_look(end->host, port->device);
        if (__atomic_load_n(&end->rails[r].cq_failed, __ATOMIC_RELAXED))
            verbs_rail_lost(conn, r, "is cut off: the completion queue has failed");
        else if (__atomic_load_n(&port->device->removed, __ATOMIC_RELAXED))
            verbs_rail_lost(conn, r, "is cut off: this end's device has failed or was removed");
        else if (__atomic_load_n(&port->down, __ATOMIC_RELAXED) && can_fail_over(conn))
            verbs_rail_lost(conn, r, "is cut off: this end's port is down"); /* alone, it may come back in time */
    }
}
