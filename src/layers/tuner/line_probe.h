/* SPDX-License-Identifier: Apache-2.0
 *
 * How far apart are two CPUs? The time in which a cache line goes from one to the other and back.
 */
#ifndef COLLET_LAYERS_TUNER_LINE_PROBE_H
#define COLLET_LAYERS_TUNER_LINE_PROBE_H

#include "fifo/fifo_place.h"

#include <stdbool.h>
#include <stdint.h>

/* Round trips, in ns: the quartile is what they take where something else runs on these CPUs now and then, the median tells
 * that it does. From LINE_TRIP_FAR_NS on they are far. */
struct line_trips {
    double quartile_ns, median_ns;
};

/* Two threads pinned to the CPUs pass a line to and fro, for about for_ns. During this time, other threads there should
 * sleep or yield. False if that was not possible: no thread may be started there, or there was no answer in time. */
bool line_probe(int cpu_a, int cpu_b, uint64_t for_ns, struct line_trips *trips);

#endif
