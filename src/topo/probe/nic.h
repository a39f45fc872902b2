/* SPDX-License-Identifier: Apache-2.0
 *
 * The NIC of a connection. If the plan ties channels to NICs (chan.h), a connection uses the NIC of its ring, at both ends.
 *
 *      ring 0 ── channel 0 ── NIC 0 ═══ NIC 0        every NIC has a channel of its own: together they use all
 *      ring 1 ── channel 1 ── NIC 1 ═══ NIC 1
 *
 * tcp_way.c knows which interface of this host this NIC is, and verbs_rail.c knows which RDMA port it is.
 */
#ifndef COLLET_TOPO_PROBE_NIC_H
#define COLLET_TOPO_PROBE_NIC_H

#include "transport/conn.h"
#include "topo/probe/topo.h"

/* The NIC of a connection, as the graph describes it. A rank may ask for a NIC of another host. NULL: the connection is tied
 * to no NIC, and takes all of them in turn. */
const struct topo_nic *nic_of_conn(const struct conn *conn);

/* The NIC of a connection of send and receive: the NIC next to the GPU that receives. Messages between ranks on CPUs go by
 * the NIC next to the receiving rank, if each NIC of a host is next to some rank: then the messages of all ranks together
 * use all NICs. NULL: no such NIC. Transports that use one way for both directions must not ask. */
const struct topo_nic *nic_of_messages(const struct conn *conn);

#endif
