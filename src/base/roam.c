/* SPDX-License-Identifier: Apache-2.0
 *
 * See roam.h. A move costs some 50 µs, and is in vain if the other CPU is as busy. So a thread that goes on losing time bears four
 * times as much before each next move. And where more threads run than there are CPUs, it stays: then it is better off with a
 * thread that yields, too.
 */
#include "base/roam.h"

#include "base/cpus.h"
#include "base/os.h"

#include <sched.h>

/* A yield is long if another thread ran: two switches and that thread's work take more than this. Otherwise a yield takes 0.1 to 0.5 µs. */
#define LONG_YIELD_NS 1500u
#define BEARS_MOST_NS 1000000000u

/* A yield took yield_ns. Has the thread lost enough time to move? After each move it waits longer for the next, until a yield is short. */
static bool roam_is_due(struct roam *roam, uint64_t yield_ns) {
    if (yield_ns < LONG_YIELD_NS) {
        *roam = (struct roam){0};
        return false;
    }
    if (roam->bears_ns == 0)
        roam->bears_ns = ROAM_BEARS_NS;
    roam->lost_ns += yield_ns;
    if (roam->lost_ns <= roam->bears_ns)
        return false;
    roam->lost_ns = 0;
    roam->bears_ns = roam->bears_ns < BEARS_MOST_NS ? 4 * roam->bears_ns : roam->bears_ns;
    return true;
}

/* The first move stays within the same last-level cache. If that did not help, the next one may go to any CPU. */
void roam_yield(void) {
    static _Thread_local struct roam here;
    const bool is_first = here.bears_ns <= ROAM_BEARS_NS;
    const uint64_t from_ns = os_now_ns();
    sched_yield();
    if (roam_is_due(&here, os_now_ns() - from_ns) && os_some_cpu_is_idle())
        os_cpu_leave(!is_first);
}
