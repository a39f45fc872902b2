/* SPDX-License-Identifier: Apache-2.0
 *
 * Forecasts: how long a collective would take on a job of equal hosts, with each candidate, and what its time goes into.
 *
 * Candidates are those of the tuner (layers/tuner/tuner.h), machine and times those of the cost model (layers/tuner/cost.h), so that a
 * communicator on such a job chooses and predicts the same, as far as it simulates all of its ranks. Larger jobs need more:
 *
 *      hosts behave alike (symmetry.h)    one host stands for all; what repeats is skipped (steady.h)
 *      they do not                        every rank, as long as that is affordable
 *      that is not affordable             every rank of N, N/2 and N/4 hosts, and how time grew (fewer.h)
 *
 * For larger jobs, all blocks count as equally long, and all rings cross every host forwards.
 *
 * Three bounds explain a time. The time is no less than each of them, and near to the largest one:
 *   latency   the time if bytes cost nothing: hops, one after another
 *   link      the bytes of the most loaded link ÷ its bandwidth
 *   engine    all steps of the busiest block (or CPU), without waiting
 */
#ifndef COLLET_LAYERS_TOOLS_FORECAST_FORECAST_H
#define COLLET_LAYERS_TOOLS_FORECAST_FORECAST_H

#include "layers/tools/forecast/simulated.h"

/* Everything that forecasts of one algorithm need, for calls of any size. */
struct forecast_stage {
    struct simulated *whole;
    /* Smaller jobs (fewer.h), if not every rank can be simulated. NULL: they are not needed. */
    struct fewer_hosts *fewer;
};
enum collet_result forecast_stage_open(const struct forecast_job *job, const struct algorithm *algorithm,
                                       struct forecast_stage **stage_p);
void forecast_stage_close(struct forecast_stage *stage); /* `stage` may be NULL. */

/* Predicts a choice. bytes: those of the larger one of the two buffers, as in the size column of the perf programs. latency:
 * also compute latency_ns. */
enum collet_result forecast_run(struct forecast_stage *stage, const struct plan_choice *choice, uint64_t bytes,
                                bool latency, struct forecast *forecast);

/* Finds the best of all candidates of the stage, without its latency. The kind is NONE if no candidate has a time. */
enum collet_result forecast_best(struct forecast_stage *stage, uint64_t bytes, struct forecast *best);
/* Returns the index of the forecast that the tuner would pick; −1: none has a time. n is at most FORECASTS_MAX. */
#define FORECASTS_MAX 512
int forecast_pick(const struct forecast *forecasts, int n);

#endif
