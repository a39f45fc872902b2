/* SPDX-License-Identifier: Apache-2.0
 *
 * Forecasts: how long a collective would take on a job of equal hosts, with each candidate, and what its time goes into.
 *
 * A candidate is algorithm × protocol × channels × chunk. Its programs run in simulated time (sim.h) over the links of the
 * graph (net.h). Where hosts behave alike (symmetry.h) one stands for all. Else every rank is simulated, as long as that is
 * affordable; and if it is not, every rank of N, N/2 and N/4 hosts, with the largest N that is. If the time then grew
 * equally from each to the next, as of a tree, it goes on to do so with every doubling; if it grew twice as much, as of a
 * chain, it grows with the number of hosts. If neither holds, there is no forecast, and it says so.
 *
 * Three bounds explain a time. It is no less than each of them, and near to the largest:
 *   latency   the same with bytes that cost nothing: hops, one after another
 *   link      the bytes of the most loaded link ÷ its bandwidth
 *   engine    all steps of the busiest block (or CPU), without waiting
 */
#ifndef COLLET_FORECAST_FORECAST_H
#define COLLET_FORECAST_FORECAST_H

#include "forecast/net.h"

/* Steps that one forecast may simulate, and memory for them. Where every rank is simulated steps are dearer, because
 * little of what they touch is in a cache: FORECAST_EACH_SHARE of the steps. */
#define FORECAST_STEPS_MAX 60000000.0
#define FORECAST_EACH_SHARE 0.025
#define FORECAST_BYTES_MAX 1600e6

/* For more ranks than these one number of channels is tried for a size; for fewer so many ranks × channels. */
#define FORECAST_MANY_RANKS 4096

/* How many smaller jobs, each of half as many hosts, foretell one that is too large. */
#define FORECAST_FEWER 3

/* What the programs of an algorithm show, whatever the number of channels. */
struct forecast_look {
    const struct algorithm *algorithm; /* NULL: none was looked at */
    enum sim_grouping grouping;
    int nblocks;
    int nworkers, npeers; /* of a rank of host 0, at most */
    double steps, bytes;  /* of one round of all simulated ranks of a channel, and of memory, roughly */
};

struct forecast_job {
    struct topo_rings *rings;
    struct net *net;
    int nhosts, nranks;
    const struct cost_table *costs;
    double steps_max;
    struct forecast_look look; /* the last one: to look takes as long as to simulate */
};

struct forecast_candidate {
    const struct algorithm *algorithm;
    enum protocol protocol;
    int nchannels;
    uint32_t chunk_bytes;
};

/* How it was computed. */
enum forecast_kind {
    FORECAST_EACH,    /* every rank simulated */
    FORECAST_GROUPED, /* one host stands for all */
    FORECAST_BOUND,   /* the same, and slices are taken to be full that are empty: the truth is no more */
    FORECAST_EXTENDED, /* every rank of fewer hosts simulated, three times: T grows with log2 of their number or with it */
    FORECAST_SLOWER, /* not simulated: a bound is beyond the limit already */
    FORECAST_NONE,   /* not computed: too many steps or too much memory */
};

struct forecast {
    struct forecast_candidate candidate;
    enum forecast_kind kind;
    double ns;
    double latency_ns, link_ns, engine_ns; /* the bounds; latency −1: not computed */
    int link;                              /* the most loaded one; −1: none carries anything */
    double load[TOPO_WIRE_COUNT];          /* bytes on the most loaded link of each kind … */
    double use[TOPO_WIRE_COUNT];           /* … and the share of the time that it is busy, of the busiest */
    double steps;                          /* NONE: how many would have to be simulated */
    int fewer_hosts;                       /* NONE, because times of so many hosts, half and a quarter of them … */
    double fewer_ns[FORECAST_FEWER];       /* … which are these, do not grow regularly; else 0 */
};

/* topo: a finished graph of one host, or of two or more equal ones where the job has several; nhosts is the number of
 * hosts of the job. per_host as in topo_place_ranks(). topo must outlive the job. Errors: INVALID_ARGUMENT if hosts
 * differ. */
enum collet_result forecast_open(const struct topo *topo, int nhosts, int per_host, struct forecast_job **job_p);
void forecast_close(struct forecast_job *job);

/* Everything that one algorithm needs for one number of channels, for any size. */
struct forecast_stage;
enum collet_result forecast_stage(struct forecast_job *job, const struct algorithm *algorithm, int nchannels,
                                  struct forecast_stage **stage_p);
void forecast_unstage(struct forecast_stage *stage);

/* What is asked of one forecast. */
struct forecast_wish {
    uint64_t bytes; /* as the size column of the perf programs: of the larger of the two buffers */
    enum protocol protocol;
    uint32_t chunk_bytes;
    bool latency;    /* latency_ns as well */
    double limit_ns; /* what takes longer need not be known; 0: no limit */
};
enum collet_result forecast_run(struct forecast_stage *stage, const struct forecast_wish *wish,
                                struct forecast *forecast);

/* The candidates of an algorithm: numbers of channels, and in each stage, protocols with chunks. */
#define FORECAST_OPTIONS 8
int forecast_channels(const struct forecast_job *job, int channels[FORECAST_OPTIONS]);
/* Fills in protocol and chunk_bytes of wishes that make sense: a channel's part of a block must be long enough to be cut
 * off, and longer chunks must make a difference. */
int forecast_wishes(const struct forecast_stage *stage, uint64_t bytes, struct forecast_wish wishes[FORECAST_OPTIONS]);

/* Tries them, those first that look best by their bounds, and spares what cannot be faster: *best, NONE of no
 * algorithm in the beginning, is replaced by what is faster. Without `latency`. */
enum collet_result forecast_improve(struct forecast_stage *stage, uint64_t bytes, struct forecast *best);
/* It has a time. */
bool forecast_is_known(const struct forecast *forecast);

/* Bus bandwidth ÷ algorithm bandwidth, as the perf programs have it. */
double forecast_bus_factor(enum prog_collective collective, int nranks);

#endif
