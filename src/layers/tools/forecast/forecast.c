/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/forecast/forecast.h"

#include "base/memory.h"
#include "layers/tools/forecast/fewer.h"

#include <math.h>
#include <stdlib.h>

static enum collet_result open_stage(struct forecast_stage *stage, const struct forecast_job *job,
                                     const struct algorithm *algorithm) {
    COLLET_TRY(simulated_open(job, algorithm, &stage->whole));
    const struct cost_machine *machine = &stage->whole->machine;
    const bool each = machine->cast.grouping == SIM_EACH;
    if (each && !simulated_affords(stage->whole, job->nhosts, machine->nshapes, cost_rounds(machine)))
        return fewer_open(stage->whole, &stage->fewer);
    return COLLET_SUCCESS;
}

enum collet_result forecast_stage_open(const struct forecast_job *job, const struct algorithm *algorithm,
                                       struct forecast_stage **stage_p) {
    struct forecast_stage *stage;
    COLLET_TRY(memory_get(&stage, 1, sizeof *stage, "no memory for a forecast"));
    enum collet_result result = open_stage(stage, job, algorithm);
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
    simulated_close(stage->whole);
    free(stage);
}

enum collet_result forecast_run(struct forecast_stage *stage, const struct plan_choice *choice, uint64_t bytes,
                                bool latency, struct forecast *f) {
    return stage->fewer != NULL ? fewer_run(stage->fewer, choice, bytes, latency, f)
                                : simulated_run(stage->whole, choice, bytes, latency, f);
}

/* ---- the best ---- */

struct quest {
    struct forecast_stage *stage;
    uint64_t bytes;
    struct forecast best;
};

/* The job that is simulated in place of the whole one. Its times are not longer than those of the whole job. */
static const struct simulated *simulated_below(const struct quest *quest) {
    return quest->stage->fewer != NULL ? fewer_largest(quest->stage->fewer) : quest->stage->whole;
}

static enum collet_result quest_bound(void *context, const struct tuner_try *one, double *ns_p) {
    const struct quest *quest = context;
    const struct simulated *below = simulated_below(quest);
    struct forecast f;
    struct sim *sim;
    COLLET_TRY(simulated_set(below, &one->choice, quest->bytes, &f, &sim));
    if (sim != NULL)
        COLLET_TRY(cost_bound(below->cost, sim, &one->choice, &f.bounds, NULL));
    *ns_p = cost_least_ns(&f.bounds);
    return COLLET_SUCCESS;
}

static enum collet_result quest_hops(void *context, const struct tuner_try *one, double *ns_p) {
    return cost_hops(simulated_below(context)->cost, &one->choice, ns_p);
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
    const struct simulated *whole = stage->whole;
    struct tuner_try tries[TUNER_TRIES_MAX];
    struct quest quest = {.stage = stage, .bytes = bytes};
    struct tuner_judge judge = {quest_bound, quest_hops, quest_time, &quest};
    int n = tuner_list(&whole->job->limits, whole->cost, simulated_count(whole, bytes), 1, tries);
    if (n == 0) {
        *best = (struct forecast){.choice = {.algorithm = whole->cost->algorithm, .predicted_ns = INFINITY},
                                  .kind = FORECAST_NONE};
        return COLLET_SUCCESS;
    }
    COLLET_TRY(tuner_search(&judge, tries, n));
    int pick = tuner_pick(tries, n);
    const struct plan_choice *a = &quest.best.choice, *b = pick < 0 ? a : &tries[pick].choice;
    if (a->protocol != b->protocol || a->nchannels != b->nchannels || a->chunk_bytes != b->chunk_bytes)
        /* This candidate and the best one of the quest take equally long. */
        return forecast_run(stage, b, bytes, false, best);
    *best = quest.best;
    return COLLET_SUCCESS;
}

int forecast_pick(const struct forecast *forecasts, int n) {
    struct tuner_try tries[FORECASTS_MAX];
    for (int k = 0; k < n; k++)
        tries[k] = (struct tuner_try){.choice = forecasts[k].choice, .npeers = forecasts[k].npeers};
    return tuner_pick(tries, n);
}
