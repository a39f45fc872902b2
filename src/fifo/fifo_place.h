/* SPDX-License-Identifier: Apache-2.0
 *
 * Where in its slot a plain payload lies, and whether the producer writes the payload past the caches. Both matter to speed alone: no
 * ordering depends on them. Both apply only to slots in memory that two CPUs share. A GPU's payload lies at the slot's beginning.
 *
 *    lap of the FIFO     0         1         2         3         0 …
 *    slot            │ payload │         │         │         │         most payloads are shorter than a slot, so they roam:
 *                    │         │ payload │         │         │         from lap to lap they move on by a power of two
 *
 * The producer then overwrites bytes that the consumer read long ago. They have left the small cache of the consumer's CPU. From the
 * larger cache, which CPUs share, lines come much faster. The producer decides for each slot whether its payload roams, and says so
 * in the header. A payload that is written past the caches does not roam: it is in no cache anyway.
 *
 * Writing past the caches is faster if the two CPUs are far apart, because a store into a line that the other CPU's cache holds is
 * then many times slower. If the two CPUs are near, writing through the caches is faster. The distance can change while a program
 * runs, because threads move between CPUs. So a producer measures now and then how long such a line takes to come (a gauge):
 *
 *    consumer's CPU     has read the slot's header ──┐ the line
 *    this CPU           fence, clock, atomic add ◀───┘ clock          near: under 80 ns, far: 120 and more
 *
 * The producer writes past the caches while most of its last gauges were far. No other rank needs to know.
 */
#ifndef COLLET_FIFO_FIFO_PLACE_H
#define COLLET_FIFO_FIFO_PLACE_H

#include "base/port.h"

#include <stddef.h>
#include <stdint.h>

/* If a round trip of a cache line between two CPUs takes this long or longer, the CPUs are far apart. */
#define LINE_TRIP_FAR_NS 220u

#define FIFO_PLACE_FAR_MAX 8u

/* Where payloads lie: the state of one end of a connection. */
struct fifo_place {
    uint32_t roam_bytes; /* Payloads roam within this many bytes of a slot; 0: they do not roam */
    uint32_t roams;      /* 1: the current payload roams. A consumer copies this from the slot's header */
    uint32_t far; /* Producer: a number from 0 to FIFO_PLACE_FAR_MAX. A far gauge adds 1, a near gauge subtracts 1 */
    int32_t nt_stores; /* Producer: 1: it always writes past the caches. 0: it never does. −1: `far` decides */
};

/* The part of a slot's header that says where the payload lies. */
struct fifo_place_note {
    uint32_t roams;  /* 1: this slot's payload roams */
    uint32_t gauged; /* How many times the producer has gauged this cache line */
};

/* Does this producer write its next payload past the caches? */
PORT_FN int fifo_place_streams(const struct fifo_place *place) {
    return place->nt_stores < 0 ? place->far > FIFO_PLACE_FAR_MAX / 2 : place->nt_stores;
}

/* Producer: decides whether its next payload roams. */
PORT_FN void fifo_place_choose(struct fifo_place *place) {
    place->roams = place->roam_bytes > 0 && !fifo_place_streams(place);
}

#define FIFO_PLACE_LEAST_BYTES 8192u

/* The offset of a payload in its slot. lap: how often the producer has gone through all slots. */
PORT_FN size_t fifo_place_offset(const struct fifo_place *place, uint64_t lap, uint32_t bytes) {
    uint32_t piece = FIFO_PLACE_LEAST_BYTES;
    if (!place->roams || bytes <= FIFO_PLACE_LEAST_BYTES / 2)
        return 0;
    while (piece < bytes)
        piece *= 2;
    return piece < place->roam_bytes ? lap % (place->roam_bytes / piece) * piece : 0;
}

/* Gauges how long the header's cache line takes to come to this CPU. A producer calls this for the header that it fills next. */
void fifo_place_gauge(struct fifo_place *place, struct fifo_place_note *note);

#endif
