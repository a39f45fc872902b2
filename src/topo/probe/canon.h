/* SPDX-License-Identifier: Apache-2.0
 *
 * An order of a host's stops, and of the links between them, that does not depend on how the host's GPUs are numbered. Of equal
 * tours the search takes one by the order of stops. Of links that are equally full it empties the first one. So without this
 * step, equal machines with other numbers could get other rings.
 *
 * Stops are told apart by their paths, round by round (B. Weisfeiler, A. Leman, "The reduction of a graph to canonical form",
 * 1968). Take two pairs of GPUs, each pair with a fast link (═), the pairs with a slow one (─):
 *
 *      2 ═ 0 ─ 1 ═ 3      first:            {0 1 2 3}       0 and 1 have a slow link, 2 and 3 have none
 *                         round 1:          {0 1} {2 3}     nothing tells 0 from 1
 *                         0 goes in front:  {0} {1} {2 3}
 *                         round 2:          {0} {1} {2} {3} 2 has a fast link with 0, and 3 has none
 *
 * Where nothing tells stops apart, the one with the lowest number goes in front. In nearly all machines such stops are
 * equal indeed: it does not matter which one it is.
 */
#ifndef COLLET_TOPO_PROBE_CANON_H
#define COLLET_TOPO_PROBE_CANON_H

#include "topo/probe/load.h"

/* Gives new numbers to the stops of the load, and an order to its links. On hosts with more than TOUR_EXACT_MAX stops, the
 * stops keep their numbers: new ones would take too long to find, and GPUs of such hosts are equal behind switches. */
enum collet_result canon_number(struct load *load);

#endif
