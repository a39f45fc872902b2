/* SPDX-License-Identifier: Apache-2.0
 *
 * Where is a rank on its host? Looks up in the host's graph what the rank knows of itself.
 */
#include "topo/probe/topo.h"

/* The GPU to which a file gives this rank of a communicator. −1: none. */
static int find_rank(const struct topo *topo, int rank) {
    for (int n = topo->hosts[0].first_node; n < topo->hosts[0].end_node; n++)
        if (topo->nodes[n].kind == TOPO_GPU && topo->nodes[n].gpu.rank == rank)
            return n;
    return -1;
}

static int count_common(const struct topo_cpu *cpu, const uint32_t *cpus) {
    int common = 0;
    for (int word = 0; word < cpu->affinity_words; word++)
        common += __builtin_popcount(cpu->affinity[word] & cpus[word]);
    return common;
}

/* The CPU node that has most of these CPUs. Of equal nodes it is the first one, so a rank that may run anywhere counts as on
 * the first. */
static int find_cpu(const struct topo *topo, const uint32_t *cpus) {
    int best = -1, most = -1;
    for (int n = topo->hosts[0].first_node; n < topo->hosts[0].end_node; n++) {
        int common = topo->nodes[n].kind == TOPO_CPU ? count_common(&topo->nodes[n].cpu, cpus) : -1;
        if (common > most) {
            most = common;
            best = n;
        }
    }
    return best;
}

int topo_locate(const struct topo *topo, const struct topo_whereabouts *where) {
    int node = topo_find_busid(topo, where->busid);
    if (node < 0 || topo->nodes[node].kind != TOPO_GPU)
        node = find_rank(topo, where->rank);
    return node >= 0 ? node : find_cpu(topo, where->cpus);
}
