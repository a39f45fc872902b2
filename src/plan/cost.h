/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost model: how long a program takes, by running the programs of all ranks in simulated time.
 *
 * Nothing about an algorithm is written here but what its steps say. A step costs its rank's CPU a fixed part, a part per
 * peer and a part per byte and buffer touched; what it publishes reaches the peer α later (Hockney's α–β model: R. Hockney,
 * "The communication challenge for MPP", 1994, with the CPU's share told apart from the wire's as in LogP: Culler et al.,
 * 1993). Slots bound how far a producer may run ahead.
 */
#ifndef COLLET_PLAN_COST_H
#define COLLET_PLAN_COST_H

#include "kernels/geometry.h"
#include "kernels/worker.h"
#include "program/program.h"

enum link_class { LINK_MEMORY, LINK_NET, LINK_CLASS_COUNT }; /* slots shared; slots carried over a wire */

/* The machine as the model sees it; equal on all ranks. Larger communicators are simulated by the first
 * COST_RANKS_MAX or fewer in the order of their shape: the ratios between algorithms change slowly by then. Simulated
 * ranks are numbered in that order. */
#define COST_RANKS_MAX 128

struct cost_machine {
    int nranks;                /* ≤ COST_RANKS_MAX */
    struct prog_shape shape;   /* of these … */
    const struct prog_shape *whole; /* … and of the communicator */
    const uint8_t *link;       /* [a · nranks + b]: enum link_class between two ranks */
    const float *wire_byte_ns; /* [a · nranks + b]: what a byte takes on the network between them; 0: not known */
    const int *ranks_of_node;  /* of each rank: how many ranks its node has … */
    int cpus;                  /* … and how many CPUs every node has */
    uint32_t nslots;
};

struct cost_call {
    enum interp_protocol protocol;
    uint32_t elem_bytes;
    struct geometry geometry; /* of one channel */
};

/* Simulated time from the first step of the first rank to the last step of the last, in ns; progs are those of all
 * ranks. A negative value means that there was no memory to simulate. */
double cost_simulate(const struct cost_machine *machine, struct prog *const *progs, const struct cost_call *call);

#endif
