/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "layers/tuner/on_cpus.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

double on_cpus_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* One thread, and what it runs. */
struct cpu_thread {
    void (*body)(void *argument, int k);
    void *argument;
    int k;
    pthread_t thread;
};

static void *sit(void *argument) {
    const struct cpu_thread *seat = (const struct cpu_thread *)argument;
    seat->body(seat->argument, seat->k);
    return NULL;
}

/* False: the thread cannot be started on this CPU. */
static bool start_on(int cpu, struct cpu_thread *seat) {
    cpu_set_t one;
    pthread_attr_t attributes;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof(one), &one);
    int failure = pthread_create(&seat->thread, &attributes, sit, seat);
    pthread_attr_destroy(&attributes);
    return failure == 0;
}

/* False: some threads have not ended by then. They are told to end, and get the CPUs of this thread for that. */
static bool join_all(const struct cpu_thread *seats, int n, const struct timespec *until,
                     void (*gave_up)(void *argument), void *argument) {
    cpu_set_t own;
    int joined = 0;
    while (joined < n && pthread_timedjoin_np(seats[joined].thread, NULL, until) == 0)
        joined++;
    if (joined == n)
        return true;
    gave_up(argument);
    pthread_getaffinity_np(pthread_self(), sizeof(own), &own);
    for (int k = joined; k < n; k++)
        pthread_setaffinity_np(seats[k].thread, sizeof(own), &own);
    for (int k = joined; k < n; k++)
        pthread_join(seats[k].thread, NULL);
    return false;
}

/* By the clock of pthread_timedjoin_np(). */
static struct timespec in_ns(double ns) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    const uint64_t at_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec + (uint64_t)ns;
    return (struct timespec){.tv_sec = (time_t)(at_ns / 1000000000), .tv_nsec = (long)(at_ns % 1000000000)};
}

/* Signals are blocked first, because a new thread inherits the set of blocked signals. */
bool on_cpus_run(const int *cpus, int n, double longest_ns, void (*body)(void *argument, int k),
                 void (*gave_up)(void *argument), void *argument) {
    struct cpu_thread seats[ON_CPUS_MAX];
    int started = 0;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (bool good = true; good && started < n; started += good) {
        seats[started] = (struct cpu_thread){.body = body, .argument = argument, .k = started};
        good = start_on(cpus[started], &seats[started]);
    }
    if (started < n)
        gave_up(argument);
    const struct timespec until = in_ns(longest_ns);
    const bool ended = join_all(seats, started, &until, gave_up, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ended && started == n;
}
