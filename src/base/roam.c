/* SPDX-License-Identifier: Apache-2.0
 *
 * See roam.h. A move costs some 50 µs, and is in vain where all CPUs are busy. So after each one that did not help, twice as many
 * long yields must come before the next. Every second one may go to any CPU that the thread may use. The others stay with the
 * last cache that they have.
 */
#include "base/roam.h"

#include "base/os.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* A yield to nobody takes 0.1 to 0.5 µs. Two switches, and what runs between them, take more. */
#define LONG_YIELD_NS 1500u
#define FEWEST_LONG_YIELDS 4u
#define MOST_LONG_YIELDS (1u << 16)

static _Thread_local struct {
    uint32_t long_yields; /* in a row */
    uint32_t needed;      /* of them, before the thread moves; 0: FEWEST_LONG_YIELDS */
    bool anywhere;        /* the next move: not only to a CPU with the same cache */
} here;

static void move_on(void) {
    os_cpu_leave(here.anywhere);
    here.anywhere = !here.anywhere;
    here.long_yields = 0;
    here.needed = here.needed < MOST_LONG_YIELDS ? 2 * here.needed : MOST_LONG_YIELDS;
}

void roam_yield(void) {
    const uint64_t from_ns = os_now_ns();
    sched_yield();
    if (os_now_ns() - from_ns < LONG_YIELD_NS) {
        here.long_yields = here.needed = 0;
        return;
    }
    if (here.needed == 0)
        here.needed = FEWEST_LONG_YIELDS;
    if (++here.long_yields >= here.needed)
        move_on();
}
