/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "topology", which looks at machines, and finds rings over them. Beside the moments of seams/layer.h,
 * the core asks it for the interfaces of connections.
 */
#ifndef COLLET_SEAMS_TOPOLOGY_H
#define COLLET_SEAMS_TOPOLOGY_H

#include "boot/address.h"
#include "transport/conn.h"

/* Gets the interface of this host to which a connection is tied. "": the connection is not tied to one, or COLLET_SOCKET_IFNAME forbids the
 * interface, or a topology file gives the NIC a name that does not exist here. */
void map_interface(const struct conn *conn, char interface[ADDRESS_INTERFACE_BYTES]);

#endif
