/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads on several CPUs at once, each pinned to one, for probes of what lies between these CPUs.
 */
#ifndef COLLET_LAYERS_TUNER_ON_CPUS_H
#define COLLET_LAYERS_TUNER_ON_CPUS_H

#include <stdbool.h>

#define ON_CPUS_MAX 64

/* Maximum time until a thread runs, on a CPU that sleeps or is busy. */
#define ON_CPUS_BIRTH_NS 3e6
/* Time that threads on busy CPUs may take longer than they should, before they are told to end. */
#define ON_CPUS_BUSY_NS 100e6

double on_cpus_now_ns(void);

/* Runs body(argument, k) in a thread of its own on each CPU cpus[k], and waits for all threads. These threads run no signal
 * handlers. If a thread cannot be started, or has not ended after longest_ns, gave_up(argument) tells all bodies to end. A thread that has
 * not ended then may use all CPUs of the caller: on a busy machine, a pinned thread may wait for its CPU for many seconds, though others run
 * there (Linux 6.18 with sched_autogroup). False: not all threads have run in time. */
bool on_cpus_run(const int *cpus, int n, double longest_ns, void (*body)(void *argument, int k),
                 void (*gave_up)(void *argument), void *argument);

#endif
