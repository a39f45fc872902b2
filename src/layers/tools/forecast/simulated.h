/* SPDX-License-Identifier: Apache-2.0
 *
 * Forecasts that simulate a job: every rank of it, or one host that stands for all if hosts behave alike.
 */
#ifndef COLLET_LAYERS_TOOLS_FORECAST_SIMULATED_H
#define COLLET_LAYERS_TOOLS_FORECAST_SIMULATED_H

#include "layers/tools/forecast/job.h"

/* If every rank is simulated, steps are dearer, because little of what they touch is in a cache: this share of the steps is allowed. And the
 * memory for them. */
#define FORECAST_EACH_SHARE 0.025
#define FORECAST_BYTES_MAX 1600e6

/* How many smaller jobs, each of half as many hosts, predict a job that is too large. */
#define FORECAST_FEWER 3

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

/* An algorithm on a job, ready to be simulated. */
struct simulated {
    const struct forecast_job *job;
    struct cost_machine machine; /* that of the job; a large one's ranks grouped as suits the algorithm */
    struct cost_stage *cost;
};
enum collet_result simulated_open(const struct forecast_job *job, const struct algorithm *algorithm,
                                  struct simulated **simulated_p);
void simulated_close(struct simulated *simulated); /* NULL is fine */

/* The count of a call, in bytes; at least 1. */
uint64_t simulated_count(const struct simulated *simulated, uint64_t bytes);

/* May so many rounds of so many rings be simulated, on so many hosts of the job? */
bool simulated_affords(const struct simulated *simulated, int nhosts, int nrings, double rounds);

/* What is known of a choice without a simulation. */
struct forecast simulated_none(const struct simulated *simulated, const struct plan_choice *choice, uint64_t bytes);

/* The simulation of a choice, set up; NULL in *sim_p: too many steps, f says how many. */
enum collet_result simulated_set(const struct simulated *simulated, const struct plan_choice *choice, uint64_t bytes,
                                 struct forecast *f, struct sim **sim_p);

/* As forecast_run(). */
enum collet_result simulated_run(const struct simulated *simulated, const struct plan_choice *choice, uint64_t bytes,
                                 bool latency, struct forecast *f);

#endif
