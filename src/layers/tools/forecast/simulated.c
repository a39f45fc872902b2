/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/forecast/simulated.h"

#include "base/memory.h"
#include "layers/tools/forecast/steady.h"
#include "layers/tools/forecast/symmetry.h"

#include <math.h>
#include <stdlib.h>

/* ---- what it takes ---- */

/* Memory for the ranks of one host in a simulation. Each connection takes a struct, its slots and its share of the index. */
static double bytes_of_host(const struct simulated *simulated) {
    const struct cost_stage *cost = simulated->cost;
    double peer_bytes = sizeof(struct sim_conn) + simulated->machine.nslots * sizeof(int64_t) + 2 * sizeof(int);
    return cost->host_peers * peer_bytes +
           cost->host_workers * (double)(2 * sizeof(struct sim_worker) + sizeof(struct sim_run));
}

bool simulated_affords(const struct simulated *simulated, int nhosts, int nrings, double rounds) {
    const bool each = simulated->machine.cast.grouping == SIM_EACH;
    const double hosts = each ? nhosts : 1, share = each ? FORECAST_EACH_SHARE : 1;
    return !simulated->machine.uniform ||
           (hosts * simulated->cost->host_steps * nrings * rounds <= share * simulated->job->steps_max &&
            hosts * bytes_of_host(simulated) * nrings <= FORECAST_BYTES_MAX);
}

/* ---- life ---- */

static enum collet_result open_parts(struct simulated *simulated, const struct algorithm *algorithm) {
    const struct forecast_job *job = simulated->job;
    simulated->machine.skips = simulated->machine.uniform ? &steady_skipper : NULL;
    if (simulated->machine.uniform)
        COLLET_TRY(symmetry_find(algorithm, &job->shapes[0], job->nhosts, &simulated->machine.cast.grouping));
    return cost_stage_open(&simulated->machine, algorithm, &simulated->cost);
}

enum collet_result simulated_open(const struct forecast_job *job, const struct algorithm *algorithm,
                                  struct simulated **simulated_p) {
    struct simulated *simulated;
    COLLET_TRY(memory_get(&simulated, 1, sizeof *simulated, "no memory for a forecast"));
    simulated->job = job;
    simulated->machine = job->machine;
    enum collet_result result = open_parts(simulated, algorithm);
    if (result == COLLET_SUCCESS)
        *simulated_p = simulated;
    else
        simulated_close(simulated);
    return result;
}

void simulated_close(struct simulated *simulated) {
    if (simulated == NULL)
        return;
    cost_stage_close(simulated->cost);
    free(simulated);
}

/* ---- one forecast ---- */

static bool is_slices(const struct simulated *simulated) {
    return prog_is_sliced(simulated->cost->algorithm->collective);
}

uint64_t simulated_count(const struct simulated *simulated, uint64_t bytes) {
    uint64_t per_rank = bytes / (uint64_t)simulated->job->nranks;
    return is_slices(simulated) ? bytes : per_rank > 0 ? per_rank : 1;
}

/* Are the last slices of a short buffer empty? Slices are whole multiples of a few elements. */
static bool has_empty_slices(const struct simulated *simulated, uint64_t bytes) {
    uint64_t nslices = (uint64_t)simulated->cost->nslices, elems = bytes / simulated->job->elem_bytes;
    return is_slices(simulated) && nslices > 1 && geometry_share(elems, nslices) * (nslices - 1) >= elems;
}

static enum forecast_kind kind_of(const struct simulated *simulated, uint64_t bytes) {
    if (!simulated->machine.uniform)
        return FORECAST_EACH;
    return has_empty_slices(simulated, bytes)             ? FORECAST_BOUND
           : simulated->machine.cast.grouping == SIM_EACH ? FORECAST_EACH
                                                          : FORECAST_GROUPED;
}

/* rings_of(): number of rings with which a choice is simulated. rounds_of(): number of rounds. */
static int rings_of(const struct simulated *simulated, const struct plan_choice *choice) {
    return choice->nchannels < simulated->machine.nshapes ? choice->nchannels : simulated->machine.nshapes;
}
static double rounds_of(const struct simulated *simulated, const struct plan_choice *choice, uint64_t count) {
    const double block = (double)count / simulated->cost->nslices;
    const double rounds = ceil(block / choice->nchannels / choice->chunk_bytes);
    return fmin(fmax(rounds, 1), cost_rounds(&simulated->machine));
}

struct forecast simulated_none(const struct simulated *simulated, const struct plan_choice *choice, uint64_t bytes) {
    const struct cost_stage *cost = simulated->cost;
    const double hosts = simulated->machine.cast.grouping == SIM_EACH ? simulated->job->nhosts : 1;
    const double rounds = rounds_of(simulated, choice, simulated_count(simulated, bytes));
    struct forecast f = {.choice = *choice, .kind = FORECAST_NONE, .npeers = cost->npeers, .latency_ns = -1};
    f.bounds.link = -1;
    f.choice.predicted_ns = INFINITY;
    f.steps = hosts * cost->host_steps * rings_of(simulated, choice) * rounds;
    return f;
}

enum collet_result simulated_set(const struct simulated *simulated, const struct plan_choice *choice, uint64_t bytes,
                                 struct forecast *f, struct sim **sim_p) {
    const struct forecast_job *job = simulated->job;
    const uint64_t count = simulated_count(simulated, bytes), elems = count / job->elem_bytes;
    *f = simulated_none(simulated, choice, bytes);
    *sim_p = NULL;
    if (!simulated_affords(simulated, job->nhosts, rings_of(simulated, choice), rounds_of(simulated, choice, count)))
        return COLLET_SUCCESS;
    f->kind = kind_of(simulated, bytes);
    struct plan_choice as_run = tuner_as_run(&job->limits, simulated->cost, choice, count, 1);
    return cost_set(simulated->cost, &as_run, elems > 0 ? elems : 1, job->elem_bytes, sim_p);
}

/* Finds the bytes and the time of the busiest link of each kind. */
static void sum_up_links(const struct net *net, const struct cost_table *costs, const double *load,
                         struct forecast *f) {
    for (int link = 0; link < net->nlinks; link++) {
        enum topo_medium medium = net_link_medium(net, link);
        f->load[medium] = fmax(f->load[medium], load[link]);
        double gbps = sim_link_gbps(net->link_gbps, costs, link);
        f->use[medium] = fmax(f->use[medium], gbps > 0 ? load[link] / gbps : 0);
    }
}

static enum collet_result find_bounds(const struct simulated *simulated, struct sim *sim, struct forecast *f) {
    const struct net *net = simulated->machine.net;
    SCOPED_FREE double *load = NULL;
    COLLET_TRY(
        memory_get(&load, (size_t)net->nlinks + 1, sizeof(*load), "no memory for the load of %d links", net->nlinks));
    COLLET_TRY(cost_bound(simulated->cost, sim, &f->choice, &f->bounds, load));
    sum_up_links(net, simulated->machine.costs, load, f);
    return COLLET_SUCCESS;
}

enum collet_result simulated_run(const struct simulated *simulated, const struct plan_choice *choice, uint64_t bytes,
                                 bool latency, struct forecast *f) {
    const struct forecast_job *job = simulated->job;
    struct sim *sim;
    COLLET_TRY(simulated_set(simulated, choice, bytes, f, &sim));
    if (sim == NULL)
        return COLLET_SUCCESS;
    struct plan_choice as_run =
        tuner_as_run(&job->limits, simulated->cost, choice, simulated_count(simulated, bytes), 1);
    COLLET_TRY(find_bounds(simulated, sim, f));
    COLLET_TRY(cost_time(simulated->cost, sim, &as_run, &f->bounds, &f->choice.predicted_ns));
    for (int medium = 0; medium < TOPO_MEDIUM_COUNT; medium++)
        f->use[medium] /= f->choice.predicted_ns;
    return latency ? cost_latency(simulated->cost, sim, &as_run, &f->latency_ns) : COLLET_SUCCESS;
}
