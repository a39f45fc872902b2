/* SPDX-License-Identifier: Apache-2.0
 *
 * Timelines in the format that chrome://tracing and ui.perfetto.dev read: bars on the tracks of processes, and arrows between
 * bars. A prediction (layers/tools/sim/timeline.c) and a measurement (layers/observe/trace.c) are the same kind of file.
 */
#ifndef COLLET_LAYERS_OBSERVE_TIMELINE_H
#define COLLET_LAYERS_OBSERVE_TIMELINE_H

#include <stdbool.h>
#include <stdio.h>

struct timeline {
    FILE *out;
    bool has_events;
};

/* Every file ends in these bytes, so another process can insert its events in front of them. */
#define TIMELINE_TAIL "\n]}\n"

void timeline_begin(struct timeline *timeline, FILE *out, const char *source);
void timeline_end(struct timeline *timeline);

/* track −1: `name` is the name of the process. members: further members of the JSON object, or "". */
void timeline_name(struct timeline *timeline, int process, int track, const char *name, const char *members);
void timeline_bar(struct timeline *timeline, const char *category, const char *name, int process, int track,
                  double from_us, double duration_us, const char *members);
/* Writes one end of a message's arrow. end: 's' is the start, 'f' is the finish. Each end must lie within a bar. */
void timeline_arrow(struct timeline *timeline, char end, const char *id, int process, int track, double at_us);

/* Writes a step's name, for example "step 3 receive send". */
#define TIMELINE_STEP_BYTES 40
void timeline_step_name(unsigned step, bool receives, bool sends, char name[TIMELINE_STEP_BYTES]);

#endif
