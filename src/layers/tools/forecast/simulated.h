/* SPDX-License-Identifier: Apache-2.0
 *
 * Forecasts that simulate a job: every rank of it, or one host that stands for all if hosts behave alike.
 */
#ifndef COLLET_LAYERS_TOOLS_FORECAST_SIMULATED_H
#define COLLET_LAYERS_TOOLS_FORECAST_SIMULATED_H

#include "layers/tools/forecast/job.h"

/* If every rank is simulated, a step takes longer, because little of its data is in a cache. So only this share of the steps is allowed,
 * and so much memory. */
#define FORECAST_EACH_SHARE 0.025
#define FORECAST_BYTES_MAX 1600e6

/* Number of smaller jobs, each of half as many hosts, from which a job that is too large is predicted. */
#define FORECAST_FEWER 3

/* How a time was computed. */
enum forecast_kind {
    FORECAST_EACH,    /* every rank simulated */
    FORECAST_GROUPED, /* one host stands for all */
    FORECAST_BOUND,   /* like GROUPED, but empty slices are simulated as full ones: the true time is at most this */
    FORECAST_EXTENDED, /* every rank simulated, for three smaller numbers of hosts; time grows with their number, or with log2 of it */
    FORECAST_NONE, /* not computed: too many steps or too much memory */
};

struct forecast {
    struct plan_choice choice; /* its predicted_ns is infinite if the kind is NONE */
    int npeers;                /* maximum number of peers of a rank */
    enum forecast_kind kind;
    struct cost_bounds bounds;
    double latency_ns;              /* −1: not asked for */
    double load[TOPO_MEDIUM_COUNT]; /* bytes on the most loaded link of each kind */
    double use[TOPO_MEDIUM_COUNT];  /* share of the time that the busiest link of each kind is busy */
    double steps; /* NONE: number of steps that a simulation would take; 0: the messages do not fit into slots */
    int fewer_hosts; /* if the kind is NONE because times do not grow regularly: the largest number of hosts that was simulated; else 0 */
    double fewer_ns[FORECAST_FEWER]; /* the times for that number of hosts, for a half and for a quarter of it */
};

/* An algorithm on a job, ready to be simulated. */
struct simulated {
    const struct forecast_job *job;
    struct cost_machine machine; /* the machine of the job. In a large job, ranks are grouped as suits the algorithm */
    struct cost_stage *cost;
};
enum collet_result simulated_open(const struct forecast_job *job, const struct algorithm *algorithm,
                                  struct simulated **simulated_p);
void simulated_close(struct simulated *simulated); /* NULL is fine */

/* The count of a call of so many bytes, in bytes; at least 1. */
uint64_t simulated_count(const struct simulated *simulated, uint64_t bytes);

/* May so many rounds of so many rings be simulated, on so many hosts of the job? */
bool simulated_affords(const struct simulated *simulated, int nhosts, int nrings, double rounds);

/* What is known about a choice without a simulation. Its kind is NONE. */
struct forecast simulated_none(const struct simulated *simulated, const struct plan_choice *choice, uint64_t bytes);

/* Sets up the simulation of a choice. *sim_p is NULL if it would take too many steps; f has their number. */
enum collet_result simulated_set(const struct simulated *simulated, const struct plan_choice *choice, uint64_t bytes,
                                 struct forecast *f, struct sim **sim_p);

/* As forecast_run(). */
enum collet_result simulated_run(const struct simulated *simulated, const struct plan_choice *choice, uint64_t bytes,
                                 bool latency, struct forecast *f);

#endif
