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

/* One candidate. */
struct tuner_try {
    struct plan_choice choice; /* predicted_ns is infinite until the choice is simulated. */
    int npeers;                /* Maximum number of peers of a rank. */
    double bound_ns;
};

/* A protocol and a chunk: how data travels, whatever the algorithm. */
struct tuner_way {
    enum protocol protocol;
    uint32_t chunk_bytes;
};
#define TUNER_WAYS_MAX (3 * PROTOCOL_COUNT)
int tuner_ways(const struct tuner_limits *limits, struct tuner_way ways[TUNER_WAYS_MAX]);

/* The maximum number of channels of a call of ranks on GPUs. Each rank has npeers peers, and each channel takes `blocks`
 * blocks of a rank. Slots and blocks must find room, but the fewest channels are always allowed. */
int tuner_most_channels(const struct tuner_limits *limits, uint32_t nslots, int npeers, int blocks, bool by_network);

/* Has the memory of a rank room for all connections of the algorithm, with slots of at least some hundred bytes? If not, the algorithm
 * is only taken if the user names it. */
bool tuner_has_room(const struct tuner_limits *limits, const struct cost_machine *machine,
                    const struct algorithm *algorithm);

/* Lists all candidates of one algorithm for `count` elements of elem_bytes. Returns their number. */
#define TUNER_TRIES_MAX (TUNER_WAYS_MAX * 8)
int tuner_list(const struct tuner_limits *limits, const struct cost_stage *stage, uint64_t count, uint32_t elem_bytes,
               struct tuner_try tries[TUNER_TRIES_MAX]);

/* The questions of the search about a candidate. An infinite time means that the candidate has no time. */
struct tuner_judge {
    enum collet_result (*bound)(void *context, const struct tuner_try *one, double *ns_p);
    enum collet_result (*hops)(void *context, const struct tuner_try *one,
                               /* Finds a higher bound, which takes longer. NULL: there is no such function. */
                               double *ns_p);
    enum collet_result (*time)(void *context, const struct tuner_try *one, double *ns_p);
    void *context;
};
enum collet_result tuner_search(const struct tuner_judge *judge, struct tuner_try *tries, int n);

/* Returns the index of the best candidate that has a time. −1: none has one. */
int tuner_pick(const struct tuner_try *tries, int n);

/* Converts a choice to what a call of this size runs. On host memory, few bytes go over fewer channels. */
struct plan_choice tuner_as_run(const struct tuner_limits *limits, const struct cost_stage *stage,
                                const struct plan_choice *choice, uint64_t count, uint32_t elem_bytes);

/* Predicts the time of one choice in ns. */
enum collet_result tuner_predict(const struct tuner_limits *limits, struct cost_stage *stage,
                                 const struct plan_choice *choice, uint64_t count, uint32_t elem_bytes, double *ns_p);

/* Finds the best choice for `count` elements of elem_bytes. What is simulated has the geometry that plan_get() will use.
 * Errors: NO_MEMORY; UNSUPPORTED if blocks find no room on a GPU; INVALID_USAGE if knobs leave no algorithm or protocol;
 * INTERNAL if no algorithm fits, or if one is wrong, with what the verifier says. */
enum collet_result tuner_choose(const struct cost_machine *machine, const struct tuner_limits *limits,
                                enum prog_collective collective, uint64_t count, uint32_t elem_bytes,
                                struct plan_choice *choice);

#endif
