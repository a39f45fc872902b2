/* SPDX-License-Identifier: Apache-2.0
 *
 * A queue of events in the order of their times. Of equal times, the event that was put in first comes first.
 *
 *      last taken   …0101 1001 0110
 *      bucket 0     …0101 1001 0110     the same time: first in, first out
 *      bucket 2     …0101 1001 0111     0111 and 0110 differ in bit 0 …   (bucket b: the highest bit that differs is b − 1)
 *      bucket 7     …0101 1010 ****     … the highest bit that differs is bit 5: earlier than all of bucket 7 and above
 *
 * A radix heap (R. Ahuja, K. Mehlhorn, J. Orlin, R. Tarjan, "Faster algorithms for the shortest path problem", JACM 37,
 * 1990). No event may be put in that is earlier than the event that was last taken out. A step only causes later events, so this holds.
 * When bucket 0 is empty, the events of the lowest bucket that is not empty are dealt anew, seen from its earliest event: every event goes
 * to a lower bucket, and few events move often. Unlike a binary heap, this queue reads and writes memory in order. Events of equal time
 * cost next to nothing, and a million ranks that begin together make many of them.
 */
#ifndef COLLET_LAYERS_TUNER_SIM_QUEUE_H
#define COLLET_LAYERS_TUNER_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_event {
    int64_t at_ps;
    int32_t worker;
};

/* Makes an empty queue with room for `events` events at once. NULL: there is no memory. */
struct sim_queue *sim_queue_create(size_t events);
void sim_queue_destroy(struct sim_queue *queue); /* `queue` may be NULL. */

/* Makes the queue empty again, at time 0. */
void sim_queue_reset(struct sim_queue *queue);

/* Puts an event into the queue. It must not be earlier than the event that was taken last. */
void sim_queue_put(struct sim_queue *queue, struct sim_event event);
/* Takes the earliest event. False: the queue is empty. */
bool sim_queue_take(struct sim_queue *queue, struct sim_event *event_p);

/* Moves all events to later times, each by by_ps. */
void sim_queue_delay(struct sim_queue *queue, int64_t by_ps);

#endif
