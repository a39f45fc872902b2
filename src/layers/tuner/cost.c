/* SPDX-License-Identifier: Apache-2.0
 *
 * On host memory a rank has one engine, its CPU. It shares the CPU with other ranks if its node has more ranks than CPUs. On a GPU
 * each worker of a rank has a block.
 */
#include "layers/tuner/cost.h"

#include "base/memory.h"
#include "kernels/work.h"
#include "plan/extent.h"

#include <stdlib.h>

/* Maximum numbers of simulated rounds. GPUs take more, because a hop on GPUs takes longer than many a step, and a producer
 * can run ahead only as far as it has slots. */
#define HOST_ROUNDS 4
#define GPU_ROUNDS 12

uint32_t cost_rounds(const struct cost_machine *machine) { return machine->gpu ? GPU_ROUNDS : HOST_ROUNDS; }

/* ---- one algorithm ---- */

/* Looks at the programs of all ranks. If blocks are equally long, looks only at the programs of the first host's ranks. */
static enum collet_result stage_look(struct cost_stage *stage) {
    const struct sim_cast *cast = &stage->machine->cast;
    int nlooked = stage->machine->uniform ? cast->nlocal : sim_nplayers(cast);
    for (int rank = 0; rank < nlooked; rank++) {
        struct prog *prog;
        COLLET_TRY(algorithm_build(stage->algorithm, &stage->machine->shapes[0], rank, 0, &prog));
        stage->nslices = prog->nslices;
        stage->longest_run = prog->longest_run;
        stage->blocks += prog_region_blocks(prog, STEP_IN) + prog_region_blocks(prog, STEP_OUT);
        stage->nworkers = prog->nworkers > stage->nworkers ? prog->nworkers : stage->nworkers;
        stage->npeers = prog->npeers > stage->npeers ? prog->npeers : stage->npeers;
        stage->host_steps += prog->nsteps;
        stage->host_peers += prog->npeers;
        stage->host_workers += prog->nworkers;
        for (int k = 0; k < prog->nsteps; k++) {
            stage->too_wide |= stage->machine->gpu && !interp_block_takes(&prog->steps[k]);
            stage->sent += prog->steps[k].send_count;
            stage->lent += prog->steps[k].lends && !prog->steps[k].lends_apart ? prog->steps[k].send_count : 0;
        }
        prog_destroy(prog);
    }
    stage->blocks *= (double)cast->nlocal * cast->nhosts / stage->machine->whole->nnodes / nlooked;
    return COLLET_SUCCESS;
}

enum collet_result cost_stage_open(const struct cost_machine *machine, const struct algorithm *algorithm,
                                   struct cost_stage **stage_p) {
    struct cost_stage *stage;
    COLLET_TRY(memory_get(&stage, 1, sizeof *stage, "no memory to predict %s", algorithm->name));
    *stage = (struct cost_stage){.machine = machine, .algorithm = algorithm};
    enum collet_result result = stage_look(stage);
    if (result == COLLET_SUCCESS)
        *stage_p = stage;
    else
        cost_stage_close(stage);
    return result;
}

void cost_stage_close(struct cost_stage *stage) {
    if (stage == NULL)
        return;
    for (int n = 0; n <= SIM_CHANNELS_MAX; n++)
        sim_destroy(stage->sims[n]);
    free(stage);
}

/* ---- its simulations ---- */

static enum collet_result stage_add_ring(const struct cost_stage *stage, struct sim *sim, int ring) {
    struct sim_lengths lengths = {.uniform = stage->machine->uniform, .part_bytes = 1, .chunk_bytes = 1};
    COLLET_TRY(sim_add_channel(sim, &lengths));
    for (int player = 0; player < sim_nplayers(&stage->machine->cast); player++) {
        struct prog *prog;
        COLLET_TRY(algorithm_build(stage->algorithm, &stage->machine->shapes[ring], player, 0, &prog));
        enum collet_result result = sim_add_program(sim, prog);
        prog_destroy(prog);
        COLLET_TRY(result);
    }
    return COLLET_SUCCESS;
}

static enum collet_result stage_build(struct cost_stage *stage, int nrings) {
    const struct cost_machine *machine = stage->machine;
    struct sim_machine ranks = {.costs = machine->costs,
                                .home = machine->gpu ? LINK_GPU : LINK_MEMORY,
                                .gpu = machine->gpu,
                                .fans = machine->fans,
                                .crowd = machine->crowd,
                                .node = machine->node,
                                .nlinks = machine->net->nlinks,
                                .link_gbps = machine->net->link_gbps,
                                .nslots = machine->nslots,
                                .lent = stage->sent > 0 ? stage->lent / stage->sent : 0,
                                .root_reduces = prog_root_reduces(stage->algorithm->collective),
                                .route = net_route,
                                .context = machine->net};
    enum collet_result result = sim_create(&ranks, &machine->cast, &stage->sims[nrings]);
    for (int ring = 0; ring < nrings && result == COLLET_SUCCESS; ring++)
        result = stage_add_ring(stage, stage->sims[nrings], ring);
    if (result != COLLET_SUCCESS) {
        sim_destroy(stage->sims[nrings]);
        stage->sims[nrings] = NULL;
        return result;
    }
    stage->sims[nrings]->skips = machine->skips;
    return COLLET_SUCCESS;
}

static struct sim_lengths lengths_of(const struct cost_stage *stage, const struct plan_choice *choice, uint64_t count,
                                     uint32_t elem_bytes, int channel) {
    struct work_args args = {.chunk_elems = plan_chunk_elems(choice->chunk_bytes, elem_bytes),
                             .nchannels = (uint32_t)choice->nchannels};
    int nranks = stage->machine->cast.nhosts * stage->machine->cast.nlocal;
    enum prog_collective collective = stage->algorithm->collective;
    if (prog_is_bare(collective))
        count = 1; /* A message without bytes takes as long as one of a byte. */
    plan_extent(collective, count, nranks, stage->nslices, &args);
    return (struct sim_lengths){
        .uniform = stage->machine->uniform,
        .part_bytes = (double)count / stage->nslices * elem_bytes / choice->nchannels,
        .chunk_bytes = (double)args.chunk_elems * elem_bytes,
        .geometry = work_geometry(&args, (uint32_t)channel),
        .elem_bytes = elem_bytes,
    };
}

bool cost_by_switches(const struct cost_stage *stage, const struct plan_choice *choice, uint64_t count,
                      uint32_t elem_bytes) {
    const struct cost_machine *machine = stage->machine;
    if (machine->switched_from == 0 || machine->uniform || machine->costs->switched_share <= 0 ||
        stage->algorithm->order != PROG_SWITCH_ORDER || choice->protocol != PROTOCOL_SIMPLE ||
        (uint32_t)stage->npeers > LOAN_GPU_PEERS)
        return false;
    struct sim_lengths lengths = lengths_of(stage, choice, count, elem_bytes, 0);
    return lengths.part_bytes >= machine->switched_from && lengths.chunk_bytes >= machine->switched_from;
}

/* The share of the buffers' bytes that are in no cache of their node, if calls use the same buffers again and again. */
static double missed_share(const struct cost_stage *stage, uint64_t count, uint32_t elem_bytes) {
    const double cached = stage->machine->costs->host.cache_bytes;
    const struct sim_cast *cast = &stage->machine->cast;
    struct work_args args;
    plan_extent(stage->algorithm->collective, count, cast->nhosts * cast->nlocal, stage->nslices, &args);
    const double used = stage->blocks * (double)args.block_elems * elem_bytes;
    return used > cached ? 1 - cached / used : 0;
}

enum collet_result cost_set(struct cost_stage *stage, const struct plan_choice *choice, uint64_t count,
                            uint32_t elem_bytes, struct sim **sim_p) {
    int nrings = choice->nchannels < stage->machine->nshapes ? choice->nchannels : stage->machine->nshapes;
    if (stage->sims[nrings] == NULL)
        COLLET_TRY(stage_build(stage, nrings));
    struct sim *sim = *sim_p = stage->sims[nrings];
    sim->machine.costs = stage->machine->costs;
    sim->turns = (double)choice->nchannels / nrings;
    sim->missed = missed_share(stage, count, elem_bytes);
    sim->switched = cost_by_switches(stage, choice, count, elem_bytes);
    sim->lent_from = (uint32_t)stage->npeers <= LOAN_GPU_PEERS ? stage->machine->lent_from : 0;
    for (int channel = 0; channel < nrings; channel++) {
        struct sim_lengths lengths = lengths_of(stage, choice, count, elem_bytes, channel);
        sim_set(sim, channel, &lengths);
    }
    return COLLET_SUCCESS;
}

/* ---- what it costs ---- */

static double launch_ns(const struct cost_stage *stage, const struct plan_choice *choice) {
    const struct cost_machine *machine = stage->machine;
    return machine->gpu ? costs_launch_ns(machine->costs, stage->nworkers * choice->nchannels) : 0;
}

static void bound_by_links(const struct sim *sim, const double *load, struct cost_bounds *bounds) {
    for (int link = 0; link < sim->machine.nlinks; link++) {
        double gbps = sim_link_gbps(sim->machine.link_gbps, sim->machine.costs, link);
        double ns = gbps > 0 ? load[link] / gbps : 0;
        if (ns > bounds->link_ns) {
            bounds->link_ns = ns;
            bounds->link = link;
        }
    }
}

enum collet_result cost_bound(const struct cost_stage *stage, struct sim *sim, const struct plan_choice *choice,
                              struct cost_bounds *bounds, double *load) {
    size_t nlinks = (size_t)sim->machine.nlinks;
    SCOPED_FREE double *own = NULL;
    *bounds = (struct cost_bounds){.link = -1, .launch_ns = launch_ns(stage, choice)};
    if (load == NULL)
        COLLET_TRY(memory_get(&own, nlinks, sizeof(*own), "no memory for the load of %zu links", nlinks));
    load = load != NULL ? load : own;
    COLLET_TRY(sim_load(sim, choice->protocol, load));
    bound_by_links(sim, load, bounds);
    return sim_busiest(sim, choice->protocol, &bounds->engine_ns);
}

/* If the simulation found a deadlock, asks the verifier for the reason, and sets the verifier's answer as the error text. */
static enum collet_result explain_wrong(const struct cost_stage *stage, enum collet_result result) {
    const struct cost_machine *machine = stage->machine;
    char why[256];
    if (result != COLLET_ERR_INTERNAL || sim_nplayers(&machine->cast) > COST_RANKS_MAX)
        return result;
    if (prog_check(stage->algorithm, &machine->shapes[0], 0, (int)machine->nslots, false, why, sizeof(why)))
        return result;
    return err_set(COLLET_ERR_INTERNAL, "algorithm %s is wrong: %s", stage->algorithm->name, why);
}

enum collet_result cost_time(const struct cost_stage *stage, struct sim *sim, const struct plan_choice *choice,
                             const struct cost_bounds *bounds, double *ns_p) {
    enum collet_result result = sim_run(sim, choice->protocol, cost_rounds(stage->machine), ns_p);
    if (result != COLLET_SUCCESS)
        return explain_wrong(stage, result);
    *ns_p += bounds->launch_ns;
    *ns_p = *ns_p > cost_least_ns(bounds) ? *ns_p : cost_least_ns(bounds);
    return COLLET_SUCCESS;
}

enum collet_result cost_latency(const struct cost_stage *stage, struct sim *sim, const struct plan_choice *choice,
                                double *ns_p) {
    for (int channel = 0; channel < sim->nchannels; channel++) {
        struct sim_lengths lengths = sim->lengths[channel];
        lengths.geometry.chunk_elems = lengths.geometry.part_elems;
        lengths.geometry.nrounds = 1;
        lengths.chunk_bytes = lengths.part_bytes;
        sim_set(sim, channel, &lengths);
    }
    sim->weightless = true;
    enum collet_result result = sim_run(sim, choice->protocol, 2, ns_p);
    sim->weightless = false;
    *ns_p += launch_ns(stage, choice);
    return result;
}

enum collet_result cost_hops(struct cost_stage *stage, const struct plan_choice *choice, double *ns_p) {
    struct plan_choice alone = *choice;
    double *hops_ns = &stage->hops_ns[choice->protocol];
    struct sim *sim;
    *ns_p = 0;
    if (!stage->machine->uniform || !stage->machine->gpu)
        return COLLET_SUCCESS;
    if (*hops_ns == 0) {
        alone.nchannels = 1;
        COLLET_TRY(cost_set(stage, &alone, choice->chunk_bytes, 1, &sim));
        COLLET_TRY(cost_latency(stage, sim, &alone, hops_ns));
        *hops_ns -= launch_ns(stage, &alone);
    }
    *ns_p = *hops_ns + launch_ns(stage, choice);
    return COLLET_SUCCESS;
}
