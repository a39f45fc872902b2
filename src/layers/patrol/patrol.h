/* SPDX-License-Identifier: Apache-2.0
 *
 * A patrol: a thread of the process that looks now and then at what is on a list, as long as there is something.
 *
 *    patrol_lock ─▶ onto the list ─▶ patrol_start ──▶ round ── sleeps ── round ── sleeps ── round: PATROL_OVER ──▶ the thread ends
 *
 * Its lock guards the list, and is held during a round. So what comes onto the list either finds a thread that will see it, or
 * starts one. In a child of fork() the list is empty, nobody has the lock, and no thread runs: its parent's things are none of its
 * business.
 */
#ifndef COLLET_LAYERS_PATROL_PATROL_H
#define COLLET_LAYERS_PATROL_PATROL_H

#include "collet.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define PATROL_OVER UINT64_MAX

struct patrol {
    const char *name; /* name of the thread */
    uint64_t (*round)(
        void); /* nanoseconds until the next one, less than a second; 0: others may have the CPU first; PATROL_OVER: there is none */
    void *list; /* address of the pointer to its first entry */
    pthread_mutex_t lock;
    bool runs;
    struct patrol *next; /* next one in the process's list */
};
#define PATROL(name_, round_, list_)                                                                                   \
    { .name = (name_), .round = (round_), .list = (list_), .lock = PTHREAD_MUTEX_INITIALIZER }

/* Takes the patrol's lock before an entry is added. Once the list has had an entry, the mutex alone is enough. */
void patrol_lock(struct patrol *patrol);

/* Starts the thread, if it does not run yet. The caller holds the lock. */
enum collet_result patrol_start(struct patrol *patrol);

#endif
