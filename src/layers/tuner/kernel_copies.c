/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tuner/kernel_copies.h"

#include "layers/tuner/copy_probe.h"
#include "base/log.h"
#include "kernels/reduce_host.h"
#include "layers/tuner/distance.h"
#include "transport/conn.h"

#include <string.h>
#include <strings.h>

/* Other programs disturb a probe. So the kernel's copies count as faster only below this share of the slots' time. */
#define CLEARLY 0.75

static void say_why_not(const struct distance_pair *pair, int refused) {
    if (refused == 0) {
        log_info(GRAPH, "CPUs %d and %d: what the kernel takes to copy could not be measured", pair->a, pair->b);
        return;
    }
    log_info(
        GRAPH,
        "the kernel refuses process_vm_readv to this process (%s): payloads in ordinary memory go through slots on this "
        "host; a container that forbids it, by seccomp or a missing capability, has to permit it, or "
        "COLLET_KERNEL_COPIES=faster on rank 0 lets those ranks use it that may",
        strerror(refused));
}

static bool measure_copies(const struct distance_pair *pair) {
    struct copy_times times;
    if (!copy_probe(pair->a, pair->b, reduce_host_copy_past_caches, &times)) {
        say_why_not(pair, times.refused);
        return false;
    }
    bool pays = times.kernel_ns < CLEARLY * times.slots_ns;
    log_info(GRAPH, "CPUs %d and %d: %u bytes take %.1f us through slots, %.1f us through the kernel, which %s used",
             pair->a, pair->b, COPY_PROBE_BYTES, times.slots_ns / 1e3, times.kernel_ns / 1e3, pays ? "is" : "is not");
    return pays;
}

bool kernel_copies_pay(const struct config *config, const struct peer_info *peers, int nranks, int node) {
    struct distance_pair pairs[DISTANCE_PAIRS_MAX];
    if (strcasecmp(config->kernel_copies, "auto") != 0)
        return strcasecmp(config->kernel_copies, "faster") == 0;
    bool wanted = conn_least_lent(config, "cma", 1) > 0 && distance_pairs(peers, nranks, node, pairs) > 0;
    return wanted && measure_copies(&pairs[0]);
}
