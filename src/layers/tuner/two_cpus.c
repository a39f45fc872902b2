/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "layers/tuner/two_cpus.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

double two_cpus_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Starts a thread on its CPU. False: that was not possible. */
static bool start_on(int cpu, void *(*body)(void *), void *argument, pthread_t *thread) {
    cpu_set_t one;
    pthread_attr_t attributes;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof(one), &one);
    int failure = pthread_create(thread, &attributes, body, argument);
    pthread_attr_destroy(&attributes);
    return failure == 0;
}

static bool run_both(int cpu_a, void *(*a)(void *), int cpu_b, void *(*b)(void *), void (*gave_up)(void *),
                     void *argument) {
    pthread_t thread_a, thread_b;
    if (!start_on(cpu_b, b, argument, &thread_b))
        return false;
    bool both = start_on(cpu_a, a, argument, &thread_a);
    if (both)
        pthread_join(thread_a, NULL);
    else
        gave_up(argument);
    pthread_join(thread_b, NULL);
    return both;
}

/* A new thread inherits the set of blocked signals. */
bool two_cpus_run(int cpu_a, void *(*a)(void *), int cpu_b, void *(*b)(void *), void (*gave_up)(void *),
                  void *argument) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool both = run_both(cpu_a, a, cpu_b, b, gave_up, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return both;
}
