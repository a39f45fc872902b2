/* SPDX-License-Identifier: Apache-2.0
 *
 * Two threads on two CPUs pass a number to and fro in one cache line; the numbers only grow:
 *
 *   ping  writes 1 ────▶  sees 2, writes 3 ────▶  sees 4  …  writes LAST
 *   pong           sees 1, writes 2 ────▶  sees 3, writes 4  …  sees LAST
 */
#define _GNU_SOURCE
#include "line_probe.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define TRIPS_PER_SAMPLE 64
#define MAX_SAMPLES 1024
#define PROBE_NS 2e6
#define LAST (-1)

struct ball {
    _Alignas(128) int value;     /* alone in its line and in the neighbour that is fetched with it */
    _Alignas(128) double median; /* ns */
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

static void *ping(void *argument) {
    struct ball *ball = (struct ball *)argument;
    double samples[MAX_SAMPLES], begin = now_ns(), from = begin;
    int count = 0, value = 0;
    while (count < MAX_SAMPLES && from - begin < PROBE_NS) {
        for (int trip = 0; trip < TRIPS_PER_SAMPLE; trip++, value += 2) {
            __atomic_store_n(&ball->value, value + 1, __ATOMIC_RELEASE);
            while (__atomic_load_n(&ball->value, __ATOMIC_ACQUIRE) != value + 2)
                ;
        }
        double to = now_ns();
        samples[count++] = (to - from) / TRIPS_PER_SAMPLE;
        from = to;
    }
    __atomic_store_n(&ball->value, LAST, __ATOMIC_RELEASE);
    qsort(samples, (size_t)count, sizeof(samples[0]), by_value);
    ball->median = samples[count / 2];
    return NULL;
}

static void *pong(void *argument) {
    struct ball *ball = (struct ball *)argument;
    int seen = 0, value;
    while ((value = __atomic_load_n(&ball->value, __ATOMIC_ACQUIRE)) != LAST)
        if (value != seen) {
            seen = value + 1;
            __atomic_store_n(&ball->value, seen, __ATOMIC_RELEASE);
        }
    return NULL;
}

/* Born on its CPU. Returns whether that was possible. */
static int start_on(int cpu, void *(*body)(void *), struct ball *ball, pthread_t *thread) {
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

double line_round_trip_ns(int cpu_a, int cpu_b) {
    struct ball ball = {.median = -1};
    pthread_t a, b;
    if (!start_on(cpu_b, pong, &ball, &b))
        return -1;
    if (start_on(cpu_a, ping, &ball, &a))
        pthread_join(a, NULL);
    else
        __atomic_store_n(&ball.value, LAST, __ATOMIC_RELEASE);
    pthread_join(b, NULL);
    return ball.median;
}
