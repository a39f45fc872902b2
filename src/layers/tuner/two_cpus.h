/* SPDX-License-Identifier: Apache-2.0
 *
 * Two threads, each pinned to a CPU, for probes of what lies between these CPUs.
 */
#ifndef COLLET_LAYERS_TUNER_TWO_CPUS_H
#define COLLET_LAYERS_TUNER_TWO_CPUS_H

#include <stdbool.h>

/* Maximum time until a thread runs, on a CPU that sleeps or does something else. */
#define TWO_CPUS_BIRTH_NS 3e6

double two_cpus_now_ns(void);

/* Runs a(argument) on one CPU and b(argument) on the other, each in a thread of its own, and waits for both. If only b can be started,
 * it gets gave_up(argument) instead of a partner. Handlers of signals do not run there. False: they did not both run. */
bool two_cpus_run(int cpu_a, void *(*a)(void *), int cpu_b, void *(*b)(void *), void (*gave_up)(void *),
                  void *argument);

#endif
