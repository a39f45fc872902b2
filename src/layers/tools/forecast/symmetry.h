/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ranks of an algorithm behave alike.
 *
 *      ring       every host does what the next host does, one further            SHIFT
 *      halving    every host does what host 0 does, bits of partners flipped      XOR
 *      tree       the root has no parent, a leaf has no children                  EACH: for itself
 *
 * If each host's programs are those of host 0 with all peers moved by the host's distance, and hosts are equal, then all
 * hosts see the same at every time: the ranks of one host stand for all.
 */
#ifndef COLLET_LAYERS_TOOLS_FORECAST_SYMMETRY_H
#define COLLET_LAYERS_TOOLS_FORECAST_SYMMETRY_H

#include "layers/tuner/sim.h"

/* Finds the grouping of nhosts · nlocal ranks in the order of `shape`. Compares the programs of all hosts if there are at
 * most 64, otherwise those of 16 other hosts with host 0's. *grouping_p is EACH if no other grouping holds. */
enum collet_result symmetry_find(const struct algorithm *algorithm, const struct prog_shape *shape, int nhosts,
                                 enum sim_grouping *grouping_p);

#endif
