/* SPDX-License-Identifier: Apache-2.0
 *
 * How rings cross one host: the routes of its ranks between its NICs. See cross.c.
 */
#ifndef COLLET_TOPO_PROBE_CROSS_H
#define COLLET_TOPO_PROBE_CROSS_H

#include "topo/probe/attempt.h"

/* The routes through a host, shared by all hosts that are equal to it. */
struct topo_crossing {
    int host, nlocal, nroutes;
    struct topo_route *routes;
    bool has_homes; /* Every NIC is home to equally many ranks, all routes taken together. */
    struct topo_bound ring_bound, tree_bound;
};

/* Finds routes for the nlocal ranks of a host. place[local]: the node where the rank is. with_nics: the rings go on to other
 * hosts. nic_weight: what a head sends to other heads in the two trees together, divided by a ring's data. A head receives
 * as much. topo_crossing_fini() frees *crossing, also after a failure. */
enum collet_result topo_cross_host(const struct topo *topo, int host, int nlocal, const int *place, bool with_nics,
                                   double nic_weight, struct topo_crossing *crossing);
void topo_crossing_fini(struct topo_crossing *crossing);

#endif
