/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost model: how long an algorithm takes on a machine, by simulating its programs. Communicators and forecasts use this code.
 *
 * The model knows of an algorithm only what its steps say: costs.h says what a step costs, net.h which links a message crosses, and sim.h
 * how a call's time follows from them. A machine has rings, and channel c runs along ring c mod their number. Each ring is simulated once,
 * with one channel. This channel stands for all channels of the ring, which take turns.
 *
 *      machine ──▶ stage: one algorithm, built once ──▶ one choice of protocol, channels and chunk ──▶ bounds, time
 */
#ifndef COLLET_LAYERS_TUNER_COST_H
#define COLLET_LAYERS_TUNER_COST_H

#include "plan/choice.h"
#include "layers/tuner/net.h"
#include "layers/tuner/sim.h"

/* Maximum number of simulated ranks. Of a larger communicator, only the first ranks along the first ring are simulated, in this order:
 * the ratios between algorithms change slowly with the number of ranks. */
#define COST_RANKS_MAX 128

/* The machine as the model sees it. It is equal on all ranks. */
struct cost_machine {
    const struct cost_table *costs;
    bool gpu; /* Ranks are on GPUs, and an engine is a block. False: an engine is a CPU. */
    /* All ranks are on one host and use fans: a message to all others is written once (fifo/fan.h). */
    bool fans;
    struct sim_cast cast; /* All ranks, and which of them are simulated. */
    /* All blocks count as equally long, so that more ranks than COST_RANKS_MAX can be simulated. */
    bool uniform;
    int nshapes;
    const struct prog_shape *shapes; /* [nshapes]: the simulated ranks along each ring. */
    const struct prog_shape *whole;  /* All ranks of the communicator. */
    const struct net *net;
    const double *crowd; /* [rank]: ranks per CPU of its node. NULL: each rank has a CPU. */
    const int *node;     /* [rank]: number of its node, ascending. NULL: nodes are the hosts of the cast. */
    uint32_t nslots;
    /* GPUs: minimum bytes of a slice that switches sum, if buffers allow it. 0: switches do not sum. */
    uint32_t switched_from;
    /* GPUs: minimum bytes of a payload that is lent, if buffers allow it. 0: nothing is lent. */
    uint32_t lent_from;
    /* Skips or watches steps of simulations. NULL: all steps are simulated, and nobody watches. */
    const struct sim_skipper *skips;
};

/* One algorithm on a machine. */
struct cost_stage {
    const struct cost_machine *machine;
    const struct algorithm *algorithm;
    int nslices;          /* Number of slices into which the algorithm cuts a buffer, equal on all ranks. */
    int longest_run;      /* Number of blocks in the algorithm's longest message. */
    double blocks;        /* Number of blocks in IN and OUT of all ranks of a node. */
    int nworkers, npeers; /* Maximum number of workers of a rank; maximum number of peers of a rank. */
    bool too_wide;        /* GPUs: a block cannot do some step, because the step has too many operands or places. */
    /* Messages in a round, and how many of them are lent: sums over all ranks that were looked at. */
    double sent, lent;
    double host_steps, host_peers, host_workers; /* Sums over all ranks that were looked at. */
    struct sim *sims[SIM_CHANNELS_MAX + 1];      /* [n]: the simulation of n rings. NULL: not made yet. */
    /* [protocol]: the result of cost_hops() without the launch. 0: not computed yet. */
    double hops_ns[PROTOCOL_COUNT];
};

enum collet_result cost_stage_open(const struct cost_machine *machine, const struct algorithm *algorithm,
                                   struct cost_stage **stage_p);
void cost_stage_close(struct cost_stage *stage); /* `stage` may be NULL. */

/* Do switches make the sums of this choice? If not, blocks make them, as in two-shot. */
bool cost_by_switches(const struct cost_stage *stage, const struct plan_choice *choice, uint64_t count,
                      uint32_t elem_bytes);

/* Lower bounds of the time of a call. */
struct cost_bounds {
    double link_ns;   /* Time of the most loaded link: its bytes divided by its bandwidth. */
    int link;         /* Number of that link. −1: no link carries anything. */
    double engine_ns; /* Time of all steps of the busiest engine, if no step waits. */
    double launch_ns; /* On GPUs: time of the launch, which is added to the other bounds. */
};
static inline double cost_least_ns(const struct cost_bounds *bounds) {
    double ns = bounds->link_ns > bounds->engine_ns ? bounds->link_ns : bounds->engine_ns;
    return ns + bounds->launch_ns;
}

/* Sets the lengths of a choice for `count` elements of elem_bytes. *sim_p is the simulation of the choice; the stage owns
 * it. */
enum collet_result cost_set(struct cost_stage *stage, const struct plan_choice *choice, uint64_t count,
                            uint32_t elem_bytes, struct sim **sim_p);
/* Finds the bounds of the choice that was set. load[links of the net] gets the bytes on each link. NULL: the caller does not
 * want them. */
enum collet_result cost_bound(const struct cost_stage *stage, struct sim *sim, const struct plan_choice *choice,
                              struct cost_bounds *bounds, double *load);
/* The time from the first step of the first rank to the last step of the last rank, in ns. On GPUs the launch is part of it. */
enum collet_result cost_time(const struct cost_stage *stage, struct sim *sim, const struct plan_choice *choice,
                             const struct cost_bounds *bounds, double *ns_p);
/* The time in ns if bytes cost nothing and there is one round: only the hops remain, one after the other. */
enum collet_result cost_latency(const struct cost_stage *stage, struct sim *sim, const struct plan_choice *choice,
                                double *ns_p);
/* A lower bound of the time of every call with this protocol, whatever its bytes, chunk and channels: the time of the hops of the first
 * ring. One simulation per protocol finds the bound. *ns_p is 0 if blocks differ in length, or if ranks are on CPUs. */
enum collet_result cost_hops(struct cost_stage *stage, const struct plan_choice *choice, double *ns_p);

/* Maximum number of simulated rounds. Each further round of a call is assumed to cost as much as the last simulated ones. */
uint32_t cost_rounds(const struct cost_machine *machine);

#endif
