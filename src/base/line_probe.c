/* SPDX-License-Identifier: Apache-2.0
 *
 * Two threads on two CPUs pass a number to and fro in one cache line; the numbers only grow:
 *
 *   ping  writes 1 ────▶  sees 2, writes 3 ────▶  sees 4  …  or gives up, and says that it is over
 *   pong           sees 1, writes 2 ────▶  sees 3, writes 4  …
 */
#define _GNU_SOURCE
#include "base/line_probe.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define TRIPS_PER_SAMPLE 16
#define MAX_SAMPLES 2048
#define BIRTH_NS 3e6        /* until a thread runs, on a CPU that has to be woken or does something else */
#define POLLS_PER_LOOK 1024 /* at the clock, or whether it is over, while nothing comes */

struct ball {
    /* Alone in its line and in the neighbour that is fetched with it. Each thread's store pairs with the other's load. */
    _Alignas(128) int value;
    /* In a line of its own, so that whoever gives up writes no line that is on its way. Pairs with the other's load. */
    _Alignas(128) int over;
    double for_ns;
    struct line_trips trips;
    int count; /* of samples */
};

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Waits for the answer; false if it does not come until the clock says so. */
static bool see(const struct ball *ball, int value, double until_ns) {
    for (int polls = 1; __atomic_load_n(&ball->value, __ATOMIC_ACQUIRE) != value; polls++)
        if (polls % POLLS_PER_LOOK == 0 && now_ns() > until_ns)
            return false;
    return true;
}

static bool make_trips(struct ball *ball, int first_value, double until_ns) {
    for (int trip = 0; trip < TRIPS_PER_SAMPLE; trip++) {
        __atomic_store_n(&ball->value, first_value + 2 * trip + 1, __ATOMIC_RELEASE);
        if (!see(ball, first_value + 2 * trip + 2, until_ns))
            return false;
    }
    return true;
}

/* The first trips wait for the other thread to be born and are no sample. */
static void *ping(void *argument) {
    struct ball *ball = (struct ball *)argument;
    double samples[MAX_SAMPLES];
    int count = 0, value = 2 * TRIPS_PER_SAMPLE;
    bool answered = make_trips(ball, 0, now_ns() + BIRTH_NS);
    for (double from = now_ns(), until = from + ball->for_ns; answered && from < until && count < MAX_SAMPLES;) {
        answered = make_trips(ball, value, until + BIRTH_NS);
        double to = now_ns();
        if (answered)
            samples[count++] = (to - from) / TRIPS_PER_SAMPLE;
        from = to;
        value += 2 * TRIPS_PER_SAMPLE;
    }
    __atomic_store_n(&ball->over, 1, __ATOMIC_RELEASE);
    qsort(samples, (size_t)count, sizeof(samples[0]), by_value);
    ball->count = count;
    if (count > 0)
        ball->trips = (struct line_trips){samples[count / 4], samples[count / 2]};
    return NULL;
}

static void *pong(void *argument) {
    struct ball *ball = (struct ball *)argument;
    int seen = 0;
    for (uint32_t polls = 0; polls % POLLS_PER_LOOK != 0 || !__atomic_load_n(&ball->over, __ATOMIC_ACQUIRE); polls++) {
        int value = __atomic_load_n(&ball->value, __ATOMIC_ACQUIRE);
        if (value != seen) {
            seen = value + 1;
            __atomic_store_n(&ball->value, seen, __ATOMIC_RELEASE);
        }
    }
    return NULL;
}

/* Born on its CPU. Returns whether that was possible. */
static bool start_on(int cpu, void *(*body)(void *), struct ball *ball, pthread_t *thread) {
    cpu_set_t one;
    pthread_attr_t attributes;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof(one), &one);
    int failure = pthread_create(thread, &attributes, body, ball);
    pthread_attr_destroy(&attributes);
    return failure == 0;
}

static bool play(struct ball *ball, int cpu_a, int cpu_b) {
    pthread_t a, b;
    if (!start_on(cpu_b, pong, ball, &b))
        return false;
    if (start_on(cpu_a, ping, ball, &a))
        pthread_join(a, NULL);
    else
        __atomic_store_n(&ball->over, 1, __ATOMIC_RELEASE);
    pthread_join(b, NULL);
    return ball->count > 0;
}

/* Threads take over which signals are blocked; handlers of the program are not for these. */
bool line_probe(int cpu_a, int cpu_b, uint64_t for_ns, struct line_trips *trips) {
    struct ball ball = {.for_ns = (double)for_ns};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool done = play(&ball, cpu_a, cpu_b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    *trips = ball.trips;
    return done;
}
