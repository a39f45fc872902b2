/* SPDX-License-Identifier: Apache-2.0
 *
 * Are the CPUs of a node near each other, or far? The same data costs several times as much to pass on where they are far,
 * and no description of a machine tells: virtual CPUs are wherever the hypervisor runs them just now.
 *
 *      cache line     CPU a ──▶ CPU b ──▶ CPU a       near: some 50 to 120 ns;  far: 300 and more
 *
 * The lowest rank of a node measures a few pairs of the CPUs that the node's ranks may use while the communicator is created,
 * and the longest counts (survey.h). Which pairs of ranks that concerns, crowd_apart() says (chan/crowd.h).
 */
#ifndef COLLET_LAYERS_TUNER_DISTANCE_H
#define COLLET_LAYERS_TUNER_DISTANCE_H

#include "boot/boot.h"

#include <stdbool.h>

/* Two CPUs. */
struct distance_pair {
    int a, b;
};

/* The pairs of CPUs to be measured on a node: none where its ranks have nothing to pass from CPU to CPU. Returns how many. */
#define DISTANCE_PAIRS_MAX 3
int distance_pairs(const struct peer_info *peers, int nranks, int node, struct distance_pair pairs[DISTANCE_PAIRS_MAX]);

/* As COLLET_CPU_DISTANCE says, else measured: a fraction of a millisecond, some milliseconds where other programs keep the
 * CPUs busy. What cannot be measured is near. Says in the log what it found. */
bool distance_is_far(const struct config *config, const struct peer_info *peers, int nranks, int node);

#endif
