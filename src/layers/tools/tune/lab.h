/* SPDX-License-Identifier: Apache-2.0
 *
 * The lab: ranks on this machine that measure every candidate of the tuner at every size, all in turns.
 *
 *      rank 0      │ probe │ candidate A │ probe │ candidate B │ probe │ …  one round; and again, and again
 *      rank 1 … n  │ sleep │ candidate A │ sleep │ candidate B │ sleep │ …
 *
 * Each candidate has communicators of its own, created with COLLET_ALGO, COLLET_PROTO and COLLET_CHUNKSIZE set, in the same
 * processes: one for each class of distance between CPUs (COLLET_CPU_DISTANCE), of which the one that fits is measured. A
 * probe is the round trip of a cache line between the CPUs of the first two ranks: a sample belongs to the class (near, far)
 * that the probes on both sides of it agree on. It is dropped, and taken again, where they do not, since virtual CPUs move,
 * and where the ranks did not have their CPUs to themselves.
 *
 * Memory is faster in one minute than in the next. So two candidates are compared round by round (lab_compare()): what
 * changes more slowly than a round lasts hits both alike.
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
extern const char *const lab_class_names[LAB_CLASSES]; /* values of COLLET_CPU_DISTANCE */

/* Samples of one candidate at one size, by round. */
struct lab_cell {
    float us[LAB_ROUNDS_MAX];      /* a call */
    uint8_t class[LAB_ROUNDS_MAX]; /* enum lab_class; LAB_CLASSES: none */
};

/* What the samples of a cell in one class amount to, or their ratios to those of another cell. */
struct lab_value {
    double median; /* 0: not measured */
    double noise;  /* half the distance of the quartiles, as a share of the median */
    int count;
};

struct lab_options {
    int nranks;
    const char *transport; /* "" for any */
    bool gpus;             /* ranks on GPUs instead, … */
    bool threads;          /* … each called by a thread of its own, else all in one group, … */
    int most_nchannels;    /* … with so many channels at most, … */
    struct budget *budget; /* … measured until its share is used, … */
    int most_done;         /* … and so many candidates; 0: until all are measured */
    uint64_t sizes[LAB_SIZES_MAX];
    int nsizes;
};

struct lab {
    struct lab_options options;
    struct cost_machine machine[LAB_CLASSES]; /* as the tuner of these ranks sees it */
    struct tuner_limits limits;
    struct prog_shape shape;
    struct topo *topo;            /* ranks on CPUs: their topology; on GPUs: NULL */
    struct net *net[LAB_CLASSES]; /* over it; of GPUs NULL */
    double crowd[LAB_RANKS_MAX];
    struct plan_choice candidates[LAB_CANDIDATES_MAX];
    struct cost_stage *stages[LAB_CLASSES][ALGORITHMS_MAX]; /* by index in algorithms[]; NULL: not asked for yet */
    int ncandidates, ndone;                                 /* ndone: of GPUs, how many of them time was enough for */
    struct lab_cell cells[LAB_SIZES_MAX][LAB_CANDIDATES_MAX];
    int rounds;                  /* cells have samples of rounds below this */
    int cpus;                    /* of this machine */
    struct map *map;             /* ranks on GPUs: their map; else NULL */
    struct model *model;         /* what `machine` is of them; NULL like it */
    float trips_ns[LAB_CLASSES]; /* the last round trip seen of each class; 0: none */
    int dropped;
    bool failed; /* of GPUs: a call has, as standard error says. What is measured stays */
};

/* The machine and its candidates, nothing measured yet. Failures of these end the process with a message. */
void lab_create(const struct lab_options *options, const struct cost_table *costs, struct lab **lab_p);
void lab_destroy(struct lab *lab);
/* Forks the ranks, measures, and ends them. */
void lab_measure(struct lab *lab, int rounds);
/* All of it on the GPUs of this process, of which there is at least one; what is measured counts as near. (lab_gpu.c) */
void lab_measure_gpus(const struct lab_options *options, const struct cost_table *costs, int rounds,
                      struct lab **lab_p);

/* Of both: all candidates of an algorithm with these numbers of channels; no samples yet; the environment in which communicators are
 * one of them, or free again. */
void lab_list_algorithm(struct lab *lab, const struct algorithm *algorithm, const int *channels, size_t n);
void lab_forget_samples(struct lab *lab);
void lab_set_candidate(const struct plan_choice *candidate);
void lab_forget_candidates(void);

struct lab_value lab_value(const struct lab *lab, int size, int candidate, enum lab_class class); /* in µs */
bool lab_saw(const struct lab *lab, enum lab_class class); /* any sample of it? */
/* The time of a candidate ÷ that of another one, in the rounds that have both. */
struct lab_value lab_compare(const struct lab *lab, int size, int candidate, int other, enum lab_class class);

/* The candidate that the tuner chooses with these costs. */
int lab_choice(struct lab *lab, const struct cost_table *costs, int size, enum lab_class class);
double lab_predict_us(struct lab *lab, const struct cost_table *costs, int size, int candidate, enum lab_class class);

/* "ring LL", "tree Simple 32K". */
#define LAB_NAME_BYTES 48
const char *lab_name(const struct plan_choice *candidate, char name[LAB_NAME_BYTES]);
/* How ranks on GPUs are called: "group", "threads". */
const char *lab_mode_name(const struct lab *lab);

#endif
