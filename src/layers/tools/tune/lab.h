/* SPDX-License-Identifier: Apache-2.0
 *
 * The lab: ranks on this machine that measure every candidate of the tuner at every size, one candidate after the other.
 *
 *      rank 0      │ probe │ candidate A │ probe │ candidate B │ probe │ …  one round; and again, and again
 *      rank 1 … n  │ sleep │ candidate A │ sleep │ candidate B │ sleep │ …
 *
 * Each candidate has communicators of its own in the same processes, created with COLLET_ALGO, COLLET_PROTO and COLLET_CHUNKSIZE set.
 * There is one for each class of distance between CPUs (COLLET_CPU_DISTANCE), and the one that fits at the moment is measured. A
 * probe is the round trip of a cache line between the CPUs of the first two ranks. A sample belongs to the class (near, far) on which
 * the probes before and after it agree. If they disagree, because virtual CPUs have moved, the sample is dropped and taken again. The
 * same is done if the ranks did not have their CPUs to themselves.
 *
 * Memory is faster in one minute than in the next. So two candidates are compared round by round (lab_compare()): a change that is
 * slower than a round affects both alike.
 */
#ifndef COLLET_LAYERS_TOOLS_TUNE_LAB_H
#define COLLET_LAYERS_TOOLS_TUNE_LAB_H

#include "layers/tuner/model.h"
#include "layers/tuner/tuner.h"
#include "layers/tools/tune/budget.h"

#define LAB_CANDIDATES_MAX 192
#define LAB_SIZES_MAX 32
#define LAB_ROUNDS_MAX 64
#define LAB_RANKS_MAX 16

enum lab_class { LAB_NEAR, LAB_FAR, LAB_CLASSES };
extern const char *const lab_class_names[LAB_CLASSES]; /* The values of COLLET_CPU_DISTANCE. */

/* Samples of one candidate at one size, by round. */
struct lab_cell {
    float us[LAB_ROUNDS_MAX];      /* [round]: µs of a call. */
    uint8_t class[LAB_ROUNDS_MAX]; /* [round]: enum lab_class of the sample. LAB_CLASSES: there is no sample. */
};

/* Sums up the samples of a cell in one class, or the ratios of two cells. */
struct lab_value {
    double median; /* 0: there are no samples. */
    double noise;  /* Half the distance between the two quartiles, as a share of the median. */
    int count;
};

struct lab_options {
    int nranks;
    const char *transport; /* Name of the only transport that is used. "": any transport. */
    bool gpus;             /* Ranks are on GPUs. False: on CPUs. */
    /* GPUs: each rank is called by a thread of its own. False: all ranks are called in one group. */
    bool threads;
    int most_nchannels;    /* GPUs: maximum number of channels. */
    struct budget *budget; /* GPUs: candidates are measured until their share of this budget is used. */
    int most_done;         /* GPUs: maximum number of candidates that are measured. 0: all. */
    uint64_t sizes[LAB_SIZES_MAX];
    int nsizes;
};

struct lab {
    struct lab_options options;
    struct cost_machine machine[LAB_CLASSES]; /* [class]: the machine as the tuner of these ranks sees it. */
    struct tuner_limits limits;
    struct prog_shape shape;
    struct topo *topo;            /* Topology of ranks on CPUs. NULL: ranks are on GPUs. */
    struct net *net[LAB_CLASSES]; /* [class]: routes over `topo`. NULL: ranks are on GPUs. */
    double crowd[LAB_RANKS_MAX];
    struct plan_choice candidates[LAB_CANDIDATES_MAX];
    /* [class][index in algorithms[]]. NULL: not needed so far. */
    struct cost_stage *stages[LAB_CLASSES][ALGORITHMS_MAX];
    /* Number of candidates; on GPUs, number of candidates that were measured. */
    int ncandidates, ndone;
    struct lab_cell cells[LAB_SIZES_MAX][LAB_CANDIDATES_MAX];
    int rounds;                  /* Number of rounds for which cells have samples. */
    int cpus;                    /* Number of CPUs of this machine. */
    struct map *map;             /* Map of ranks on GPUs. NULL: ranks are on CPUs. */
    struct model *model;         /* Model of ranks on GPUs, of which `machine` is a part. NULL: ranks are on CPUs. */
    float trips_ns[LAB_CLASSES]; /* [class]: the last round trip of this class that was measured. 0: none was. */
    int dropped;
    bool failed; /* GPUs: a call has failed, and standard error says why. The samples stay. */
};

/* lab_create() makes the machine and its candidates, without samples. A failure in these functions ends the process with a
 * message. */
void lab_create(const struct lab_options *options, const struct cost_table *costs, struct lab **lab_p);
void lab_destroy(struct lab *lab);
/* Forks the ranks, measures, and ends the ranks. */
void lab_measure(struct lab *lab, int rounds);
/* Makes a lab on the GPUs of this process, and measures. There must be at least one GPU. All samples count as near.
 * (lab_gpu.c) */
void lab_measure_gpus(const struct lab_options *options, const struct cost_table *costs, int rounds,
                      struct lab **lab_p);

/* Parts that labs on CPUs and on GPUs share. lab_list_algorithm() adds all candidates of an algorithm with these numbers of
 * channels. lab_forget_samples() removes all samples. lab_set_candidate() sets environment variables so that new
 * communicators use the candidate; lab_forget_candidates() unsets them. */
void lab_list_algorithm(struct lab *lab, const struct algorithm *algorithm, const int *channels, size_t n);
void lab_forget_samples(struct lab *lab);
void lab_set_candidate(const struct plan_choice *candidate);
void lab_forget_candidates(void);

struct lab_value lab_value(const struct lab *lab, int size, int candidate, enum lab_class class); /* In µs. */
bool lab_saw(const struct lab *lab, enum lab_class class); /* Is there any sample of this class? */
/* The time of a candidate, divided by the time of another one, in the rounds in which both have samples. */
struct lab_value lab_compare(const struct lab *lab, int size, int candidate, int other, enum lab_class class);

/* The candidate that the tuner chooses with these constants. */
int lab_choice(struct lab *lab, const struct cost_table *costs, int size, enum lab_class class);
double lab_predict_us(struct lab *lab, const struct cost_table *costs, int size, int candidate, enum lab_class class);

/* Writes the name of a candidate, such as "ring LL" or "tree Simple 32K". Returns `name`. */
#define LAB_NAME_BYTES 48
const char *lab_name(const struct plan_choice *candidate, char name[LAB_NAME_BYTES]);
/* Returns "group" or "threads": the way in which the lab calls ranks on GPUs. */
const char *lab_mode_name(const struct lab *lab);

#endif
