/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of a communicator as a simulation: every rank stands for itself. On host memory it has one engine, its CPU, and
 * shares that with others if its node has more ranks than CPUs; on a GPU each of its workers has a block.
 */
#include "plan/cost.h"

#include "base/err.h"
#include "plan/sim.h"

/* Rounds after these cost what the last of them cost. On GPUs a hop takes longer than many a step, and there are more rounds
 * than slots let a producer run ahead. */
#define HOST_ROUNDS 4
#define GPU_ROUNDS 12

/* Ends of links of a rank, each way: the first two its own, the third shared with its node. What a class of links crosses
 * stands side by side. */
enum port { PORT_NVLINK, PORT_PCI, PORT_NET, PORT_COUNT };
static const struct {
    int first, count;
} ports_of[LINK_CLASS_COUNT] = {
    [LINK_NET] = {PORT_NET, 1},      [LINK_GPU_NVLINK] = {PORT_NVLINK, 1}, [LINK_GPU_PCI] = {PORT_PCI, 1},
    [LINK_GPU_HOST] = {PORT_PCI, 1}, [LINK_GPU_NET] = {PORT_PCI, 2},
};

enum way { WAY_OUT, WAY_IN, WAY_COUNT };
#define LINKS_MAX (COST_RANKS_MAX * WAY_COUNT * PORT_COUNT)

struct wires {
    const struct cost_machine *machine;
    int link[COST_RANKS_MAX][WAY_COUNT][PORT_COUNT];
    double gbps[LINKS_MAX]; /* that one channel has; 0: not known */
};

static void wires_init(struct wires *wires, const struct cost_machine *machine, int nchannels) {
    double rail_share = nchannels > machine->rails ? (double)nchannels / machine->rails : 1;
    wires->machine = machine;
    for (int rank = 0; rank < machine->nranks; rank++)
        for (int way = 0; way < WAY_COUNT; way++) {
            int node = machine->node_of[rank], *link = wires->link[rank][way];
            link[PORT_NVLINK] = 2 * (2 * rank + way);
            link[PORT_PCI] = 2 * (2 * rank + way) + 1;
            link[PORT_NET] = 2 * (2 * machine->nranks + node) + way;
            wires->gbps[link[PORT_NET]] = machine->node_gbps[node] / rail_share;
            if (machine->gpus == NULL)
                continue;
            wires->gbps[link[PORT_NVLINK]] = machine->gpus[rank].nvlink_gbps / nchannels;
            wires->gbps[link[PORT_PCI]] = machine->gpus[rank].pci_gbps / nchannels;
        }
}

/* Those of which the speed is known. What stays inside a node does not come to its adapters, whatever carries it. */
static struct sim_links links_of(const struct wires *wires, int rank, enum way way, enum link_class class, bool inside) {
    const int *link = wires->link[rank][way];
    const int *first = &link[ports_of[class].first], *end = first + ports_of[class].count;
    if (inside && end == link + PORT_COUNT)
        end--;
    while (first < end && wires->gbps[*first] == 0)
        first++;
    while (first < end && wires->gbps[end[-1]] == 0)
        end--;
    return (struct sim_links){first, (int)(end - first)};
}

static void route_of(const void *context, int channel, int from, int to, struct sim_route *route) {
    const struct wires *wires = context;
    const struct cost_machine *machine = wires->machine;
    enum link_class class = (enum link_class)machine->link[from * machine->nranks + to];
    (void)channel; /* all alike */
    bool inside = machine->node_of[from] == machine->node_of[to];
    *route = (struct sim_route){.class = class,
                                .out = links_of(wires, from, WAY_OUT, class, inside),
                                .in = links_of(wires, to, WAY_IN, class, inside)};
}

static enum collet_result add_programs(struct sim *sim, const struct cost_machine *machine, struct prog *const *progs,
                                       const struct cost_call *call) {
    struct sim_lengths lengths = {.geometry = call->geometry, .elem_bytes = call->elem_bytes};
    COLLET_TRY(sim_add_channel(sim, &lengths));
    for (int rank = 0; rank < machine->nranks; rank++)
        COLLET_TRY(sim_add_program(sim, progs[rank]));
    return COLLET_SUCCESS;
}

/* No call is faster than its busiest link. */
static enum collet_result heed_links(const struct sim *sim, enum interp_protocol protocol, double *ns_p) {
    double load[LINKS_MAX];
    COLLET_TRY(sim_load(sim, protocol, load));
    for (int link = 0; link < sim->machine.nlinks; link++)
        if (load[link] > *ns_p * sim->machine.link_gbps[link])
            *ns_p = load[link] / sim->machine.link_gbps[link];
    return COLLET_SUCCESS;
}

/* Of all channels, at most. */
static int blocks_of(const struct cost_machine *machine, struct prog *const *progs, int nchannels) {
    int most = 0;
    for (int rank = 0; rank < machine->nranks; rank++)
        most = progs[rank]->nworkers > most ? progs[rank]->nworkers : most;
    return most * nchannels;
}

enum collet_result cost_simulate(const struct cost_machine *machine, struct prog *const *progs,
                                 const struct cost_call *call, double *ns_p) {
    double crowd[COST_RANKS_MAX];
    struct wires wires = {0};
    wires_init(&wires, machine, call->nchannels);
    for (int rank = 0; rank < machine->nranks; rank++)
        crowd[rank] = (double)machine->ranks_of_node[rank] / machine->cpus;
    struct sim_machine ranks = {.costs = machine->costs,
                                .home = machine->gpus != NULL ? LINK_GPU : LINK_MEMORY,
                                .gpu = machine->gpus != NULL,
                                .crowd = machine->gpus != NULL ? NULL : crowd,
                                .nslots = machine->nslots,
                                .route = route_of,
                                .nlinks = 2 * (2 * machine->nranks + machine->shape.nnodes),
                                .link_gbps = wires.gbps,
                                .context = &wires};
    struct sim_cast cast = {.grouping = SIM_EACH, .nhosts = 1, .nlocal = machine->nranks};
    struct sim *sim;
    COLLET_TRY(sim_create(&ranks, &cast, &sim));
    enum collet_result result = add_programs(sim, machine, progs, call);
    if (result == COLLET_SUCCESS)
        result = sim_run(sim, call->protocol, machine->gpus != NULL ? GPU_ROUNDS : HOST_ROUNDS, ns_p);
    if (result == COLLET_SUCCESS && machine->gpus != NULL)
        result = heed_links(sim, call->protocol, ns_p);
    if (result == COLLET_SUCCESS && machine->gpus != NULL)
        *ns_p += costs_launch_ns(machine->costs, blocks_of(machine, progs, call->nchannels));
    sim_destroy(sim);
    return result;
}
