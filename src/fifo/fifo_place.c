/* SPDX-License-Identifier: Apache-2.0 */
#include "fifo/fifo_place.h"

#include "base/os.h"

void fifo_place_gauge(struct fifo_place *place, struct fifo_place_note *note) {
    /* Earlier stores are finished before the clock is read. Pairs with no other fence. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    uint64_t start_ns = os_now_ns();
    /* Only the time of this access matters: nobody reads the sum. */
    __atomic_fetch_add(&note->gauged, 1, __ATOMIC_RELAXED);
    /* The line travels one way here. A round trip has two ways. */
    bool far = os_now_ns() - start_ns >= LINE_TRIP_FAR_NS / 2;
    if (far && place->far < FIFO_PLACE_FAR_MAX)
        place->far++;
    if (!far && place->far > 0)
        place->far--;
}
