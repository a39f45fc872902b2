/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuner: one list of what may be chosen, and the search through it. Communicators and forecasts use both.
 *
 *      list      algorithms × protocols and chunks × numbers of channels; on GPUs, as many as have room for their blocks
 *      bounds    of each: its busiest link or engine, without a simulation
 *      search    those with the lowest bounds are simulated first; one whose bound says that it cannot win is spared
 *      pick      the least time; of times that hardly differ the one with the fewest connections
 */
#ifndef COLLET_LAYERS_TUNER_TUNER_H
#define COLLET_LAYERS_TUNER_TUNER_H

#include "layers/tuner/cost.h"
#include "layers/tuner/limits_gpu.h"

/* One entry of the list of candidates. */
struct tuner_try {
    struct plan_choice choice; /* its predicted_ns is infinite until it was simulated */
    int npeers;                /* maximum number of peers of a rank */
    double bound_ns;
};

/* A protocol and a chunk: the way of data under any algorithm. */
struct tuner_way {
    enum protocol protocol;
    uint32_t chunk_bytes;
};
#define TUNER_WAYS_MAX (3 * PROTOCOL_COUNT)
int tuner_ways(const struct tuner_limits *limits, struct tuner_way ways[TUNER_WAYS_MAX]);

/* How many channels a call of ranks on GPUs may have that connects each of them with so many others, and takes so many blocks of a
 * rank for each channel: more than the fewest, if slots and blocks find room. */
int tuner_most_channels(const struct tuner_limits *limits, uint32_t nslots, int npeers, int blocks, bool by_network);

/* Does a rank's memory have room for all connections of the algorithm? Their slots do not get shorter than some hundred bytes. Where it has none,
 * only who names the algorithm gets it. */
bool tuner_has_room(const struct tuner_limits *limits, const struct cost_machine *machine,
                    const struct algorithm *algorithm);

/* Lists all candidates of one algorithm for `count` elements of elem_bytes. Returns their number. */
#define TUNER_TRIES_MAX (TUNER_WAYS_MAX * 8)
int tuner_list(const struct tuner_limits *limits, const struct cost_stage *stage, uint64_t count, uint32_t elem_bytes,
               struct tuner_try tries[TUNER_TRIES_MAX]);

/* The questions of the search about an entry. An infinite time means: there is none. */
struct tuner_judge {
    enum collet_result (*bound)(void *context, const struct tuner_try *one, double *ns_p);
    enum collet_result (*hops)(void *context, const struct tuner_try *one,
                               double *ns_p); /* a better bound that takes longer to find; NULL: there is none */
    enum collet_result (*time)(void *context, const struct tuner_try *one, double *ns_p);
    void *context;
};
enum collet_result tuner_search(const struct tuner_judge *judge, struct tuner_try *tries, int n);

/* Returns the index of the best entry that has a time; −1: none has one. */
int tuner_pick(const struct tuner_try *tries, int n);

/* Converts a choice to what a call of this size runs: on host memory, few bytes go over fewer channels. */
struct plan_choice tuner_as_run(const struct tuner_limits *limits, const struct cost_stage *stage,
                                const struct plan_choice *choice, uint64_t count, uint32_t elem_bytes);

/* Predicts the time of one choice. */
enum collet_result tuner_predict(const struct tuner_limits *limits, struct cost_stage *stage,
                                 const struct plan_choice *choice, uint64_t count, uint32_t elem_bytes, double *ns_p);

/* The best choice for `count` elements of elem_bytes; the geometry that plan_get() will make of it is the one that is
 * simulated. Errors: NO_MEMORY; INTERNAL if an algorithm is wrong, with what the verifier says. */
enum collet_result tuner_choose(const struct cost_machine *machine, const struct tuner_limits *limits,
                                enum prog_collective collective, uint64_t count, uint32_t elem_bytes,
                                struct plan_choice *choice);

#endif
