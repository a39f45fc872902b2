/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuner: tries every allowed combination on the cost model and takes the cheapest.
 */
#ifndef COLLET_PLAN_TUNER_H
#define COLLET_PLAN_TUNER_H

#include "plan/cost.h"
#include "plan/plan.h"

/* What may be chosen, from the configuration. */
struct tuner_limits {
    bool algorithm_allowed[64];            /* by index in algorithms[] */
    bool protocol_allowed[PROTOCOL_COUNT]; /* by enum protocol */
    int nchannels;                         /* the fewest … */
    int most_nchannels;                    /* … and the most that are tried, twice as many from one to the next */
    bool channels_given;                   /* by the configuration */
    int nrails;                            /* so many channels use all adapters */
    uint32_t forced_chunk_bytes;           /* 0: free */
    uint32_t slot_bytes, short_bytes;
};

/* Does the configuration name algorithms and protocols that there are? For values of this process, before it takes those of
 * rank 0. Errors: INVALID_USAGE. */
enum collet_result tuner_check_names(const struct config *config);

/* nrails: how many channels there should be unless the configuration says otherwise. */
enum collet_result tuner_limits_read(const struct config *config, const struct fifo_layout *layout, int nrails,
                                     struct tuner_limits *limits);

/* Ranks on GPUs, of which so many share one: each channel has blocks of its own, so their number is chosen too, unless the
 * configuration has it. */
void tuner_limits_of_gpus(const struct config *config, int ranks_of_a_gpu, struct tuner_limits *limits);

/* How data may travel under any algorithm; the cheapest is chosen, the earlier one on a tie. */
struct tuner_way {
    enum protocol protocol;
    uint32_t chunk_bytes;
};
#define TUNER_WAYS_MAX (3 * PROTOCOL_COUNT)
int tuner_ways(const struct tuner_limits *limits, struct tuner_way ways[TUNER_WAYS_MAX]);

/* The cheapest choice for `count` elements of elem_bytes; the geometry that plan_get() will make of it is the one that is
 * simulated. Errors: NO_MEMORY. */
enum collet_result tuner_choose(const struct cost_machine *machine, const struct tuner_limits *limits,
                                enum prog_collective collective, uint64_t count, uint32_t elem_bytes,
                                struct plan_choice *choice);

/* What the model says of one choice; progs are the programs of all ranks of the machine. */
enum collet_result tuner_predict(const struct cost_machine *machine, struct prog *const *progs,
                                 const struct plan_choice *choice, uint64_t count, uint32_t elem_bytes, double *ns_p);

/* Total and block elements of a call's regions under an algorithm whose WHOLE regions have nblocks slices. */
void plan_extent(enum prog_collective collective, uint64_t count, int nranks, int nblocks, uint64_t *total_elems,
                 uint64_t *block_elems);

/* How many of nchannels a call on host memory, with blocks of block_bytes, is spread over. */
int plan_channels(const struct tuner_limits *limits, int nchannels, uint64_t block_bytes);

/* How many channels of so many connections a rank on a GPU may have: GPUs' memory is for other things. */
uint64_t plan_affordable_channels(int npeers, uint32_t nslots, uint32_t slot_bytes);

/* Whole elements in a chunk of chunk_bytes, ≥ 1. */
uint64_t plan_chunk_elems(uint32_t chunk_bytes, uint32_t elem_bytes);

#endif
