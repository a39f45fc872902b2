/* SPDX-License-Identifier: Apache-2.0
 *
 * What hooks ask of the search. A thread that comes to a choice stops there; the search lets one thread go on at a time.
 */
#ifndef COLLET_TESTS_MODEL_EXPLORE_H
#define COLLET_TESTS_MODEL_EXPLORE_H

#include "memory.h"

/* The thread that runs now; −1: none, the model prepares or checks. */
int explore_thread(void);

/* The running thread is about to load from the place; returns which store it reads. */
int explore_load(struct place *place, bool in_order);
/* The running thread is about to read, modify and write the place, or to store where other threads do. */
void explore_exchange(struct place *place);
/* The running thread has stored to the place. */
void explore_stored(const struct place *place);

/* The running thread waits until ready() says so: for a mutex, a signal. */
void explore_block(struct place *place, bool (*ready)(const void *argument), const void *argument, const char *what);

/* The running thread has got a mutex. To take it and give it back changes nothing by itself. */
void explore_locked(const struct place *mutex);

/* Says what the running thread does, if a finding is being printed. */
__attribute__((format(printf, 1, 2))) void explore_say(const char *format, ...);

#endif
