/* SPDX-License-Identifier: Apache-2.0
 *
 * Links of a graph, as tests ask for them.
 */
#ifndef TESTS_COMMON_TOPO_LINKS_H
#define TESTS_COMMON_TOPO_LINKS_H

#include "topo/probe/topo.h"

/* NULL: there is none. */
static inline const struct topo_link *link_between(const struct topo *topo, int from, int to, enum topo_medium medium) {
    for (int l = 0; l < topo->nlinks; l++)
        if (topo->links[l].from == from && topo->links[l].to == to && topo->links[l].medium == medium)
            return &topo->links[l];
    return NULL;
}

#endif
