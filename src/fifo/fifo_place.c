/* SPDX-License-Identifier: Apache-2.0 */
#include "fifo/fifo_place.h"

#include "base/os.h"

void fifo_place_gauge(struct fifo_place *place, struct fifo_place_note *note) {
    __atomic_thread_fence(
        __ATOMIC_SEQ_CST); /* earlier stores drain first, so that they are not timed; it pairs with none */
    uint64_t start_ns = os_now_ns();
    __atomic_fetch_add(&note->gauged, 1, __ATOMIC_RELAXED); /* only its time matters: nobody reads it */
    bool far = os_now_ns() - start_ns >=
               LINE_TRIP_FAR_NS / 2; /* the time of one way, and of reading the clock; a round trip has two ways */
    if (far && place->far < FIFO_PLACE_FAR_MAX)
        place->far++;
    if (!far && place->far > 0)
        place->far--;
}
