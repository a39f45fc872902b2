/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection pairs ports, and chooses the pairs that carry its data. Only ports that are usable at both ends are paired.
 *
 *    not tied to a NIC (nic.h): all          tied to the NIC of port 2            … of port 6
 *
 *    rail 0   port 0 ═══ port 0               port 0 ─── port 0   in reserve       port 0 ─── port 0   in reserve
 *    rail 1   port 1 ═══ port 1  by turns     port 1 ─── port 1   in reserve       port 1 ─── port 1   in reserve
 *    rail 2   port 2 ═══ port 2               port 2 ═══ port 2   the home rail    port 2 ─── port 2   in reserve
 *    rail 3   port 3 ═══ port 3               port 3 ─── port 3   in reserve       port 6 ═══ port 6   the home rail
 *
 * A port is only paired with the port of the same number, because networks may separate ports of different numbers. So both
 * ends are needed to tie a connection: each end finds the port of its own NIC, and if the two ports have different numbers,
 * all rails take turns. A rail in reserve has nothing but its ports until it is needed. So a job makes one queue pair per
 * connection, and not four. When the home rail is out, all rails in reserve are opened, and carry data until it is back.
 */
#include "program/program.h"
#include "topo/probe/nic.h"
#include "transport/verbs/verbs_end.h"

#include <net/if.h>
#include <string.h>

/* Does this NIC of the graph have this port? Graphs name a NIC by its RDMA device or by its interface. */
static bool is_port_of(const struct verbs_port *port, const struct topo_nic *nic) {
    if (strcmp(port->device->name, nic->name) == 0)
        return nic->port == 0 || nic->port == port->number;
    return port->interface != 0 && port->interface == if_nametoindex(nic->name);
}

static struct verbs_port *port_at(struct verbs_host *host, bool infiniband, int place) {
    for (int k = 0; k < host->nports; k++)
        if (host->ports[k].infiniband == infiniband && host->ports[k].place == place)
            return &host->ports[k];
    return NULL;
}

/* Lists this end's ports that have a partner at the other end. Both ends get the same order. */
static int list_ports(const struct conn *conn, struct verbs_port **ports) {
    const struct verbs_end *end = conn->impl;
    const struct peer_info *peers = conn->owner->peers;
    uint8_t places[VERBS_NUMBERS_MAX];
    int n = verbs_pair_ports(verbs_card_of(&peers[conn->owner->rank]), verbs_card_of(&peers[conn->peer]), end->kind,
                             places);
    for (int k = 0; k < n; k++)
        ports[k] = port_at(end->host, end->kind == VERBS_INFINIBAND, places[k]);
    return n;
}

/* The number of the port to which this end is tied; −1: it is not tied. */
static int find_home(const struct conn *conn, struct verbs_port *const *ports, int n) {
    const bool messages = conn->lane == PROG_LANE_P2P;
    const struct topo_nic *nic = messages ? nic_of_messages(conn) : nic_of_conn(conn);
    for (int k = 0; nic != NULL && k < n; k++)
        if (is_port_of(ports[k], nic))
            return k;
    if (nic != NULL)
        log_info(NET,
                 "rank %d %s %d: channel %d takes all RDMA ports by turns: \"%s\", the NIC of its ring, is none that "
                 "can be used here",
                 conn->owner->rank, conn_arrow(conn), conn->peer, conn->channel, nic->name);
    return -1;
}

void verbs_rails_choose(struct conn *conn, const struct verbs_hello *offer) {
    struct verbs_end *end = conn->impl;
    struct verbs_port *ports[VERBS_PORTS_MAX];
    int n = list_ports(conn, ports), mine = find_home(conn, ports, n);
    int home = offer == NULL ? mine : offer->home - 1, most = offer == NULL ? VERBS_RAILS_MAX : offer->nrails;
    end->home = -1;
    for (end->nrails = 0; end->nrails < most; end->nrails++) {
        int r = end->nrails, port = r == VERBS_RAILS_MAX - 1 && home > r ? home : r;
        if (port >= n)
            break;
        end->rails[r].port = ports[port];
        if (port == home && home == mine)
            end->home = r;
    }
    end->mine.nrails = (uint8_t)end->nrails;
    end->mine.home = end->home < 0 ? 0 : (uint8_t)(home + 1);
}

void verbs_rails_agree(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    bool alike = end->mine.home == end->theirs.home;
    if (!alike)
        end->home = -1;
    if (!alike && end->nrails > 1)
        log_info(NET,
                 "rank %d %s %d: channel %d takes all RDMA ports by turns: the NICs of its ring have no like ports",
                 conn->owner->rank, conn_arrow(conn), conn->peer, conn->channel);
}

void verbs_update_live(struct verbs_end *end) {
    bool at_home = end->home >= 0 && end->stage == VERBS_READY && end->rails[end->home].state == VERBS_RAIL_UP;
    end->nlive = 0;
    for (int q = 0; q < end->nqps; q++) /* queue pairs of all rails in turn */
        for (int r = 0; r < end->nrails; r++)
            if (end->rails[r].state == VERBS_RAIL_UP && (!at_home || verbs_rail_carries(end, r)))
                end->live[end->nlive++] = (uint8_t)(r * VERBS_QPS_MAX + q);
}
