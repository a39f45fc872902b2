/* SPDX-License-Identifier: Apache-2.0
 *
 * A clock for the limits of tests. It goes more slowly if many processes want the CPUs, so a test has the same time to run on a machine
 * that is busy with other work, and a test that hangs still ends:
 *
 *      2 CPUs, and 2 processes that want one      a second counts as a second
 *      2 CPUs, and 40 of them                     a second counts as 0.05 s, which is also the least
 */
#ifndef COLLET_TESTS_FAIR_H
#define COLLET_TESTS_FAIR_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define FAIR_SLOWEST 20
/* The last resort: SIGALRM, though the machine be as busy as can be. run-tests.sh comes first if it is not. */
#define fair_alarm(seconds) alarm((unsigned)(seconds)*FAIR_SLOWEST)
#define FAIR_LOOK_NS 50000000u /* so often it looks at what the machine does */

/* CPUs per process that wants one: /proc/loadavg says "0.20 0.18 0.12 2/402 1234", of which 2 want one. */
static inline double fair_share(void) {
    long running = 0;
    FILE *file = fopen("/proc/loadavg", "re");
    if (file == NULL)
        return 1;
    if (fscanf(file, "%*s %*s %*s %9ld/", &running) != 1)
        running = 0;
    fclose(file);
    const double share = running > 0 ? (double)sysconf(_SC_NPROCESSORS_ONLN) / (double)running : 1;
    return share > 1 ? 1 : share < 1.0 / FAIR_SLOWEST ? 1.0 / FAIR_SLOWEST : share;
}

/* A limit for the library, which counts the clock, on a machine as busy as it is now: longer, but at most four times. Some tests wait for
 * all of it. */
static inline int fair_limit_s(int seconds) {
    const double stretch = 1 / fair_share();
    return (int)(seconds * (stretch < 4 ? stretch : 4));
}

/* What counts of the time since then by CLOCK_MONOTONIC. For limits on what has happened; "not before" is a matter of the clock itself. */
static inline uint64_t fair_since_ns(uint64_t then_ns) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    const uint64_t now_ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    return now_ns > then_ns ? (uint64_t)((double)(now_ns - then_ns) * fair_share()) : 0;
}

/* Of the thread that asks: it begins at 0 when this thread asks for the first time. */
static inline uint64_t fair_now_ns(void) {
    static _Thread_local uint64_t real_ns, fair_ns;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    const uint64_t now_ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    if (real_ns == 0)
        real_ns = now_ns;
    if (now_ns - real_ns < FAIR_LOOK_NS)
        return fair_ns;
    fair_ns += (uint64_t)((double)(now_ns - real_ns) * fair_share());
    real_ns = now_ns;
    return fair_ns;
}

#endif
