/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/timeline.h"

#include "base/plain.h"

static void begin_event(struct timeline *timeline) {
    fputs(timeline->has_events ? ",\n" : "\n", timeline->out);
    timeline->has_events = true;
}

void timeline_begin(struct timeline *timeline, FILE *out, const char *source) {
    *timeline = (struct timeline){.out = out};
    fprintf(out, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"source\":\"%s\"},\"traceEvents\":[", source);
}

void timeline_end(struct timeline *timeline) { fputs(TIMELINE_TAIL, timeline->out); }

void timeline_name(struct timeline *timeline, int process, int track, const char *name, const char *members) {
    begin_event(timeline);
    fprintf(timeline->out, "{\"ph\":\"M\",\"name\":\"%s_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"%s%s}}",
            track < 0 ? "process" : "thread", process, track < 0 ? 0 : track, name, members[0] ? "," : "", members);
}

void timeline_bar(struct timeline *timeline, const char *category, const char *name, int process, int track,
                  double from_us, double duration_us, const char *members) {
    begin_event(timeline);
    const locale_t before = plain_begin();
    fprintf(
        timeline->out,
        "{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.6f,\"dur\":%.6f,\"args\":{%s}}",
        name, category, process, track, from_us, duration_us, members);
    plain_end(before);
}

void timeline_arrow(struct timeline *timeline, char end, const char *id, int process, int track, double at_us) {
    begin_event(timeline);
    const locale_t before = plain_begin();
    fprintf(timeline->out,
            "{\"ph\":\"%c\",\"bp\":\"e\",\"cat\":\"message\",\"name\":\"message\",\"id\":\"%s\",\"pid\":%d,\"tid\":%d,"
            "\"ts\":%.6f}",
            end, id, process, track, at_us);
    plain_end(before);
}

void timeline_step_name(unsigned step, bool receives, bool sends, char name[TIMELINE_STEP_BYTES]) {
    snprintf(name, TIMELINE_STEP_BYTES, "step %u%s%s", step, receives ? " receive" : "", sends ? " send" : "");
}
