/* SPDX-License-Identifier: Apache-2.0
 *
 * Does each rank of a node have its own CPU? If so, a waiting rank may poll. If not, it must yield its CPU at once. Also: how much of
 * a cache can a rank use? Ranks may be bound to CPUs or not. So the functions compare the ranks' sets of CPUs.
 */
#ifndef COLLET_CHAN_CROWD_H
#define COLLET_CHAN_CROWD_H

#include "boot/boot.h"

#include <stdbool.h>

int crowd_of_node(const struct peer_info *peers, int nranks, int node); /* Number of ranks of this node */

/* Number of CPUs that the ranks of this node may use together. */
int crowd_cpus_of_node(const struct peer_info *peers, int nranks, int node);

/* Do data between these two ranks of a node usually go from one CPU to another? No, if both are bound to the same CPU, or are in the same
 * process, where one thread may do the work of all its ranks. */
bool crowd_apart(const struct peer_info *a, const struct peer_info *b);

/* Must this rank share its CPU with another rank of its node? cpus > 0: assume that the node has this many CPUs, whatever the affinity
 * masks say. */
bool crowd_around(const struct peer_info *peers, int nranks, int rank, int cpus);

/* The bytes of a cache that this rank can use, if the ranks of the node are spread evenly over its CPUs. */
uint64_t crowd_cache_share(const struct peer_info *peers, int nranks, int rank, const struct os_cache *cache);

#endif
