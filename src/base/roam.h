/* SPDX-License-Identifier: Apache-2.0
 *
 * A yield for threads that have a CPU each, of a thread that may have lost its own:
 *
 *    CPU 0   A ▓░▓░▓░▓░▓        each ░ is a yield that takes long,        A ▓▓▓▓▓▓▓
 *            B ░▓░▓░▓░▓░        for another thread runs before it ends
 *    CPU 1   (idle)             after a few of them: A moves      ──▶     B ▓▓▓▓▓▓▓
 *
 * Why does the scheduler not move it? Both threads run every few microseconds, so for its balancer their caches are hot,
 * and it leaves them together for 10 to 20 ms. In that time a call takes up to forty times as long.
 */
#ifndef COLLET_BASE_ROAM_H
#define COLLET_BASE_ROAM_H

#include <stdbool.h>
#include <stdint.h>

void roam_yield(void);

/* The time that a thread has lost in consecutive yields. All zero: none. */
struct roam {
    uint64_t lost_ns;
    uint64_t bears_ns; /* loss after which it moves; 0: ROAM_BEARS_NS */
};
#define ROAM_BEARS_NS 10000u

#endif
