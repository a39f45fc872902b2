/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost model of the tuner: how long a program takes on the ranks of a communicator, by simulating all of them.
 *
 * Nothing about an algorithm is written here but what its steps say: costs.h has what a step costs, sim.h how they are
 * put together. One channel is simulated, with its share of the links:
 *
 *      rank 0 ══NVLink══▶ other GPUs of the node       each GPU shares what its NVLinks carry, and what its PCI link does,
 *             ══PCI════▶ ──NET──▶ other nodes          each node what its network adapters do, among all channels
 *
 * What links between host ranks of a node share is in their class. Nothing else than these ends of links binds.
 */
#ifndef COLLET_PLAN_COST_H
#define COLLET_PLAN_COST_H

#include "kernels/geometry.h"
#include "kernels/worker.h"
#include "plan/costs.h"
#include "program/program.h"

/* The machine as the model sees it; equal on all ranks. Larger communicators are simulated by the first
 * COST_RANKS_MAX or fewer in the order of their shape: the ratios between algorithms change slowly by then. Simulated
 * ranks are numbered in that order. */
#define COST_RANKS_MAX 128

/* What the links of a rank's GPU carry together, each way, in GB/s; 0: not known. */
struct cost_gpu {
    double nvlink_gbps, pci_gbps;
};

struct cost_machine {
    const struct cost_table *costs;
    const struct cost_gpu *gpus; /* of each rank; NULL: on host memory */
    int nranks;                     /* ≤ COST_RANKS_MAX */
    struct prog_shape shape;        /* of these … */
    const struct prog_shape *whole; /* … and of the communicator */
    const uint8_t *link;            /* [a · nranks + b]: enum link_class between two ranks */
    const int *node_of;             /* of each rank: its node, 0 … shape.nnodes − 1 */
    const double *node_gbps;        /* of each node: what a network adapter of it carries, each way; 0: not known */
    int rails;                      /* so many channels have an adapter to themselves, more share them; ≥ 1 */
    const int *ranks_of_node;       /* of each rank: how many ranks its node has … */
    int cpus;                       /* … and how many CPUs every node has */
    uint32_t nslots;
};

struct cost_call {
    enum interp_protocol protocol;
    uint32_t elem_bytes;
    struct geometry geometry; /* of one channel … */
    int nchannels;            /* … of so many */
};

/* Simulated time from the first step of the first rank to the last step of the last, in ns, on GPUs with the launch; progs
 * are those of all ranks. Errors: NO_MEMORY. */
enum collet_result cost_simulate(const struct cost_machine *machine, struct prog *const *progs,
                                 const struct cost_call *call, double *ns_p);

#endif
