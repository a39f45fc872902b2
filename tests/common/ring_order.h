/* SPDX-License-Identifier: Apache-2.0
 *
 * All ranks in the order of a ring, host by host.
 */
#ifndef COLLET_TESTS_RING_ORDER_H
#define COLLET_TESTS_RING_ORDER_H

#include "topo/probe/search.h"

static inline void ring_order(const struct topo_rings *rings, int ring, int *order) {
    for (int h = 0; h < rings->nhosts; h++) {
        bool backwards;
        const struct topo_route *route = topo_route_of(rings, ring, h, &backwards);
        int nlocal = topo_nlocal(rings, h);
        for (int i = 0; i < nlocal; i++)
            *order++ = topo_rank_of(rings, h, route->order[backwards ? nlocal - 1 - i : i]);
    }
}

#endif
