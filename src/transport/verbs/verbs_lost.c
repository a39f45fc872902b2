/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection finds out that a rail is lost, and then goes on without it or breaks.
 *
 *    a completion says so; the device takes no work; its port    ─▶  verbs_rail_lost ─┬─▶ another rail is up or tested: LOST,
 *    goes down; the other end says so (verbs_failover.c)                              │   and verbs_failover.c settles it
 *                                                                                     └─▶ no other is: the connection is broken
 *
 * Each loss and each return is logged. It is a warning if it is the first among a rank's connections with a peer.
 *
 * After a loss, a rail waits before it is tested again: for COLLET_NET_RAIL_WAIT, and twice as long after each further
 * loss, up to 1024 times as long. When it has been up for an hour, the next wait is short again. So a rail that flaps
 * delays a job less and less often: by default, after ten losses, every 17 minutes.
 */
#include "base/os.h"
#include "transport/verbs/verbs_end.h"

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

/* Is any other rail up, or may it soon be: in reserve, or tested? The letter about it may be on its way. */
static bool are_others(const struct verbs_end *end, int r) {
    int others = 0;
    for (int k = 0; k < end->nrails; k++)
        others += k != r && (end->rails[k].state == VERBS_RAIL_UP || end->rails[k].state == VERBS_RAIL_TESTED ||
                             end->rails[k].untried);
    return others > 0;
}

/* Can the connection go on without this rail? During a test no end may decide that alone: both ends first hear the test's result. */
static bool can_fail_over(const struct conn *conn, int r) {
    const struct verbs_end *end = conn->impl;
    if (end->stage == VERBS_GREETING || end->rails[r].state == VERBS_RAIL_TESTED)
        return true;
    return conn->owner->config->net_failover && end->stage == VERBS_READY && are_others(end, r);
}

void verbs_rail_is_out(struct conn *conn, int r) {
    const struct verbs_end *end = conn->impl;
    if (end->stage == VERBS_READY && end->rails[r].state == VERBS_RAIL_DOWN && !are_others(end, r) &&
        !verbs_any_rail(end, VERBS_RAIL_LOST))
        verbs_set_broken(conn, "%s", end->lost);
}

bool verbs_any_rail(const struct verbs_end *end, enum verbs_rail_state state) {
    for (int r = 0; r < end->nrails; r++)
        if (end->rails[r].state == state)
            return true;
    return false;
}

/* Does another connection with the same rank already know that this port is out, or back? */
static bool is_known(const struct conn *conn, int r, bool back) {
    const struct verbs_end *end = conn->impl;
    const struct verbs_rail *rail = &end->rails[r];
    for (const struct conn *other = conn->owner->first; other != NULL; other = other->next) {
        const struct verbs_end *its = other->impl;
        if (other == conn || other->transport != conn->transport || other->peer != conn->peer || its == NULL)
            continue;
        for (const struct verbs_rail *k = its->rails; k < its->rails + its->nrails; k++)
            if (k->port == rail->port && k->losses > 0 && (k->state == VERBS_RAIL_UP) == back &&
                (!back || k->since_ns > rail->since_ns))
                return true;
    }
    return false;
}

#define BACKOFF_DOUBLINGS 10
#define FORGIVEN_NS 3600000000000ull

void verbs_rail_waits(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    struct verbs_rail *rail = &end->rails[r];
    const uint64_t wait_ns = (uint64_t)conn->owner->config->net_rail_wait * 1000000000u, now_ns = os_now_ns();
    if (rail->state == VERBS_RAIL_UP && now_ns - rail->since_ns > FORGIVEN_NS)
        rail->doublings = 0;
    if (rail->state == VERBS_RAIL_UP)
        rail->since_ns = now_ns;
    rail->due_ns = wait_ns > 0 ? now_ns + (wait_ns << rail->doublings) : UINT64_MAX;
    rail->doublings += rail->doublings < BACKOFF_DOUBLINGS;
}

void verbs_rail_refused(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    end->rails[r].untried = false;
    verbs_rail_waits(conn, r);
    log_info(NET, "rank %d: rail %d to rank %d, which was in reserve, cannot be opened", conn->owner->rank, r,
             conn->peer);
    verbs_rail_is_out(conn, r);
}

static void conn_count(const struct conn *conn, enum conn_counter counter) {
    if (conn->owner->counters != NULL)
        __atomic_add_fetch(&conn->owner->counters[counter], 1, __ATOMIC_RELAXED);
}

void verbs_rail_lost(struct conn *conn, int r, const char *format, ...) {
    struct verbs_end *end = conn->impl;
    struct verbs_rail *rail = &end->rails[r];
    char what[192], text[ERR_TEXT_BYTES];
    va_list list;
    if (rail->state == VERBS_RAIL_LOST || rail->state == VERBS_RAIL_DOWN || end->broken[0] != '\0')
        return;
    va_start(list, format);
    vsnprintf(what, sizeof(what), format, list);
    va_end(list);
    describe(conn, r, what, text, sizeof(text));
    if (!can_fail_over(conn, r)) {
        verbs_set_broken(conn, "%s", text);
        return;
    }
    const bool was_used = rail->state == VERBS_RAIL_UP, again = end->stage == VERBS_READY && !was_used;
    if (again || is_known(conn, r, false))
        log_info(NET, "rank %d: %s; going on without this rail, %s", conn->owner->rank, text,
                 again ? "as before" : "in one more connection");
    else
        log_warn(NET, "rank %d: %s; going on without this rail", conn->owner->rank, text);
    snprintf(end->lost, sizeof(end->lost), "%s", text);
    verbs_rail_waits(conn, r);
    rail->losses += !again;
    if (was_used)
        conn_count(conn, CONN_RAILS_LOST);
    rail->state = VERBS_RAIL_LOST;
    rail->told = rail->invited = rail->untried = false;
    verbs_update_live(end);
    for (int q = 0; q < end->nqps; q++) /* nothing more is sent, although the rail may be settled much later */
        verbs_qp_fail(end->host, &end->qps[r][q]);
}

void verbs_rail_up(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    struct verbs_rail *rail = &end->rails[r];
    const bool back = end->stage == VERBS_READY && !rail->untried, known = back && is_known(conn, r, true);
    if (rail->untried)
        log_info(NET, "rank %d: rail %d to rank %d, which was in reserve, is open: %s port %d", conn->owner->rank, r,
                 conn->peer, rail->port->device->name, rail->port->number);
    rail->state = VERBS_RAIL_UP;
    rail->untried = false;
    rail->since_ns = os_now_ns();
    verbs_update_live(end);
    if (!back)
        return;
    rail->returns++;
    conn_count(conn, CONN_RAILS_RETURNED);
    if (log_wanted(known ? LOG_INFO : LOG_WARN, LOG_NET))
        log_write(known ? LOG_INFO : LOG_WARN, LOG_NET,
                  "rank %d: rail %d to rank %d (host %s), by %s port %d, carries again: it was tested%s",
                  conn->owner->rank, r, conn->peer, conn->owner->peers[conn->peer].host, rail->port->device->name,
                  rail->port->number, known ? ", in one more connection" : "");
}

void verbs_look(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    for (int r = 0; r < end->nrails; r++) {
        const struct verbs_port *port = end->rails[r].port;
        verbs_device_look(end->host, port->device);
        if (__atomic_load_n(&end->rails[r].cq_failed, __ATOMIC_RELAXED))
            verbs_rail_lost(conn, r, "is cut off: the completion queue has failed");
        else if (verbs_device_is_gone(port->device))
            verbs_rail_lost(conn, r, "is cut off: this end's device has failed or was removed");
        else if (__atomic_load_n(&port->down, __ATOMIC_RELAXED) && can_fail_over(conn, r))
            verbs_rail_lost(conn, r, "is cut off: this end's port is down"); /* otherwise we wait for the port */
    }
}
