/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tuner/host_find.h"

#include "base/log.h"
#include "chan/crowd.h"
#include "kernels/reduce_host.h"
#include "layers/tuner/distance.h"
#include "layers/tuner/host.h"
#include "layers/tuner/on_cpus.h"
#include "transport/conn.h"

#include <pthread.h>
#include <string.h>
#include <strings.h>

/* Minimum number of processes whose CPUs are measured all at once. Fewer do not disturb each other. */
#define RANKS_MIN 3

/* ---- which CPUs ---- */

static struct os_cpu_set cpus_of(const struct peer_info *peers, int nranks, int node) {
    struct os_cpu_set cpus = {{0}};
    for (int r = 0; r < nranks; r++)
        if (peers[r].node == node)
            os_cpu_set_add(&cpus, &peers[r].cpus);
    return cpus;
}

static int processes_of(const struct peer_info *peers, int nranks, int node) {
    int count = 0;
    for (int r = 0; r < nranks; r++) {
        bool first = peers[r].node == node;
        for (int before = 0; before < r && first; before++)
            first = memcmp(peers[before].process, peers[r].process, sizeof peers[r].process) != 0;
        count += first;
    }
    return count;
}

/* Chooses as many CPUs as there are processes, spread evenly over those of the node. */
static int choose_cpus(const struct os_cpu_set *set, int nprocesses, int cpus[ON_CPUS_MAX]) {
    const int have = os_cpu_set_count(set), most = nprocesses < ON_CPUS_MAX ? nprocesses : ON_CPUS_MAX;
    const int n = have < most ? have : most;
    int seen = 0, count = 0;
    for (int cpu = 0; cpu < OS_CPUS && count < n; cpu++)
        if (set->word[cpu / 64] >> cpu % 64 & 1 && seen++ == count * have / n)
            cpus[count++] = cpu;
    return count;
}

/* ---- what is known already ---- */

#define KNOWN_MAX 8
static struct known {
    struct os_cpu_set cpus;
    struct host_found found;
} known[KNOWN_MAX];
static int nknown;
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

void host_keep(const struct peer_info *peers, int nranks, int node, const struct host_found *found) {
    const struct os_cpu_set cpus = cpus_of(peers, nranks, node);
    pthread_mutex_lock(&known_lock);
    int k = 0;
    while (k < nknown && !os_cpu_set_within(&cpus, &known[k].cpus))
        k++;
    if (k == nknown && nknown < KNOWN_MAX)
        known[nknown++] = (struct known){cpus, *found};
    pthread_mutex_unlock(&known_lock);
}

static bool recall(const struct os_cpu_set *cpus, struct host_found *found) {
    bool any = false;
    pthread_mutex_lock(&known_lock);
    for (int k = 0; k < nknown && !any; k++)
        if ((any = os_cpu_set_within(cpus, &known[k].cpus)))
            *found = known[k].found;
    pthread_mutex_unlock(&known_lock);
    return any;
}

/* ---- measuring ---- */

static void say_refused(int refused) {
    log_info(
        GRAPH,
        "the kernel refuses process_vm_readv to this process (%s): payloads in ordinary memory go through slots on this "
        "host; a container that forbids it, by seccomp or a missing capability, has to permit it, or "
        "COLLET_KERNEL_COPIES=faster on rank 0 lets those ranks use it that may",
        strerror(refused));
}

/* Measures everything, if `fully`; otherwise only whether the kernel copies faster. */
static void measure(const int *cpus, int n, bool fully, struct host_found *found) {
    struct host_times times;
    char text[HOST_TEXT_BYTES];
    if (!host_probe(cpus, n, reduce_host_copy_past_caches, fully, &times)) {
        log_info(GRAPH, "%d CPUs at once: how fast they are could not be measured", n);
        return;
    }
    found->kernel_copies = host_kernel_copies(&times);
    if (times.refused != 0)
        say_refused(times.refused);
    else
        log_info(GRAPH,
                 "%d CPUs at once: %u bytes take %.1f us through slots, %.1f us past the caches, %.1f us through the "
                 "kernel, which %s used",
                 n, HOST_PROBE_LONG, times.slots[PROBE_LONG] / 1e3, times.past[PROBE_LONG] / 1e3,
                 times.kernel[PROBE_LONG] / 1e3, found->kernel_copies ? "is" : "is not");
    if (!fully)
        return;
    found->far = host_is_far(&times);
    found->speed = host_speed_of(&times, n);
    log_info(GRAPH, "%d CPUs at once: %s", n, host_text(&found->speed, text));
}

static bool is_auto(const char *word) { return strcasecmp(word, "auto") == 0; }

struct host_found host_find(const struct config *config, const struct peer_info *peers, int nranks, int node) {
    const struct os_cpu_set set = cpus_of(peers, nranks, node);
    const int nprocesses = processes_of(peers, nranks, node), ncpus = os_cpu_set_count(&set);
    struct distance_pair pairs[DISTANCE_PAIRS_MAX];
    const bool passes_on = distance_pairs(peers, nranks, node, pairs) > 0, told = !is_auto(config->cpu_distance);
    const bool crowded =
        crowd_of_node(peers, nranks, node) > ncpus || crowd_around(peers, nranks, node, (int)config->cpus);
    const bool fully = !told && nprocesses >= RANKS_MIN && !crowded;
    const bool asks = conn_least_lent(config, "cma", 1) > 0 && is_auto(config->kernel_copies);
    struct host_found found = {.far = false};
    int cpus[ON_CPUS_MAX];
    const bool recalled = passes_on && !told && recall(&set, &found);
    if (passes_on && !recalled && (fully || asks))
        measure(cpus, choose_cpus(&set, nprocesses, cpus), fully, &found);
    if (passes_on && !recalled && found.speed.line_ns == 0)
        found.far = distance_is_far(config, peers, nranks, node);
    if (told)
        found.far = strcasecmp(config->cpu_distance, "far") == 0;
    if (!asks)
        found.kernel_copies = strcasecmp(config->kernel_copies, "faster") == 0;
    return found;
}
