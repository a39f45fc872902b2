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

int crowd_of_node(const struct peer_info *peers, int nranks, int node); /* its ranks */

/* CPUs that the ranks of this node may use, together. */
int crowd_cpus_of_node(const struct peer_info *peers, int nranks, int node);

/* May data between these two ranks go from one CPU to another? Not where both are bound to the same one. Ranks of one process
 * count as together, since one thread may do the work of all of them. */
bool crowd_apart(const struct peer_info *a, const struct peer_info *b);

/* Must this rank share a CPU with another rank of its node? cpus > 0: the node's CPUs, whatever the sets say. */
bool crowd_around(const struct peer_info *peers, int nranks, int rank, int cpus);

/* This rank's part of a cache, if the ranks of its node are spread evenly over its CPUs: in bytes. */
uint64_t crowd_cache_share(const struct peer_info *peers, int nranks, int rank, const struct os_cache *cache);

#endif
