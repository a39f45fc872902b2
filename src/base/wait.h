/* SPDX-License-Identifier: Apache-2.0
 *
 * The waiting policy: poll at full speed for a while, then give the CPU away between polls, then sleep between polls.
 * What is waited for, and whether it can still come, is the caller's business.
 *
 *    polls      0 … spin               spin … for yield_ns      later
 *    between    nothing, then pause    sched_yield (or move)    sleep 50 µs … 1 ms
 */
#ifndef COLLET_BASE_WAIT_H
#define COLLET_BASE_WAIT_H

#include "base/os.h"

#include <stdbool.h>

struct waiter {
    uint32_t spin;     /* polls before yielding; few where ranks outnumber CPUs: a spinning rank keeps its peer off */
    uint32_t yield_ns; /* yielding before sleeping; 0: 2 ms */
    bool roams;        /* there is a CPU for every thread that waits: one that shares its own moves (roam.h) */
    uint32_t polls;    /* number of polls without progress */
    uint64_t idle_since_ns; /* set at the first yield */
};

bool wait_pause_slowly(struct waiter *w); /* the rest of wait_pause() */

static inline void wait_progressed(struct waiter *w) { w->polls = 0; }

/* Number of first polls without a pause: an event within half a microsecond should not be delayed. */
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

/* Time without progress; 0 while it still spins. */
static inline uint64_t wait_idle_ns(const struct waiter *w) {
    return w->polls > w->spin ? os_now_ns() - w->idle_since_ns : 0;
}

/* A wait. If it lasts longer than COLLET_WARN_AFTER, that is logged once, at any COLLET_DEBUG: who is waited for, since when, and
 * why they are expected. */
struct late {
    uint64_t since_ns; /* 0: the wait has not begun */
    uint64_t due_ns;   /* time to log it; UINT64_MAX: never, or it is logged already */
};

static inline void late_begin(struct late *late, uint64_t since_ns, int64_t warn_after) {
    late->since_ns = since_ns;
    late->due_ns = warn_after > 0 ? since_ns + (uint64_t)warn_after * 1000000000u : UINT64_MAX;
}

bool late_look(struct late *late);              /* true once: it is time to log the wait */
const char *late_text(const struct late *late); /* "has waited for 30.0 s, since 14:03:59"; the thread's own text */

#endif
