/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost model of the tuner: how long a program takes on the ranks of a communicator, by simulating all of them.
 *
 * Nothing about an algorithm is written here but what its steps say: costs.h has what a step costs, sim.h how they are
 * put together. One channel is simulated, with its share of the links; model.h says which links there are.
 */
#ifndef COLLET_PLAN_COST_H
#define COLLET_PLAN_COST_H

#include "plan/sim.h"

/* The machine as the model sees it; equal on all ranks. Larger communicators are simulated by the first
 * COST_RANKS_MAX or fewer in the order of their shape: the ratios between algorithms change slowly by then. Simulated
 * ranks are numbered in that order. */
#define COST_RANKS_MAX 128

struct cost_link {
    double gbps; /* of each of its wires */
    int wires;   /* so many channels have one to themselves, more share them */
};

struct cost_machine {
    const struct cost_table *costs;
    bool gpu;                       /* ranks are on GPUs: engines are blocks, else CPUs */
    int nranks;                     /* ≤ COST_RANKS_MAX */
    struct prog_shape shape;        /* of these … */
    const struct prog_shape *whole; /* … and of the communicator */
    const uint8_t *class;           /* [a · nranks + b]: enum link_class between two ranks … */
    const struct sim_links *route;  /* … and which links a message crosses; NULL: none that is known */
    const struct cost_link *links;
    int nlinks;
    const int *ranks_of_node; /* of each rank: how many ranks its node has … */
    int cpus;                 /* … and how many CPUs every node has */
    uint32_t nslots;
};

struct cost_call {
    enum protocol protocol;
    uint32_t elem_bytes;
    struct geometry geometry; /* of one channel … */
    int nchannels;            /* … of so many */
};

/* Simulated time from the first step of the first rank to the last step of the last, in ns, on GPUs with the launch; progs
 * are those of all ranks. Errors: NO_MEMORY. */
enum collet_result cost_simulate(const struct cost_machine *machine, struct prog *const *progs,
                                 const struct cost_call *call, double *ns_p);

#endif
