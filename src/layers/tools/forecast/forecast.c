/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/forecast/forecast.h"

#include "base/memory.h"
#include "layers/tools/forecast/fewer.h"
#include "layers/tools/forecast/steady.h"
#include "layers/tools/forecast/symmetry.h"

#include <math.h>
#include <stdlib.h>

/* ---- the stage ---- */

/* A connection takes a name, its slots and its part of the index. */
static double bytes_of_host(const struct forecast_stage *stage) {
    const struct cost_stage *cost = stage->cost;
    double peer_bytes = sizeof(struct sim_conn) + stage->machine.nslots * sizeof(int64_t) + 2 * sizeof(int);
    return cost->host_peers * peer_bytes +
           cost->host_workers * (double)(2 * sizeof(struct sim_worker) + sizeof(struct sim_run));
}

/* May so many rounds of so many rings be simulated? */
static bool is_affordable(const struct forecast_stage *stage, int nrings, double rounds) {
    bool each = stage->machine.cast.grouping == SIM_EACH;
    double hosts = each ? stage->job->nhosts : 1, share = each ? FORECAST_EACH_SHARE : 1;
    return !stage->machine.uniform ||
           (hosts * stage->cost->host_steps * nrings * rounds <= share * stage->job->steps_max &&
            hosts * bytes_of_host(stage) * nrings <= FORECAST_BYTES_MAX);
}

static enum collet_result open_stage(struct forecast_stage *stage, const struct algorithm *algorithm) {
    const struct forecast_job *job = stage->job;
    stage->machine.skips = stage->machine.uniform ? &steady_skipper : NULL;
    if (stage->machine.uniform)
        COLLET_TRY(symmetry_find(algorithm, &job->shapes[0], job->nhosts, &stage->machine.cast.grouping));
    COLLET_TRY(cost_stage_open(&stage->machine, algorithm, &stage->cost));
    bool each = stage->machine.cast.grouping == SIM_EACH;
    if (each && !is_affordable(stage, stage->machine.nshapes, cost_rounds(&stage->machine)))
        return fewer_open(stage, &stage->fewer);
    return COLLET_SUCCESS;
}

enum collet_result forecast_stage_open(const struct forecast_job *job, const struct algorithm *algorithm,
                                       struct forecast_stage **stage_p) {
    struct forecast_stage *stage;
    COLLET_TRY(memory_get(&stage, 1, sizeof *stage, "no memory for a forecast"));
    stage->job = job;
    stage->machine = job->machine;
    enum collet_result result = open_stage(stage, algorithm);
    if (result == COLLET_SUCCESS)
        *stage_p = stage;
    else
        forecast_stage_close(stage);
    return result;
}

void forecast_stage_close(struct forecast_stage *stage) {
    if (stage == NULL)
        return;
    fewer_close(stage->fewer);
    cost_stage_close(stage->cost);
    free(stage);
}

/* ---- one forecast ---- */

static bool is_slices(const struct forecast_stage *stage) { return prog_is_sliced(stage->cost->algorithm->collective); }

uint64_t forecast_count(const struct forecast_stage *stage, uint64_t bytes) {
    uint64_t per_rank = bytes / (uint64_t)stage->job->nranks;
    return is_slices(stage) ? bytes : per_rank > 0 ? per_rank : 1;
}

/* Slices are whole multiples of a few elements: of a short buffer the last ones are empty. */
static bool has_empty_slices(const struct forecast_stage *stage, uint64_t bytes) {
    uint64_t nslices = (uint64_t)stage->cost->nslices, elems = bytes / stage->job->elem_bytes;
    return is_slices(stage) && nslices > 1 && geometry_share(elems, nslices) * (nslices - 1) >= elems;
}

static enum forecast_kind kind_of(const struct forecast_stage *stage, uint64_t bytes) {
    if (!stage->machine.uniform)
        return FORECAST_EACH;
    return has_empty_slices(stage, bytes)             ? FORECAST_BOUND
           : stage->machine.cast.grouping == SIM_EACH ? FORECAST_EACH
                                                      : FORECAST_GROUPED;
}

/* The simulation of a choice; NULL in *sim_p: too many steps, f says how many. */
static enum collet_result set_choice(struct forecast_stage *stage, const struct plan_choice *choice, uint64_t bytes,
                                     struct forecast *f, struct sim **sim_p) {
    uint64_t count = forecast_count(stage, bytes);
    int nrings = choice->nchannels < stage->machine.nshapes ? choice->nchannels : stage->machine.nshapes;
    double block = (double)count / stage->cost->nslices;
    double rounds = ceil(block / choice->nchannels / choice->chunk_bytes);
    rounds = fmin(fmax(rounds, 1), cost_rounds(&stage->machine));
    double hosts = stage->machine.cast.grouping == SIM_EACH ? stage->job->nhosts : 1;
    *f = (struct forecast){.choice = *choice, .npeers = stage->cost->npeers, .latency_ns = -1, .bounds.link = -1};
    f->kind = FORECAST_NONE;
    f->choice.predicted_ns = INFINITY;
    f->steps = hosts * stage->cost->host_steps * nrings * rounds;
    *sim_p = NULL;
    if (stage->fewer != NULL || !is_affordable(stage, nrings, rounds))
        return COLLET_SUCCESS;
    f->kind = kind_of(stage, bytes);
    struct plan_choice as_run = tuner_as_run(&stage->job->limits, stage->cost, choice, count, 1);
    uint64_t elems = count / stage->job->elem_bytes;
    return cost_set(stage->cost, &as_run, elems > 0 ? elems : 1, stage->job->elem_bytes, sim_p);
}

/* Bytes and time of the busiest link of each kind. */
static void sum_up_links(const struct net *net, const struct cost_table *costs, const double *load,
                         struct forecast *f) {
    for (int link = 0; link < net->nlinks; link++) {
        enum topo_medium medium = net_link_medium(net, link);
        f->load[medium] = fmax(f->load[medium], load[link]);
        double gbps = sim_link_gbps(net->link_gbps, costs, link);
        f->use[medium] = fmax(f->use[medium], gbps > 0 ? load[link] / gbps : 0);
    }
}

static enum collet_result find_bounds(const struct forecast_stage *stage, struct sim *sim, struct forecast *f) {
    const struct net *net = stage->machine.net;
    SCOPED_FREE double *load = NULL;
    COLLET_TRY(
        memory_get(&load, (size_t)net->nlinks + 1, sizeof(*load), "no memory for the load of %d links", net->nlinks));
    COLLET_TRY(cost_bound(stage->cost, sim, &f->choice, &f->bounds, load));
    sum_up_links(net, stage->machine.costs, load, f);
    return COLLET_SUCCESS;
}

enum collet_result forecast_run(struct forecast_stage *stage, const struct plan_choice *choice, uint64_t bytes,
                                bool latency, struct forecast *f) {
    struct sim *sim;
    COLLET_TRY(set_choice(stage, choice, bytes, f, &sim));
    if (stage->fewer != NULL)
        return fewer_run(stage->fewer, choice, bytes, latency, f);
    if (sim == NULL)
        return COLLET_SUCCESS;
    struct plan_choice as_run = tuner_as_run(&stage->job->limits, stage->cost, choice, forecast_count(stage, bytes), 1);
    COLLET_TRY(find_bounds(stage, sim, f));
    COLLET_TRY(cost_time(stage->cost, sim, &as_run, &f->bounds, &f->choice.predicted_ns));
    for (int medium = 0; medium < TOPO_MEDIUM_COUNT; medium++)
        f->use[medium] /= f->choice.predicted_ns;
    return latency ? cost_latency(stage->cost, sim, &as_run, &f->latency_ns) : COLLET_SUCCESS;
}

/* ---- the best ---- */

struct quest {
    struct forecast_stage *stage;
    uint64_t bytes;
    struct forecast best;
};

/* The stage whose times are no more than those of the quest's. */
static struct forecast_stage *stage_below(const struct quest *quest) {
    return quest->stage->fewer != NULL ? fewer_largest(quest->stage->fewer) : quest->stage;
}

static enum collet_result quest_bound(void *context, const struct tuner_try *one, double *ns_p) {
    const struct quest *quest = context;
    struct forecast_stage *stage = stage_below(quest);
    struct forecast f;
    struct sim *sim;
    COLLET_TRY(set_choice(stage, &one->choice, quest->bytes, &f, &sim));
    if (sim != NULL)
        COLLET_TRY(cost_bound(stage->cost, sim, &one->choice, &f.bounds, NULL));
    *ns_p = cost_least_ns(&f.bounds);
    return COLLET_SUCCESS;
}

static enum collet_result quest_hops(void *context, const struct tuner_try *one, double *ns_p) {
    return cost_hops(stage_below(context)->cost, &one->choice, ns_p);
}

static enum collet_result quest_time(void *context, const struct tuner_try *one, double *ns_p) {
    struct quest *quest = context;
    struct forecast f;
    COLLET_TRY(forecast_run(quest->stage, &one->choice, quest->bytes, false, &f));
    *ns_p = f.choice.predicted_ns;
    if (quest->best.choice.algorithm == NULL || *ns_p < quest->best.choice.predicted_ns)
        quest->best = f;
    return COLLET_SUCCESS;
}

enum collet_result forecast_best(struct forecast_stage *stage, uint64_t bytes, struct forecast *best) {
    struct tuner_try tries[TUNER_TRIES_MAX];
    struct quest quest = {.stage = stage, .bytes = bytes};
    struct tuner_judge judge = {quest_bound, quest_hops, quest_time, &quest};
    int n = tuner_list(&stage->job->limits, stage->cost, forecast_count(stage, bytes), 1, tries);
    if (n == 0) {
        *best = (struct forecast){.choice = {.algorithm = stage->cost->algorithm, .predicted_ns = INFINITY},
                                  .kind = FORECAST_NONE};
        return COLLET_SUCCESS;
    }
    COLLET_TRY(tuner_search(&judge, tries, n));
    int pick = tuner_pick(tries, n);
    const struct plan_choice *a = &quest.best.choice, *b = pick < 0 ? a : &tries[pick].choice;
    if (a->protocol != b->protocol || a->nchannels != b->nchannels || a->chunk_bytes != b->chunk_bytes)
        return forecast_run(stage, b, bytes, false, best); /* two that take equally long */
    *best = quest.best;
    return COLLET_SUCCESS;
}

int forecast_pick(const struct forecast *forecasts, int n) {
    struct tuner_try tries[FORECASTS_MAX];
    for (int k = 0; k < n; k++)
        tries[k] = (struct tuner_try){.choice = forecasts[k].choice, .npeers = forecasts[k].npeers};
    return tuner_pick(tries, n);
}
