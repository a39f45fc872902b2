/* SPDX-License-Identifier: Apache-2.0
 *
 * One attempt of the search for rings through a host: see attempt.c. cross.c makes several and takes the best.
 */
#ifndef COLLET_TOPO_PROBE_ATTEMPT_H
#define COLLET_TOPO_PROBE_ATTEMPT_H

#include "topo/probe/load.h"

/* How one ring crosses one host. */
struct topo_route {
    int nic_in, nic_out; /* node number minus the host's first node; −1 in a job of one host */
    int *order;          /* [nlocal] ranks of the host, as local numbers */
    int *home;           /* [local number] the NIC nearest to the rank, numbered as nic_in */
};

/* What a number of rings is worth. */
struct score {
    int nrings; /* 0: there are none yet */
    int far_ends, sys_hops;
    struct topo_bound bound;
};

/* Scores with a ratio below this are equal: sums of the same numbers in another order are rounded differently. */
#define SCORE_ROUNDING 1.001

static inline double score_total(const struct score *score) { return score->nrings * score->bound.gbps; }

struct attempt_result {
    struct topo_route *routes; /* the caller frees them, with their orders and homes, by one free() */
    struct score score;
    int64_t steps; /* what finding the orders took, in steps of tour_steps() */
};

/* Rings over the NICs that the load uses. shift: how many NICs further a ring goes out than it comes in. variant: another
 * choice among equal orders. After steps_max, the rings so far must do. */
enum collet_result attempt_run(struct load *load, int shift, uint32_t variant, int64_t steps_max,
                               struct attempt_result *result);

/* An upper bound for all rings together, with so many NICs. */
double attempt_most_possible(const struct load *load, int nnics);
/* Is there nothing left to gain? */
bool attempt_uses_everything(const struct load *load, const struct score *score);

#endif
