/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tuner/distance.h"

#include "layers/tuner/line_probe.h"
#include "base/log.h"
#include "chan/crowd.h"

#include <strings.h>

/* Time for one pair: some forty samples if its CPUs are near each other, eight if they are far. */
#define PROBE_NS 50000

/* ---- which CPUs ---- */

/* Do two host ranks of the node run on CPUs between which data must travel? Slots of ranks on GPUs do not lie in the memory
 * of CPUs. */
static bool any_apart(const struct peer_info *peers, int nranks, int node) {
    for (int a = 0; a < nranks; a++)
        for (int b = a + 1; b < nranks && peers[a].node == node; b++)
            if (peers[a].device == COLLET_DEVICE_HOST && crowd_apart(&peers[a], &peers[b]))
                return true;
    return false;
}

/* Returns the number of the k-th CPU of a set. */
static int cpu_of(const struct os_cpu_set *set, int k) {
    int cpu = 0;
    for (;; cpu++) {
        bool in = set->word[cpu / 64] >> cpu % 64 & 1;
        if (in && k-- == 0)
            return cpu;
    }
}

/* Pairs the first CPU with the last, the middle and the next one. Mostly, the last CPU is on another socket, the middle one
 * on another part of the same socket, and the next one is a neighbour. */
int distance_pairs(const struct peer_info *peers, int nranks, int node,
                   struct distance_pair pairs[DISTANCE_PAIRS_MAX]) {
    struct os_cpu_set cpus = {{0}};
    int npairs = 0;
    for (int r = 0; r < nranks; r++)
        if (peers[r].node == node)
            os_cpu_set_add(&cpus, &peers[r].cpus);
    int ncpus = os_cpu_set_count(&cpus);
    int others[DISTANCE_PAIRS_MAX] = {ncpus - 1, ncpus / 2, 1};
    for (int k = 0; k < DISTANCE_PAIRS_MAX && ncpus > 1 && any_apart(peers, nranks, node); k++)
        if (k == 0 || others[k] < others[k - 1])
            pairs[npairs++] = (struct distance_pair){cpu_of(&cpus, 0), cpu_of(&cpus, others[k])};
    return npairs;
}

/* ---- how far ---- */

static bool measure(const struct distance_pair *pairs, int npairs) {
    struct line_trips trips;
    for (int k = 0; k < npairs; k++) {
        if (!line_probe(pairs[k].a, pairs[k].b, PROBE_NS, &trips)) {
            log_info(GRAPH, "CPUs %d and %d: how far they are could not be measured", pairs[k].a, pairs[k].b);
            continue;
        }
        bool far = trips.quartile_ns >= LINE_TRIP_FAR_NS;
        log_info(GRAPH, "CPUs %d and %d are %s: a cache line's round trip takes %.0f ns", pairs[k].a, pairs[k].b,
                 far ? "far" : "near", trips.quartile_ns);
        if (far)
            return true;
    }
    return false;
}

bool distance_is_far(const struct config *config, const struct peer_info *peers, int nranks, int node) {
    struct distance_pair pairs[DISTANCE_PAIRS_MAX];
    if (strcasecmp(config->cpu_distance, "auto") != 0)
        return strcasecmp(config->cpu_distance, "far") == 0;
    return measure(pairs, distance_pairs(peers, nranks, node, pairs));
}
