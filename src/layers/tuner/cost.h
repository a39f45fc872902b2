/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost model: how long an algorithm takes on a machine, by simulating its programs. Communicators and forecasts ask
 * the same one.
 *
 * Nothing about an algorithm is written here but what its steps say: costs.h has what a step costs, net.h which links a
 * message crosses, sim.h how they are put together. A machine has rings, and channel c runs along ring c mod their number.
 * Each ring is simulated once, with one channel, which stands for all channels of the ring: these take turns.
 *
 *      machine ──▶ stage: one algorithm, built once ──▶ one choice of protocol, channels and chunk ──▶ bounds, time
 */
#ifndef COLLET_LAYERS_TUNER_COST_H
#define COLLET_LAYERS_TUNER_COST_H

#include "plan/choice.h"
#include "layers/tuner/net.h"
#include "layers/tuner/sim.h"

/* Maximum number of simulated ranks. Of larger communicators a part is simulated: there the ratios between algorithms change slowly.
 * Simulated ranks are numbered in the order of the first ring. */
#define COST_RANKS_MAX 128

/* The machine as the model sees it; equal on all ranks. */
struct cost_machine {
    const struct cost_table *costs;
    bool gpu;             /* ranks are on GPUs: an engine is a block. Else it is a CPU */
    struct sim_cast cast; /* all ranks, and which of them are simulated */
    bool uniform;         /* all blocks count as equally long: so more ranks than COST_RANKS_MAX can be simulated */
    int nshapes;
    const struct prog_shape *shapes; /* [nshapes]: the simulated ranks along each ring */
    const struct prog_shape *whole;  /* all ranks of the communicator */
    const struct net *net;
    const double *crowd; /* [rank]: ranks per CPU of its node; NULL: each has a CPU */
    const int *node;     /* [rank]: ascending; NULL: hosts of the cast */
    uint32_t nslots;
    uint32_t switched_from; /* GPUs: minimum bytes of a slice that switches sum, if buffers allow it; 0: they do not */
    uint32_t lent_from;     /* GPUs: minimum bytes of a payload that is lent, if buffers allow it; 0: none is */
    const struct sim_skipper *skips; /* NULL: none */
};

/* One algorithm on a machine. */
struct cost_stage {
    const struct cost_machine *machine;
    const struct algorithm *algorithm;
    int nslices;          /* of all ranks alike */
    int longest_run;      /* number of blocks in its longest message */
    int nworkers, npeers; /* maximum numbers of a rank */
    bool too_wide;        /* GPUs: a block has no room for some step */
    double sent, lent;    /* messages per round of all ranks that were looked at; those that are lent */
    double host_steps, host_peers, host_workers; /* sums over all ranks that were looked at */
    struct sim *sims[SIM_CHANNELS_MAX + 1];      /* [n]: the simulation of n rings; NULL: not made yet */
    double hops_ns[PROTOCOL_COUNT];              /* what cost_hops() has computed; 0: nothing yet */
};

enum collet_result cost_stage_open(const struct cost_machine *machine, const struct algorithm *algorithm,
                                   struct cost_stage **stage_p);
void cost_stage_close(struct cost_stage *stage); /* NULL is fine */

/* Do switches make the sums of this choice? If not, blocks do, as in two-shot. */
bool cost_by_switches(const struct cost_stage *stage, const struct plan_choice *choice, uint64_t count,
                      uint32_t elem_bytes);

/* Lower bounds of the time of a call. */
struct cost_bounds {
    double link_ns;   /* the bytes of the most loaded link ÷ its bandwidth */
    int link;         /* that link; −1: none carries anything */
    double engine_ns; /* all steps of the busiest engine, without waiting */
    double launch_ns; /* on GPUs: the launch, which is added to the others */
};
static inline double cost_least_ns(const struct cost_bounds *bounds) {
    double ns = bounds->link_ns > bounds->engine_ns ? bounds->link_ns : bounds->engine_ns;
    return ns + bounds->launch_ns;
}

/* Sets the lengths of a choice for `count` elements of elem_bytes. *sim_p is its simulation, which the stage owns. */
enum collet_result cost_set(struct cost_stage *stage, const struct plan_choice *choice, uint64_t count,
                            uint32_t elem_bytes, struct sim **sim_p);
/* Finds the bounds of the choice that was set. load: [links of the net], gets the bytes on each link; NULL: not wanted. */
enum collet_result cost_bound(const struct cost_stage *stage, struct sim *sim, const struct plan_choice *choice,
                              struct cost_bounds *bounds, double *load);
/* The time from the first step of the first rank to the last step of the last one, in ns. On GPUs the launch is part of it. */
enum collet_result cost_time(const struct cost_stage *stage, struct sim *sim, const struct plan_choice *choice,
                             const struct cost_bounds *bounds, double *ns_p);
/* The time if bytes cost nothing, in one round: the hops, one after the other. */
enum collet_result cost_latency(const struct cost_stage *stage, struct sim *sim, const struct plan_choice *choice,
                                double *ns_p);
/* No call of the choice's protocol is faster, however it is cut: the hops of the first ring. That needs a simulation, but only
 * one per protocol, where blocks are equally long and workers have engines of their own; elsewhere it is 0. */
enum collet_result cost_hops(struct cost_stage *stage, const struct plan_choice *choice, double *ns_p);

/* Maximum number of simulated rounds. Each further round costs as much as the last of them. */
uint32_t cost_rounds(const struct cost_machine *machine);

#endif
