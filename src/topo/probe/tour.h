/* SPDX-License-Identifier: Apache-2.0
 *
 * The best order in which to visit all stops. See tour.c.
 */
#ifndef COLLET_TOPO_PROBE_TOUR_H
#define COLLET_TOPO_PROBE_TOUR_H

#include "topo/probe/topo.h"

#define TOUR_EXACT_MAX 16 /* With up to this number of stops the order is the best one. With more stops it is good. */
#define TOUR_STOPS_MAX 1024

/* A hop from one stop to another. */
struct tour_hop {
    enum topo_class class;
    double strain; /* Cost of the hop, to be compared with other hops of its class. */
};

/* Finds an order of stops 0 … n − 1. hops[a · n + b] is the hop from a to b. The order begins with `first` and ends with
 * `last`. last = −1: the order is a cycle that begins with `first`, and the hop back to `first` counts. With n > 1, `first`
 * and `last` differ.
 *
 * Of all such orders, the result has the fewest hops of the farthest class (PATH_NONE, then PATH_SYS), then the fewest hops
 * of the next class, and so on. Of equal orders, it is the one whose hops have the least strain together. With
 * n > TOUR_EXACT_MAX, it is the best only among the orders that differ from it by the reversal of a section.
 *
 * *steps grows by the work that was done. A step is a few instructions. */
enum collet_result tour_find(int n, const struct tour_hop *hops, int first, int last, int *order, int64_t *steps);

#endif
