/* SPDX-License-Identifier: Apache-2.0
 *
 * What is going to happen, in the order in which it does: by time, and of equal times what was put in first.
 *
 *      last taken   …0101 1001 0110
 *      bucket 0     …0101 1001 0110     the same time: first in, first out
 *      bucket 2     …0101 1001 0111     0111 and 0110 differ in bit 0 …   (bucket b: the highest bit that differs is b − 1)
 *      bucket 7     …0101 1010 ****     … the highest bit that differs is bit 5: earlier than all of bucket 7 and above
 *
 * A radix heap (R. Ahuja, K. Mehlhorn, J. Orlin, R. Tarjan, "Faster algorithms for the shortest path problem", JACM 37,
 * 1990). It needs that nothing is put in that is earlier than what was last taken out, which holds for what steps cause.
 * When bucket 0 is empty, the lowest bucket that is not is dealt anew, seen from its earliest event: every event goes to a
 * lower bucket, and few go often. Unlike a binary heap it reads and writes memory in order, and events of equal time, of
 * which a million ranks that begin together make many, cost next to nothing.
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

/* Makes an empty queue with room for so many events at once. NULL: no memory. */
struct sim_queue *sim_queue_create(size_t events);
void sim_queue_destroy(struct sim_queue *queue); /* NULL is fine */

/* Makes the queue empty again, at time 0. */
void sim_queue_reset(struct sim_queue *queue);

/* Puts an event. It may not be earlier than the event that was taken last. */
void sim_queue_put(struct sim_queue *queue, struct sim_event event);
/* False: empty. */
bool sim_queue_take(struct sim_queue *queue, struct sim_event *event_p);

/* Moves all events to later times. */
void sim_queue_delay(struct sim_queue *queue, int64_t by_ps);

#endif
