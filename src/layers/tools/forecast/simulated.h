/* SPDX-License-Identifier: Apache-2.0
 *
 * Forecasts that simulate a job: every rank of it, or one host that stands for all if hosts behave alike.
 */
#ifndef COLLET_LAYERS_TOOLS_FORECAST_SIMULATED_H
#define COLLET_LAYERS_TOOLS_FORECAST_SIMULATED_H

#include "layers/tools/forecast/job.h"

/* Limits if every rank is simulated. A step then takes longer, because little of its data is in a cache.
 * FORECAST_EACH_SHARE: the share of the usual number of steps that is allowed. FORECAST_BYTES_MAX: the memory that is
 * allowed. */
#define FORECAST_EACH_SHARE 0.025
#define FORECAST_BYTES_MAX 1600e6

/* Number of smaller jobs, each of half as many hosts, from which a job that is too large is predicted. */
#define FORECAST_FEWER 3

/* The way in which a time was computed. */
enum forecast_kind {
    FORECAST_EACH,    /* Every rank is simulated. */
    FORECAST_GROUPED, /* One host is simulated and stands for all. */
    /* As FORECAST_GROUPED, but empty slices are simulated as full ones. The true time is at most this. */
    FORECAST_BOUND,
    /* Every rank is simulated, for three smaller numbers of hosts. The time grows with the number of hosts, or with its
     * log2. */
    FORECAST_EXTENDED,
    FORECAST_NONE, /* There is no time: it would take too many steps or too much memory. */
};

struct forecast {
    struct plan_choice choice; /* predicted_ns is infinite if the kind is NONE. */
    int npeers;                /* Maximum number of peers of a rank. */
    enum forecast_kind kind;
    struct cost_bounds bounds;
    double latency_ns;              /* −1: it was not asked for. */
    double load[TOPO_MEDIUM_COUNT]; /* [medium]: bytes on the most loaded link. */
    double use[TOPO_MEDIUM_COUNT];  /* [medium]: share of the time that the busiest link is busy. */
    double steps; /* NONE: number of steps that a simulation would take. 0: the messages do not fit into slots. */
    /* NONE because times do not grow regularly: the largest number of hosts that was simulated. Otherwise 0. */
    int fewer_hosts;
    double fewer_ns[FORECAST_FEWER]; /* The times for fewer_hosts hosts, for a half and for a quarter of them. */
};

/* An algorithm on a job, ready to be simulated. */
struct simulated {
    const struct forecast_job *job;
    /* The machine of the job. In a large job, ranks are grouped as the algorithm allows. */
    struct cost_machine machine;
    struct cost_stage *cost;
};
enum collet_result simulated_open(const struct forecast_job *job, const struct algorithm *algorithm,
                                  struct simulated **simulated_p);
void simulated_close(struct simulated *simulated); /* `simulated` may be NULL. */

/* The count of a call of this number of bytes, if an element has one byte. At least 1. */
uint64_t simulated_count(const struct simulated *simulated, uint64_t bytes);

/* Is it affordable to simulate this number of rounds of nrings rings, on nhosts hosts of the job? */
bool simulated_affords(const struct simulated *simulated, int nhosts, int nrings, double rounds);

/* Returns the part of a forecast that is known without a simulation. Its kind is NONE. */
struct forecast simulated_none(const struct simulated *simulated, const struct plan_choice *choice, uint64_t bytes);

/* Sets up the simulation of a choice. *sim_p is NULL if the simulation is not affordable; f->steps is then its number of
 * steps. */
enum collet_result simulated_set(const struct simulated *simulated, const struct plan_choice *choice, uint64_t bytes,
                                 struct forecast *f, struct sim **sim_p);

/* Works as forecast_run(), but simulates the job itself. */
enum collet_result simulated_run(const struct simulated *simulated, const struct plan_choice *choice, uint64_t bytes,
                                 bool latency, struct forecast *f);

#endif
