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
 * In these, blocks are taken to be equally long, and rings to cross every host forwards.
 *
 * Three bounds explain a time. It is no less than each of them, and near to the largest:
 *   latency   the same with bytes that cost nothing: hops, one after another
 *   link      the bytes of the most loaded link ÷ its bandwidth
 *   engine    all steps of the busiest block (or CPU), without waiting
 */
#ifndef COLLET_LAYERS_TOOLS_FORECAST_FORECAST_H
#define COLLET_LAYERS_TOOLS_FORECAST_FORECAST_H

#include "base/config_read.h"
#include "layers/tuner/tuner.h"

/* Steps that one forecast may simulate, and memory for them. Where every rank is simulated steps are dearer, because
 * little of what they touch is in a cache: FORECAST_EACH_SHARE of the steps. */
#define FORECAST_STEPS_MAX 60000000.0
#define FORECAST_EACH_SHARE 0.025
#define FORECAST_BYTES_MAX 1600e6

/* How many smaller jobs, each of half as many hosts, predict a job that is too large. */
#define FORECAST_FEWER 3

struct forecast_job {
    struct config config;
    struct topo_rings *rings;
    struct net *net;
    struct prog_shape *shapes; /* along each ring */
    double *crowd;             /* NULL: nobody shares a CPU, as far as is known */
    struct tuner_limits limits;
    struct cost_table costs;     /* of the GPUs' generation */
    struct cost_machine machine; /* of all ranks */
    int nhosts, nlocal, nranks;
    uint32_t elem_bytes; /* of the calls; choices are made in bytes, whatever their type */
    double steps_max;
};

/* topo: a finished graph of one host, or of two or more equal ones where the job has several; nhosts is the number of
 * hosts of the job. per_host as in topo_place_ranks(). Configuration is read as communicators do. topo must outlive the job.
 * Errors: INVALID_ARGUMENT if hosts differ, those of config_read() and tuner_limits_read(). */
enum collet_result forecast_open(const struct topo *topo, int nhosts, int per_host, struct forecast_job **job_p);
void forecast_close(struct forecast_job *job);

/* How a time was computed. */
enum forecast_kind {
    FORECAST_EACH,    /* every rank simulated */
    FORECAST_GROUPED, /* one host stands for all */
    FORECAST_BOUND,   /* the same, and slices are taken to be full that are empty: the truth is no more */
    FORECAST_EXTENDED, /* every rank of fewer hosts simulated, three times: time grows with log2 of their number or with it */
    FORECAST_NONE, /* not computed: too many steps or too much memory */
};

struct forecast {
    struct plan_choice choice; /* its predicted_ns is infinite if the kind is NONE */
    int npeers;                /* that a rank has, at most */
    enum forecast_kind kind;
    struct cost_bounds bounds;
    double latency_ns;              /* −1: not asked for */
    double load[TOPO_MEDIUM_COUNT]; /* bytes on the most loaded link of each kind */
    double use[TOPO_MEDIUM_COUNT];  /* share of the time that the busiest link of each kind is busy */
    double steps;                   /* NONE: how many would have to be simulated; 0: no slot holds its messages */
    int fewer_hosts; /* NONE, because times of fewer hosts do not grow regularly: how many, at most; else 0 */
    double fewer_ns[FORECAST_FEWER]; /* those times, of so many hosts, a half and a quarter of them */
};

/* Everything that forecasts of one algorithm need, for any size. */
struct forecast_stage {
    const struct forecast_job *job;
    struct cost_machine machine; /* that of the job; a large one's ranks grouped as suits the algorithm */
    struct cost_stage *cost;
    struct fewer_hosts *fewer; /* where every rank is too many: the same on fewer hosts (fewer.h); else NULL */
};
enum collet_result forecast_stage_open(const struct forecast_job *job, const struct algorithm *algorithm,
                                       struct forecast_stage **stage_p);
void forecast_stage_close(struct forecast_stage *stage); /* NULL is fine */

/* The count of a call, in bytes; at least 1. */
uint64_t forecast_count(const struct forecast_stage *stage, uint64_t bytes);

/* bytes: as the size column of the perf programs: of the larger of the two buffers. */
enum collet_result forecast_run(struct forecast_stage *stage, const struct plan_choice *choice, uint64_t bytes,
                                bool latency, struct forecast *forecast);

/* The best of all candidates of the stage, without latency; of kind NONE if none has a time. */
enum collet_result forecast_best(struct forecast_stage *stage, uint64_t bytes, struct forecast *best);
/* The one that the tuner would pick; −1: none has a time. n is at most FORECASTS_MAX. */
#define FORECASTS_MAX 512
int forecast_pick(const struct forecast *forecasts, int n);

#endif
