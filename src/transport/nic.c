/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/nic.h"

#include "program/program.h"
#include "topo/search.h"

const struct topo_nic *nic_of_conn(const struct conn *conn) {
    const struct topo_rings *rings = conn->owner->rings;
    if (!conn->owner->tied || conn->lane == PROG_LANE_P2P)
        return NULL;
    int nic = topo_nic_towards(rings, conn->channel % rings->nrings, conn->owner->rank, conn->peer);
    return nic < 0 ? NULL : &rings->topo->nodes[nic].nic;
}

const struct topo_nic *nic_of_messages(const struct conn *conn) {
    const struct topo_rings *rings = conn->owner->rings;
    const int rank = conn->owner->rank, receiver = conn->side == CONN_CONSUMER ? rank : conn->peer;
    int nic = rings != NULL ? topo_nic_of_message(rings, conn->channel, rank, conn->peer, receiver) : -1;
    return nic < 0 ? NULL : &rings->topo->nodes[nic].nic;
}
