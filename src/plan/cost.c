/* SPDX-License-Identifier: Apache-2.0
 *
 * Host ranks of a communicator as a simulation: every rank stands for itself, has one engine, its CPU, and shares that with
 * others if its node has more ranks than CPUs. Ranks of a node share what its network adapter carries, each way, where the
 * speed of that is known.
 */
#include "plan/cost.h"

#include "base/err.h"
#include "plan/sim.h"

/* Rounds after these cost what the last of them cost. */
#define SIMULATED_ROUNDS 4

/* Every node has two links: 2·node out of it, and one more into it, which its ranks share. */
struct wires {
    const struct cost_machine *machine;
    int link[2 * COST_RANKS_MAX];
    double gbps[2 * COST_RANKS_MAX];
};

static void wires_init(struct wires *wires, const struct cost_machine *machine) {
    wires->machine = machine;
    for (int rank = 0; rank < machine->nranks; rank++)
        for (int k = 0; k < 2; k++) {
            int link = 2 * machine->node_of[rank] + k;
            wires->link[link] = link;
            wires->gbps[link] = machine->node_gbps[machine->node_of[rank]];
        }
}

static void route_of(const void *context, int channel, int from, int to, struct sim_route *route) {
    const struct wires *wires = context;
    const struct cost_machine *machine = wires->machine;
    int out = 2 * machine->node_of[from], in = 2 * machine->node_of[to] + 1;
    (void)channel; /* all alike */
    *route = (struct sim_route){.class = (enum link_class)machine->link[from * machine->nranks + to]};
    if (machine->node_of[from] == machine->node_of[to])
        return;
    if (wires->gbps[out] > 0)
        route->out = (struct sim_links){&wires->link[out], 1};
    if (wires->gbps[in] > 0)
        route->in = (struct sim_links){&wires->link[in], 1};
}

static enum collet_result add_programs(struct sim *sim, const struct cost_machine *machine, struct prog *const *progs,
                                       const struct cost_call *call) {
    struct sim_lengths lengths = {.geometry = call->geometry, .elem_bytes = call->elem_bytes};
    COLLET_TRY(sim_add_channel(sim, &lengths));
    for (int rank = 0; rank < machine->nranks; rank++)
        COLLET_TRY(sim_add_program(sim, progs[rank]));
    return COLLET_SUCCESS;
}

enum collet_result cost_simulate(const struct cost_machine *machine, struct prog *const *progs,
                                 const struct cost_call *call, double *ns_p) {
    double crowd[COST_RANKS_MAX];
    struct wires wires = {0};
    wires_init(&wires, machine);
    for (int rank = 0; rank < machine->nranks; rank++)
        crowd[rank] = (double)machine->ranks_of_node[rank] / machine->cpus;
    struct sim_machine host = {.costs = machine->costs,
                               .home = LINK_MEMORY,
                               .crowd = crowd,
                               .nslots = machine->nslots,
                               .route = route_of,
                               .nlinks = 2 * machine->shape.nnodes,
                               .link_gbps = wires.gbps,
                               .context = &wires};
    struct sim_cast cast = {.grouping = SIM_EACH, .nhosts = 1, .nlocal = machine->nranks};
    struct sim *sim;
    COLLET_TRY(sim_create(&host, &cast, &sim));
    enum collet_result result = add_programs(sim, machine, progs, call);
    if (result == COLLET_SUCCESS)
        result = sim_run(sim, call->protocol, SIMULATED_ROUNDS, ns_p);
    sim_destroy(sim);
    return result;
}
