/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wait.h"

#include "base/roam.h"

#include <sched.h>
#include <stdio.h>
#include <time.h>

#define YIELD_NS 2000000u
#define LOOK_EVERY_YIELDS 64u
#define SLEEP_MIN_NS 50000u
#define SLEEP_MAX_NS 1000000u

bool wait_pause_slowly(struct waiter *w) {
    uint32_t yields = w->polls - w->spin; /* 1 for the first one */
    if (yields == 1)
        w->idle_since_ns = os_now_ns();
    if (yields % LOOK_EVERY_YIELDS != 0) {
        if (w->roams)
            roam_yield();
        else
            sched_yield();
        return false;
    }
    uint64_t idle_ns = os_now_ns() - w->idle_since_ns;
    if (idle_ns < (w->yield_ns > 0 ? w->yield_ns : YIELD_NS))
        return true;
    uint64_t sleep_ns = idle_ns / 16; /* A sleep is short, compared with the wait so far */
    sleep_ns = sleep_ns < SLEEP_MIN_NS ? SLEEP_MIN_NS : sleep_ns > SLEEP_MAX_NS ? SLEEP_MAX_NS : sleep_ns;
    struct timespec pause = {.tv_nsec = (long)sleep_ns};
    nanosleep(&pause, NULL);
    w->polls--; /* The next pause sleeps again */
    return true;
}

bool late_look(struct late *late) {
    const bool due = os_now_ns() >= late->due_ns;
    if (due)
        late->due_ns = UINT64_MAX;
    return due;
}

const char *late_text(const struct late *late) {
    static _Thread_local char text[64];
    const double waited_s = (double)(os_now_ns() - late->since_ns) / 1e9;
    const time_t since = time(NULL) - (time_t)waited_s;
    char clock[16];
    strftime(clock, sizeof clock, "%T", localtime_r(&since, &(struct tm){0}));
    snprintf(text, sizeof text, "has waited for %.1f s, since %s", waited_s, clock);
    return text;
}
