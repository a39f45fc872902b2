/* SPDX-License-Identifier: Apache-2.0
 *
 * The time that a run may take, in shares for its stages, and the lines that it prints at the same time.
 *
 *      began ├── 2 ranks, group ──┼── 2 ranks, threads ──┼── … ──┼──── fit ────┼ file ┤ began + seconds
 *
 * A share ends at a fixed moment. If a stage takes too long, the next stage has less time, but the run does not end later.
 */
#ifndef COLLET_LAYERS_TOOLS_TUNE_BUDGET_H
#define COLLET_LAYERS_TOOLS_TUNE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct budget {
    uint64_t (*now_ns)(void);
    uint64_t began_ns;
    double seconds; /* Maximum time of the run. 0: there is none. */
    /* Share of `seconds` until which the present stage may run, counted from the beginning of the run. */
    double share;
    FILE *out; /* File to which the run says what it does. NULL: nowhere. */
    uint64_t said_ns;
};

bool budget_is_over(const struct budget *budget); /* Has the present stage used its share? */
double budget_left(const struct budget *budget);  /* Seconds that are left of the whole run. */

/* Prints what the run does, and the seconds that have passed. Unless `now`, it prints a line at most every two seconds. */
__attribute__((format(printf, 3, 4))) void budget_say(struct budget *budget, bool now, const char *format, ...);

#endif
