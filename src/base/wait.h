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
    uint32_t polls;    /* without progress */
    uint64_t idle_since_ns; /* set at the first yield */
};

bool wait_pause_slowly(struct waiter *w); /* the rest of wait_pause() */

static inline void wait_progressed(struct waiter *w) { w->polls = 0; }

/* The first polls follow each other without a pause: what comes within half a microsecond should not be kept waiting. */
#define WAIT_EAGER_POLLS 32u

/* One pause after a poll that found nothing. True once in a while: the caller should then look whether what it waits for
 * can still come. */
static inline bool wait_pause(struct waiter *w) {
    if (w->polls++ >= w->spin)
        return wait_pause_slowly(w);
    if (w->polls > WAIT_EAGER_POLLS)
        os_cpu_relax();
    return w->polls % WAIT_EAGER_POLLS == 0;
}

/* How long nothing has moved; 0 while still spinning. */
static inline uint64_t wait_idle_ns(const struct waiter *w) {
    return w->polls > w->spin ? os_now_ns() - w->idle_since_ns : 0;
}

/* A wait that lasts longer than COLLET_WARN_AFTER says so once, whatever COLLET_DEBUG is: for whom, since when, and what says that they
 * will come. */
struct late {
    uint64_t since_ns; /* 0: it has not begun */
    uint64_t due_ns;   /* when to say so; UINT64_MAX: never, or it is said */
};

static inline void late_begin(struct late *late, uint64_t since_ns, int64_t warn_after) {
    late->since_ns = since_ns;
    late->due_ns = warn_after > 0 ? since_ns + (uint64_t)warn_after * 1000000000u : UINT64_MAX;
}

bool late_look(struct late *late);              /* true once: it is time to say so */
const char *late_text(const struct late *late); /* "has waited for 30.0 s, since 14:03:59"; the thread's own */

#endif
