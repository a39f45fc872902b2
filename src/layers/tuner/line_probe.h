/* SPDX-License-Identifier: Apache-2.0
 *
 * How far apart are two CPUs? Measures the time in which a cache line goes from one to the other and back.
 */
#ifndef COLLET_LAYERS_TUNER_LINE_PROBE_H
#define COLLET_LAYERS_TUNER_LINE_PROBE_H

#include "fifo/fifo_place.h"

#include <stdbool.h>
#include <stdint.h>

/* Times of round trips in ns: the lower quartile of all samples, and their median. Samples are longer while another program runs on
 * these CPUs. So the quartile is the time of an undisturbed trip, and a much longer median shows that another program runs. From
 * LINE_TRIP_FAR_NS on, the CPUs are far from each other. */
struct line_trips {
    double quartile_ns, median_ns;
};

/* Measures the round trips of a line between two CPUs for about for_ns, with a thread pinned to each. At the same time, other
 * threads on these CPUs should sleep or yield. False: the probe was not possible, because a thread cannot be started there,
 * or no answer came in time. */
bool line_probe(int cpu_a, int cpu_b, uint64_t for_ns, struct line_trips *trips);

#endif
