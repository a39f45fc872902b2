/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "topology", which looks at machines, and finds rings over them. Beside the moments of its list it
 * is asked for the interfaces of connections.
 */
#ifndef COLLET_SEAMS_TOPOLOGY_H
#define COLLET_SEAMS_TOPOLOGY_H

#include "boot/address.h"
#include "transport/conn.h"

/* Gets this host's interface to which a connection is tied. "": it is not tied, or COLLET_SOCKET_IFNAME forbids the interface, or a
 * file gives the NIC a name that does not exist here. */
void map_interface(const struct conn *conn, char interface[ADDRESS_INTERFACE_BYTES]);

#endif
