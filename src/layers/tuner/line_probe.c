/* SPDX-License-Identifier: Apache-2.0
 *
 * Two threads on two CPUs pass a number to and fro in one cache line; the numbers only grow:
 *
 *   ping  writes 1 ────▶  sees 2, writes 3 ────▶  sees 4  …  or gives up, and says that it is over
 *   pong           sees 1, writes 2 ────▶  sees 3, writes 4  …
 */
#include "layers/tuner/line_probe.h"

#include "layers/tuner/on_cpus.h"

#include <stdlib.h>

#define TRIPS_PER_SAMPLE 16
#define MAX_SAMPLES 2048
/* While nothing comes, a thread polls this number of times between two looks at the clock and at whether the probe is over. */
#define POLLS_PER_LOOK 1024

struct ball {
    /* The number has two cache lines of its own, because a CPU may fetch the next line with each line. Each thread's store pairs with
     * the other's load. */
    _Alignas(128) int value;
    /* The flag has a line of its own, so that a thread that gives up does not write the line that is measured. Pairs with
     * the other thread's load. */
    _Alignas(128) int over;
    double for_ns;
    struct line_trips trips;
    int count; /* Number of samples. */
};

static void say_over(void *argument) { __atomic_store_n(&((struct ball *)argument)->over, 1, __ATOMIC_RELEASE); }

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Waits for the answer. False: none came until until_ns. */
static bool see(const struct ball *ball, int value, double until_ns) {
    for (int polls = 1; __atomic_load_n(&ball->value, __ATOMIC_ACQUIRE) != value; polls++)
        if (polls % POLLS_PER_LOOK == 0 && on_cpus_now_ns() > until_ns)
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

/* The first trips wait until the other thread runs. They are no sample. */
static void ping(struct ball *ball) {
    double samples[MAX_SAMPLES];
    int count = 0, value = 2 * TRIPS_PER_SAMPLE;
    bool answered = make_trips(ball, 0, on_cpus_now_ns() + ON_CPUS_BIRTH_NS);
    for (double from = on_cpus_now_ns(), until = from + ball->for_ns;
         answered && from < until && count < MAX_SAMPLES;) {
        answered = make_trips(ball, value, until + ON_CPUS_BIRTH_NS);
        double to = on_cpus_now_ns();
        if (answered)
            samples[count++] = (to - from) / TRIPS_PER_SAMPLE;
        from = to;
        value += 2 * TRIPS_PER_SAMPLE;
    }
    say_over(ball);
    qsort(samples, (size_t)count, sizeof(samples[0]), by_value);
    ball->count = count;
    if (count > 0)
        ball->trips = (struct line_trips){samples[count / 4], samples[count / 2]};
}

static void pong(struct ball *ball) {
    int seen = 0;
    for (uint32_t polls = 0; polls % POLLS_PER_LOOK != 0 || !__atomic_load_n(&ball->over, __ATOMIC_ACQUIRE); polls++) {
        int value = __atomic_load_n(&ball->value, __ATOMIC_ACQUIRE);
        if (value != seen) {
            seen = value + 1;
            __atomic_store_n(&ball->value, seen, __ATOMIC_RELEASE);
        }
    }
}

static void play(void *argument, int k) {
    struct ball *ball = (struct ball *)argument;
    if (k == 0)
        pong(ball);
    else
        ping(ball);
}

bool line_probe(int cpu_a, int cpu_b, uint64_t for_ns, struct line_trips *trips) {
    struct ball ball = {.for_ns = (double)for_ns};
    const int cpus[] = {cpu_b, cpu_a};
    bool played = on_cpus_run(cpus, 2, (double)for_ns + 2 * ON_CPUS_BIRTH_NS + ON_CPUS_BUSY_NS, play, say_over, &ball);
    *trips = ball.trips;
    return played && ball.count > 0;
}
