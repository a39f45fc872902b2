/* SPDX-License-Identifier: Apache-2.0
 *
 * Do the ranks of a node have a CPU each? Who waits must know: where they have, a waiting rank polls; where they have not,
 * it must hand its CPU over at once. And how much of a cache is a rank's? Ranks may be bound to CPUs or not, so their
 * sets of CPUs are compared, not counted.
 */
#ifndef COLLET_CHAN_CROWD_H
#define COLLET_CHAN_CROWD_H

#include "boot/boot.h"

#include <stdbool.h>

int crowd_of_node(const struct peer_info *peers, int nranks, int node); /* number of ranks of this node */

/* Number of CPUs that the ranks of this node may use together. */
int crowd_cpus_of_node(const struct peer_info *peers, int nranks, int node);

/* May data between these two ranks go from one CPU to another? No, if both are bound to the same CPU, or are in the same process: one
 * thread may do the work of all its ranks. */
bool crowd_apart(const struct peer_info *a, const struct peer_info *b);

/* Must this rank share its CPU with another rank of its node? cpus > 0: the node has this many, whatever the affinity masks say. */
bool crowd_around(const struct peer_info *peers, int nranks, int rank, int cpus);

/* Bytes of a cache per rank, if the ranks of the node are spread evenly over its CPUs. */
uint64_t crowd_cache_share(const struct peer_info *peers, int nranks, int rank, const struct os_cache *cache);

#endif
