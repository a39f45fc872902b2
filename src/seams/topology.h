/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "topology", which looks at machines, and finds rings over them. Without it ranks stand in their
 * order, node by node.
 */
#ifndef COLLET_SEAMS_TOPOLOGY_H
#define COLLET_SEAMS_TOPOLOGY_H

#include "boot/address.h"
#include "boot/boot.h"
#include "plan/map.h"
#include "transport/conn.h"

struct survey;

/* How all ranks of a new communicator come to the same map, over the control plane. Boot must be ready; it and config must
 * outlive the survey. */
enum collet_result survey_create(struct boot *boot, const struct config *config, int nranks, int rank,
                                 struct survey **survey_p);
void survey_destroy(struct survey *survey); /* NULL is fine */

/* Advances it, without waiting. IN_PROGRESS: call again; SUCCESS: *map_p is the caller's. Errors: the communicator's
 * failure, REMOTE if a rank that is waited for is gone, TIMEOUT after COLLET_INIT_TIMEOUT. */
enum collet_result survey_try(struct survey *survey, struct map **map_p);
void map_destroy(struct map *map); /* NULL is fine */

/* One of the orders of ranks as a shape. */
enum collet_result map_shape(const struct map *map, const struct peer_info *peers, int order, struct prog_shape *shape);

/* Says in the log where the rank is on the map; `all`: also graph, rings and bandwidth, line by line. */
void map_log(const struct map *map, int rank, bool all);

/* The interface of this host that a connection is tied to; "" if it is to none: it is not tied, or COLLET_SOCKET_IFNAME
 * does not allow the interface, or a file gives the NIC a name that this host does not know. */
void map_interface(const struct conn *conn, char interface[ADDRESS_INTERFACE_BYTES]);

#endif
