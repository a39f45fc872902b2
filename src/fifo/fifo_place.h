/* SPDX-License-Identifier: Apache-2.0
 *
 * Where in its slot a plain payload lies, and whether it is written past the caches. No ordering depends on it; it is about
 * caches alone, and only slots in memory that two CPUs share have it: a GPU's payload lies at the slot's beginning.
 *
 *    lap of the FIFO     0         1         2         3         0 …
 *    slot            │ payload │         │         │         │         most payloads are shorter than a slot, so they roam:
 *                    │         │ payload │         │         │         from lap to lap they move on by a power of two
 *
 * What is overwritten then was read so long ago that it has left the small cache of the CPU that read it; from the larger
 * one, which CPUs share, lines come much faster. The producer decides for each slot whether its payload roams, and says so
 * in the header. A payload that is written past the caches does not: it is in no cache anyway.
 *
 * Past the caches is better where the two CPUs are far apart, because storing into lines that the other CPU's cache holds is
 * many times slower there; where they are near, it is the other way round. Which of both holds can change while a program
 * runs. So a producer gauges now and then how long such a line takes to come:
 *
 *    consumer's CPU     has read the slot's header ──┐ the line
 *    this CPU           fence, clock, atomic add ◀───┘ clock          near: under 80 ns, far: 120 and more
 *
 * and writes past the caches while most of its last gauges were far. It only matters to this end: no other rank need know.
 */
#ifndef COLLET_FIFO_FIFO_PLACE_H
#define COLLET_FIFO_FIFO_PLACE_H

#include "base/port.h"

#include <stddef.h>
#include <stdint.h>

/* If a round trip of a cache line between two CPUs takes this long, they are far apart. */
#define LINE_TRIP_FAR_NS 220u

#define FIFO_PLACE_FAR_MAX 8u

/* Where payloads lie: the state of one end of a connection. */
struct fifo_place {
    uint32_t roam_bytes; /* bytes of a slot within which payloads roam; 0: no roaming */
    uint32_t roams;      /* 1: the current payload roams. Consumer: copied from the slot's header */
    uint32_t far;      /* producer: 0 … FIFO_PLACE_FAR_MAX, goes up with each far gauge and down with each near one */
    int32_t nt_stores; /* producer: 1 always writes past the caches, 0 never does, −1 decides by `far` */
};

/* The part of a slot's header that says where the payload lies. */
struct fifo_place_note {
    uint32_t roams;  /* 1: this slot's payload roams */
    uint32_t gauged; /* number of times that the producer has timed this line */
};

/* Does this producer write past the caches? */
PORT_FN int fifo_place_streams(const struct fifo_place *place) {
    return place->nt_stores < 0 ? place->far > FIFO_PLACE_FAR_MAX / 2 : place->nt_stores;
}

/* Producer: decides whether its next payload roams. */
PORT_FN void fifo_place_choose(struct fifo_place *place) {
    place->roams = place->roam_bytes > 0 && !fifo_place_streams(place);
}

#define FIFO_PLACE_LEAST_BYTES 8192u

/* Offset of a payload in its slot, in this lap of the FIFO. */
PORT_FN size_t fifo_place_offset(const struct fifo_place *place, uint64_t lap, uint32_t bytes) {
    uint32_t piece = FIFO_PLACE_LEAST_BYTES;
    if (!place->roams || bytes <= FIFO_PLACE_LEAST_BYTES / 2)
        return 0;
    while (piece < bytes)
        piece *= 2;
    return piece < place->roam_bytes ? lap % (place->roam_bytes / piece) * piece : 0;
}

/* Measures how long the header's cache line takes to come to this CPU. Called by a producer for the header that it fills next. */
void fifo_place_gauge(struct fifo_place *place, struct fifo_place_note *note);

#endif
