/* SPDX-License-Identifier: Apache-2.0
 *
 * How long does it take to pass data on from CPU to CPU of a host, if all CPUs do it at once?
 */
#ifndef COLLET_LAYERS_TUNER_HOST_PROBE_H
#define COLLET_LAYERS_TUNER_HOST_PROBE_H

#include <stdbool.h>
#include <stddef.h>

/* Payloads of two lengths are measured: HOST_PROBE_SHORT and HOST_PROBE_LONG bytes. */
#define HOST_PROBE_SHORT 4096u
#define HOST_PROBE_LONG 65536u
enum { PROBE_SHORT, PROBE_LONG, PROBE_SIZES };

/* Times in ns. Each CPU takes the median of its samples. A time is the maximum over all CPUs. */
struct host_times {
    double line;               /* Time in which each CPU stores a cache line for one CPU and gets one from another. */
    double slots[PROBE_SIZES]; /* Time of a payload through slots that are written through the caches. */
    double past[PROBE_SIZES];  /* Time of a payload through slots that are written past the caches. */
    double lent;               /* Time of copying, by address, a long payload that another CPU has just stored. */
    double kernel[PROBE_SIZES];
    double own; /* Time of copying a long payload inside memory that only this CPU uses. */
    double
        memory_gbps; /* Bandwidth of all CPUs together for bytes in no cache. The read before a store counts too. 0: not measured. */
    int refused; /* errno with which the kernel refused to copy. 0: the kernel did not refuse. */
};

/* Copies as memcpy() does. */
typedef void *host_probe_copy(void *to, const void *from, size_t bytes);

/* Measures with one thread on each of n CPUs (at least two), all at once. past_caches(): copies past the caches. Unless `fully`, only
 * the ways of passing on a long payload are measured, and all other times are 0. If the kernel refuses to copy, only the times of its
 * copies are 0. False: the probe was not possible, because a thread could not be started on its CPU, there was no memory, or the probe
 * took too long. */
bool host_probe(const int *cpus, int n, host_probe_copy *past_caches, bool fully, struct host_times *times);

#endif
