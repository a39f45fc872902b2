/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "topology" no connection is tied to an interface.
 */
#include "seams/topology.h"

void map_interface(const struct conn *conn, char interface[ADDRESS_INTERFACE_BYTES]) {
    (void)conn;
    interface[0] = '\0';
}
