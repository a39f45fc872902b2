/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "topology", which looks at machines, and finds rings over them. Beside the moments of its list it
 * is asked for the interfaces of connections.
 */
#ifndef COLLET_SEAMS_TOPOLOGY_H
#define COLLET_SEAMS_TOPOLOGY_H

#include "boot/address.h"
#include "transport/conn.h"

/* The interface of this host that a connection is tied to; "" if it is to none: it is not tied, or COLLET_SOCKET_IFNAME
 * does not allow the interface, or a file gives the NIC a name that this host does not know. */
void map_interface(const struct conn *conn, char interface[ADDRESS_INTERFACE_BYTES]);

#endif
