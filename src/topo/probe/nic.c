/* SPDX-License-Identifier: Apache-2.0 */
#include "seams/topology.h"
#include "topo/probe/nic.h"

#include "topo/probe/chart.h"
#include "topo/probe/sysfs.h"

#include <string.h>

static const struct topo_rings *rings_of(const struct conn *conn) {
    return conn->owner->map != NULL ? chart_of(conn->owner->map)->rings : NULL;
}

const struct topo_nic *nic_of_conn(const struct conn *conn) {
    const struct topo_rings *rings = rings_of(conn);
    if (!conn->owner->tied || conn->lane == PROG_LANE_P2P)
        return NULL;
    int nic = topo_nic_towards(rings, conn->channel % rings->nrings, conn->owner->rank, conn->peer);
    return nic < 0 ? NULL : &rings->topo->nodes[nic].nic;
}

const struct topo_nic *nic_of_messages(const struct conn *conn) {
    const struct topo_rings *rings = rings_of(conn);
    const int rank = conn->owner->rank, receiver = conn->side == CONN_CONSUMER ? rank : conn->peer;
    int nic = rings != NULL ? topo_nic_of_message(rings, conn->channel, rank, conn->peer, receiver) : -1;
    return nic < 0 ? NULL : &rings->topo->nodes[nic].nic;
}

void map_interface(const struct conn *conn, char interface[ADDRESS_INTERFACE_BYTES]) {
    const struct topo_nic *nic = nic_of_conn(conn);
    char name[TOPO_NAME_BYTES];
    interface[0] = '\0';
    if (nic != NULL && topo_find_interface(nic->name, "/sys", name) && strlen(name) < ADDRESS_INTERFACE_BYTES &&
        address_interface_allowed(conn->owner->config->socket_ifname, name))
        memcpy(interface, name, strlen(name) + 1);
}
