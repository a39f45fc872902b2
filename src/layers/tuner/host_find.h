/* SPDX-License-Identifier: Apache-2.0
 *
 * What the lowest rank of a node finds out about its CPUs while a communicator is created, and all ranks learn:
 *
 *      ranks of three processes or more, a CPU each      how fast they are, all at once (host_probe.h): the model has these numbers
 *      two ranks, or more ranks than CPUs                are they near or far (distance.h)? The model has numbers of both classes
 *      either                                            may the kernel copy payloads between processes, and is that faster?
 *
 *      slots       producer ──copies──▶ slot ──copies──▶ consumer      two copies, of lines that go from CPU to CPU
 *      kernel      producer's memory ──process_vm_readv()──▶ consumer   one copy; the kernel looks up each page
 *
 * Which way is faster depends on the machine, and on how many ranks copy at once. All processes of the communicator keep what was found
 * for a set of CPUs, so a later communicator of some of its ranks measures nothing.
 */
#ifndef COLLET_LAYERS_TUNER_HOST_FIND_H
#define COLLET_LAYERS_TUNER_HOST_FIND_H

#include "boot/boot.h"
#include "layers/tuner/costs.h"

#include <stdbool.h>

struct host_found {
    /* A line that another CPU has is slow to overwrite, so slots are written past the caches. */
    bool far;
    bool kernel_copies;      /* The kernel copies payloads faster than slots pass them on. */
    struct host_speed speed; /* Speed of the host. Its line_ns is 0 if it was not measured. */
};

/* Finds the facts of a node. COLLET_CPU_DISTANCE and COLLET_KERNEL_COPIES decide them. What these knobs leave open is measured, which
 * takes at most 3 ms if no other program runs on the node. If no data goes from CPU to CPU, nothing is measured. The CPUs of a host that
 * cannot be measured count as near. Its payloads then go through slots; so do the payloads of a host whose kernel forbids this rank to
 * copy. The facts go to the log. */
struct host_found host_find(const struct config *config, const struct peer_info *peers, int nranks, int node);

/* Keeps the facts in this process. Later communicators on the CPUs of the node, or on any subset of these CPUs, use the same facts. */
void host_keep(const struct peer_info *peers, int nranks, int node, const struct host_found *found);

#endif
