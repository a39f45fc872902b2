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
    double share;   /* of it that the stage in hand may use, counted from the beginning */
    FILE *out;      /* where lines go; NULL: nowhere */
    uint64_t said_ns;
};

bool budget_is_over(const struct budget *budget); /* for the stage in hand */
double budget_left(const struct budget *budget);  /* seconds, of all */

/* What the run does, with the seconds that have passed. Not more often than every two seconds, unless `now`. */
__attribute__((format(printf, 3, 4))) void budget_say(struct budget *budget, bool now, const char *format, ...);

#endif
