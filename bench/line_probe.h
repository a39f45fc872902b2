/* SPDX-License-Identifier: Apache-2.0
 *
 * How far apart are two CPUs? The time in which a cache line goes from one to the other and back.
 */
#ifndef COLLET_BENCH_LINE_PROBE_H
#define COLLET_BENCH_LINE_PROBE_H

/* The median round trip between two CPUs in nanoseconds, measured for about 2 ms by two threads pinned to them. Other
 * work on these CPUs should sleep meanwhile. Negative if it could not be measured (a CPU that may not be used). */
double line_round_trip_ns(int cpu_a, int cpu_b);

#endif
