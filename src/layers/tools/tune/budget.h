/* SPDX-License-Identifier: Apache-2.0
 *
 * The time that a run may take, by shares, and what it says while it runs.
 *
 *      began ├── 2 ranks, group ──┼── 2 ranks, threads ──┼── … ──┼──── fit ────┼ file ┤ began + seconds
 *
 * A share is until a moment, not of a length: what one stage takes too long is missing in the next one, and not at the end.
 */
#ifndef COLLET_LAYERS_TOOLS_TUNE_BUDGET_H
#define COLLET_LAYERS_TOOLS_TUNE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct budget {
    uint64_t (*now_ns)(void);
    uint64_t began_ns;
    double seconds; /* 0: as long as it takes */
    double share;   /* share of the time until which the present stage may run */
    FILE *out;      /* the file for lines; NULL: none */
    uint64_t said_ns;
};

bool budget_is_over(const struct budget *budget); /* for the stage in hand */
double budget_left(const struct budget *budget);  /* seconds, of all */

/* Prints what the run does, with the seconds that have passed; at most every two seconds, unless `now`. */
__attribute__((format(printf, 3, 4))) void budget_say(struct budget *budget, bool now, const char *format, ...);

#endif
