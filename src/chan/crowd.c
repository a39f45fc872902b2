/* SPDX-License-Identifier: Apache-2.0
 *
 *    CPUs           0 1 2 3          every rank may use          three ranks, two CPUs: crowded,
 *    rank 0, 1      x x . .          0 and 1, or 2 and 3         although the node has four
 *    rank 2         x x . .
 *    rank 3         . . x x
 *
 * Each rank can have its own CPU if no group of ranks is larger than the number of CPUs that it may use together (Hall's theorem).
 * It is enough to look at two groups: the ranks that can run only on this rank's CPUs, and the whole node. This assumes that
 * the CPU sets of two ranks are nested, or have no CPU in common.
 */
#include "chan/crowd.h"

#include <string.h>

int crowd_cpus_of_node(const struct peer_info *peers, int nranks, int node) {
    struct os_cpu_set cpus = {{0}};
    for (int r = 0; r < nranks; r++)
        if (peers[r].node == node)
            os_cpu_set_add(&cpus, &peers[r].cpus);
    return os_cpu_set_count(&cpus);
}

bool crowd_apart(const struct peer_info *a, const struct peer_info *b) {
    bool bound_together = os_cpu_set_count(&a->cpus) == 1 && os_cpu_set_within(&a->cpus, &b->cpus) &&
                          os_cpu_set_within(&b->cpus, &a->cpus);
    return a->node == b->node && memcmp(a->process, b->process, sizeof a->process) != 0 && !bound_together;
}

int crowd_of_node(const struct peer_info *peers, int nranks, int node) {
    int ranks = 0;
    for (int r = 0; r < nranks; r++)
        ranks += peers[r].node == node;
    return ranks;
}

/* Number of ranks that can run only on CPUs of the rank `around`, itself included. */
static int ranks_within(const struct peer_info *peers, int nranks, const struct peer_info *around) {
    int ranks = 0;
    for (int r = 0; r < nranks; r++)
        ranks += peers[r].node == around->node && os_cpu_set_within(&peers[r].cpus, &around->cpus);
    return ranks;
}

bool crowd_around(const struct peer_info *peers, int nranks, int rank, int cpus) {
    const struct peer_info *self = &peers[rank];
    int here = crowd_of_node(peers, nranks, self->node);
    if (cpus > 0)
        return here > cpus;
    return here > crowd_cpus_of_node(peers, nranks, self->node) ||
           ranks_within(peers, nranks, self) > os_cpu_set_count(&self->cpus);
}

uint64_t crowd_cache_share(const struct peer_info *peers, int nranks, int rank, const struct os_cache *cache) {
    int here = crowd_of_node(peers, nranks, peers[rank].node);
    int cpus = crowd_cpus_of_node(peers, nranks, peers[rank].node);
    int sharing = cache->cpus < cpus ? here * cache->cpus / cpus : here;
    return cache->bytes / (uint64_t)(sharing > 0 ? sharing : 1);
}
