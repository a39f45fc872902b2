/* SPDX-License-Identifier: Apache-2.0
 *
 * Are the CPUs of a node near each other, or far? Between far CPUs, it costs several times as much to pass data on. No description of a
 * machine says how far they are: virtual CPUs are wherever the hypervisor runs them at the moment.
 *
 *      cache line     CPU a ──▶ CPU b ──▶ CPU a       near: some 50 to 120 ns;  far: 300 and more
 *
 * The lowest rank of a node measures a few pairs of the CPUs that the node's ranks may use while the communicator is created,
 * and the longest time counts (survey.h). crowd_apart() says which pairs of ranks this concerns (chan/crowd.h).
 */
#ifndef COLLET_LAYERS_TUNER_DISTANCE_H
#define COLLET_LAYERS_TUNER_DISTANCE_H

#include "boot/boot.h"

#include <stdbool.h>

/* Two CPUs, by their numbers. */
struct distance_pair {
    int a, b;
};

/* Finds the pairs of CPUs to be measured on a node, and returns their number. 0: the ranks of the node have nothing to pass
 * from CPU to CPU. */
#define DISTANCE_PAIRS_MAX 3
int distance_pairs(const struct peer_info *peers, int nranks, int node, struct distance_pair pairs[DISTANCE_PAIRS_MAX]);

/* Are the CPUs of the node far from each other? COLLET_CPU_DISTANCE decides. If this knob is not set, the CPUs are measured; that takes
 * a fraction of a millisecond, or some milliseconds if other programs keep the CPUs busy. CPUs that cannot be measured count as near.
 * The result goes to the log. */
bool distance_is_far(const struct config *config, const struct peer_info *peers, int nranks, int node);

#endif
