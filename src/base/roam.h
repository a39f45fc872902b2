/* SPDX-License-Identifier: Apache-2.0
 *
 * A yield for threads that should have a CPU each. A thread that shares its CPU with another one moves to another CPU:
 *
 *    CPU 0   A ▓░▓░▓░▓░▓        each ░ is a yield that takes long,        A ▓▓▓▓▓▓▓
 *            B ░▓░▓░▓░▓░        because another thread runs at the same time
 *    CPU 1   (idle)             after a few of them: A moves      ──▶     B ▓▓▓▓▓▓▓
 *
 * Why does the scheduler of Linux not move one of the threads? Both run every few microseconds. So its load balancer takes their caches
 * for hot, and leaves both threads on one CPU for 10 to 20 ms. In that time a call takes up to forty times as long.
 */
#ifndef COLLET_BASE_ROAM_H
#define COLLET_BASE_ROAM_H

#include <stdbool.h>
#include <stdint.h>

void roam_yield(void);

/* The time that a thread has lost in consecutive long yields. All fields are 0 at first. */
struct roam {
    uint64_t lost_ns;
    uint64_t bears_ns; /* The thread moves when it has lost this much; 0: ROAM_BEARS_NS */
};
#define ROAM_BEARS_NS 10000u

#endif
