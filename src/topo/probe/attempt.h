/* SPDX-License-Identifier: Apache-2.0
 *
 * One attempt of the search for rings through a host: see attempt.c. cross.c makes several and takes the best.
 */
#ifndef COLLET_TOPO_PROBE_ATTEMPT_H
#define COLLET_TOPO_PROBE_ATTEMPT_H

#include "topo/probe/load.h"

/* How one ring crosses one host. */
struct topo_route {
    /* NICs by which the ring comes in and goes out: node number minus the number of the host's first node. −1 in a job of
     * one host. */
    int nic_in, nic_out;
    int *order; /* [nlocal]: the ranks of the host in the ring's order, as local numbers. */
    int *home;  /* [local number]: the NIC nearest to the rank, numbered as nic_in. */
};

/* The quality of a set of rings. See beats() in cross.c for how two scores compare. */
struct score {
    int nrings; /* Number of rings. 0: there are none yet. */
    int far_ends, sys_hops;
    struct topo_bound bound;
};

/* Two scores count as equal if their ratio is below this number. Sums of the same numbers in another order are rounded
 * differently. */
#define SCORE_ROUNDING 1.001

static inline double score_total(const struct score *score) { return score->nrings * score->bound.gbps; }

struct attempt_result {
    struct topo_route *routes; /* The caller frees the routes, with their orders and homes, by one free(). */
    struct score score;
    int64_t steps; /* Steps that finding the orders took, as tour_find() counts them. */
};

/* Makes rings over the NICs that the load uses. `shift`: a ring goes out by the NIC that stands this many NICs behind the
 * one it comes in by. `variant`: each number chooses differently among equal ends and orders. After steps_max steps, no more
 * rings are added. */
enum collet_result attempt_run(struct load *load, int shift, uint32_t variant, int64_t steps_max,
                               struct attempt_result *result);

/* An upper bound of the bandwidth of all rings together, with nnics NICs. */
double attempt_most_possible(const struct load *load, int nnics);
/* Do the rings reach the upper bound, so that nothing is left to gain? */
bool attempt_uses_everything(const struct load *load, const struct score *score);

#endif
