/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of a communicator as a simulation: every rank stands for itself. On host memory it has one engine, its CPU, and
 * shares that with others if its node has more ranks than CPUs; on a GPU each of its workers has a block.
 */
#include "plan/cost.h"

#include "base/err.h"

#include <stdlib.h>

/* Rounds after these cost what the last of them cost. On GPUs a hop takes longer than many a step, and there are more rounds
 * than slots let a producer run ahead. */
#define HOST_ROUNDS 4
#define GPU_ROUNDS 12

static void route_of(const void *context, int channel, int from, int to, struct sim_route *route) {
    const struct cost_machine *machine = context;
    int pair = from * machine->nranks + to;
    (void)channel; /* all alike */
    *route = (struct sim_route){.class = (enum link_class)machine->class[pair]};
    if (machine->route != NULL)
        route->out = machine->route[pair];
}

static enum collet_result add_programs(struct sim *sim, const struct cost_machine *machine, struct prog *const *progs,
                                       const struct cost_call *call) {
    struct sim_lengths lengths = {.geometry = call->geometry, .elem_bytes = call->elem_bytes};
    COLLET_TRY(sim_add_channel(sim, &lengths));
    for (int rank = 0; rank < machine->nranks; rank++)
        COLLET_TRY(sim_add_program(sim, progs[rank]));
    return COLLET_SUCCESS;
}

/* Links as the simulation of one of so many channels sees them. */
struct wires {
    double *gbps, *turns;
};

static enum collet_result wires_create(const struct cost_machine *machine, int nchannels, struct wires *wires) {
    size_t n = (size_t)machine->nlinks;
    wires->gbps = malloc(2 * (n + 1) * sizeof(*wires->gbps));
    if (wires->gbps == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for %d links", machine->nlinks);
    wires->turns = wires->gbps + n;
    for (size_t k = 0; k < n; k++) {
        const struct cost_link *link = &machine->links[k];
        wires->gbps[k] = link->gbps;
        wires->turns[k] = nchannels > link->wires ? (double)nchannels / link->wires : 1;
    }
    return COLLET_SUCCESS;
}

/* No call is faster than its busiest link. */
static enum collet_result heed_links(struct sim *sim, enum protocol protocol, double *ns_p) {
    const struct sim_machine *machine = &sim->machine;
    double *load = malloc(((size_t)machine->nlinks + 1) * sizeof(*load));
    if (load == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the load of %d links", machine->nlinks);
    enum collet_result result = sim_load(sim, protocol, load);
    for (int k = 0; k < machine->nlinks && result == COLLET_SUCCESS; k++) {
        double ns = load[k] * machine->link_turns[k] / machine->link_gbps[k];
        *ns_p = ns > *ns_p ? ns : *ns_p;
    }
    free(load);
    return result;
}

/* Of all channels, at most. */
static int blocks_of(const struct cost_machine *machine, struct prog *const *progs, int nchannels) {
    int most = 0;
    for (int rank = 0; rank < machine->nranks; rank++)
        most = progs[rank]->nworkers > most ? progs[rank]->nworkers : most;
    return most * nchannels;
}

static enum collet_result run(struct sim *sim, const struct cost_machine *machine, struct prog *const *progs,
                              const struct cost_call *call, double *ns_p) {
    COLLET_TRY(add_programs(sim, machine, progs, call));
    if (!machine->gpu)
        return sim_run(sim, call->protocol, HOST_ROUNDS, ns_p);
    COLLET_TRY(sim_run(sim, call->protocol, GPU_ROUNDS, ns_p));
    COLLET_TRY(heed_links(sim, call->protocol, ns_p));
    *ns_p += costs_launch_ns(machine->costs, blocks_of(machine, progs, call->nchannels));
    return COLLET_SUCCESS;
}

enum collet_result cost_simulate(const struct cost_machine *machine, struct prog *const *progs,
                                 const struct cost_call *call, double *ns_p) {
    double crowd[COST_RANKS_MAX];
    struct wires wires = {NULL, NULL};
    COLLET_TRY(wires_create(machine, call->nchannels, &wires));
    for (int rank = 0; rank < machine->nranks; rank++)
        crowd[rank] = (double)machine->ranks_of_node[rank] / machine->cpus;
    struct sim_machine ranks = {.costs = machine->costs,
                                .home = machine->gpu ? LINK_GPU : LINK_MEMORY,
                                .gpu = machine->gpu,
                                .crowd = machine->gpu ? NULL : crowd,
                                .nslots = machine->nslots,
                                .route = route_of,
                                .nlinks = machine->nlinks,
                                .link_gbps = wires.gbps,
                                .link_turns = wires.turns,
                                .context = machine};
    struct sim_cast cast = {.grouping = SIM_EACH, .nhosts = 1, .nlocal = machine->nranks};
    struct sim *sim = NULL;
    enum collet_result result = sim_create(&ranks, &cast, &sim);
    if (result == COLLET_SUCCESS)
        result = run(sim, machine, progs, call, ns_p);
    sim_destroy(sim);
    free(wires.gbps);
    return result;
}
