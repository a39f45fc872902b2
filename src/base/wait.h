/* SPDX-License-Identifier: Apache-2.0
 *
 * The waiting policy: poll at full speed for a while, then yield the CPU between polls, then sleep between polls.
 * The caller polls, and checks whether the event can still come.
 *
 *    polls      0 … spin               spin … for yield_ns      later
 *    between    nothing, then pause    sched_yield (or move)    sleep 50 µs … 1 ms
 */
#ifndef COLLET_BASE_WAIT_H
#define COLLET_BASE_WAIT_H

#include "base/os.h"

#include <stdbool.h>

struct waiter {
    /* Number of polls before the first yield. Few if ranks outnumber CPUs: a peer may need this CPU. */
    uint32_t spin;
    uint32_t yield_ns; /* Nanoseconds of yielding before the first sleep; 0: 2 ms */
    /* True: there is a CPU for every waiting thread, so a thread that shares its CPU moves (roam.h). */
    bool roams;
    uint32_t polls;         /* Number of polls since the last progress */
    uint64_t idle_since_ns; /* Time of the first yield since the last progress */
};

bool wait_pause_slowly(struct waiter *w); /* The rest of wait_pause() */

static inline void wait_progressed(struct waiter *w) { w->polls = 0; }

/* Number of first polls without a pause, so that an event within half a microsecond is not delayed. */
#define WAIT_EAGER_POLLS 32u

/* Pauses after a poll that found nothing. True from time to time: then the caller should check whether the event can
 * still come. */
static inline bool wait_pause(struct waiter *w) {
    if (w->polls++ >= w->spin)
        return wait_pause_slowly(w);
    if (w->polls > WAIT_EAGER_POLLS)
        os_cpu_relax();
    return w->polls % WAIT_EAGER_POLLS == 0;
}

/* Nanoseconds since the first yield without progress; 0: the waiter has not yielded yet. */
static inline uint64_t wait_idle_ns(const struct waiter *w) {
    return w->polls > w->spin ? os_now_ns() - w->idle_since_ns : 0;
}

/* A wait that is logged once if it lasts longer than COLLET_WARN_AFTER, at any COLLET_DEBUG. The caller's line says for whom it waits and
 * why, and late_text() says since when. */
struct late {
    uint64_t since_ns; /* Time at which the wait began; 0: it has not begun */
    uint64_t due_ns;   /* Time at which the wait is to be logged; UINT64_MAX: never, or it is logged already */
};

static inline void late_begin(struct late *late, uint64_t since_ns, int64_t warn_after) {
    late->since_ns = since_ns;
    late->due_ns = warn_after > 0 ? since_ns + (uint64_t)warn_after * 1000000000u : UINT64_MAX;
}

bool late_look(struct late *late); /* True: log the wait now. It is true only once per wait */
/* "has waited for 30.0 s, since 14:03:59". Each thread has its own text. */
const char *late_text(const struct late *late);

#endif
