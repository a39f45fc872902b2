/* SPDX-License-Identifier: Apache-2.0
 *
 * See roam.h. A move costs some 50 µs, and is useless if the other CPU is as busy. So a thread that still loses time after a move must lose
 * four times as much before its next move. If more threads run than there are CPUs, a thread does not move: sharing a CPU with another
 * thread that yields is then better.
 */
#include "base/roam.h"

#include "base/cpus.h"
#include "base/os.h"

#include <sched.h>

/* A yield that takes longer is long: another thread ran, because two context switches and that thread's work take more than this.
 * Without another thread a yield takes 0.1 to 0.5 µs. */
#define LONG_YIELD_NS 1500u
#define BEARS_MOST_NS 1000000000u

/* A yield took yield_ns. Has the thread now lost enough time to move? Each move raises the loss that the next move needs. A short yield
 * resets it. */
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

/* The first move goes to a CPU with the same last-level cache. If that did not help, the next move may go to any CPU. */
void roam_yield(void) {
    static _Thread_local struct roam here;
    const bool is_first = here.bears_ns <= ROAM_BEARS_NS;
    const uint64_t from_ns = os_now_ns();
    sched_yield();
    if (roam_is_due(&here, os_now_ns() - from_ns) && os_some_cpu_is_idle())
        os_cpu_leave(!is_first);
}
