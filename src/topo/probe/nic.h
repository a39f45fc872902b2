/* SPDX-License-Identifier: Apache-2.0
 *
 * The NIC that a connection goes by, where the plan ties its channel to one (chan.h): that of its ring, at both ends.
 *
 *      ring 0 ── channel 0 ── NIC 0 ═══ NIC 0        every NIC has a channel of its own: together they use all
 *      ring 1 ── channel 1 ── NIC 1 ═══ NIC 1
 *
 * Which interface of this host that is, tcp_way.c knows; which RDMA port, verbs_rail.c.
 */
#ifndef COLLET_TOPO_PROBE_NIC_H
#define COLLET_TOPO_PROBE_NIC_H

#include "transport/conn.h"
#include "topo/probe/topo.h"

/* As the graph has it, so this host need not know it. NULL: the connection is tied to none, and takes all in turn. */
const struct topo_nic *nic_of_conn(const struct conn *conn);

/* The same for messages (send and receive): the NIC next to the GPU that gets them. Between ranks on CPUs they have one channel, and
 * go by the NIC next to the rank that gets them where each NIC of a host is next to some rank: so the messages of all ranks
 * together use all NICs. Not for transports by which both directions share a way. */
const struct topo_nic *nic_of_messages(const struct conn *conn);

#endif
