/* SPDX-License-Identifier: Apache-2.0
 *
 * A patrol: a thread of the process that checks the entries of a list from time to time, while there are entries.
 *
 *    patrol_lock ─▶ onto the list ─▶ patrol_start ──▶ round ── sleeps ── round ── sleeps ── round: PATROL_OVER ──▶ the thread ends
 *
 * The patrol's lock guards the list, and is held during a round. So a new entry is seen by the running thread, or
 * a new thread is started for it. In a child of fork(), the list is empty, the lock is free, and no thread runs: the parent's entries do not
 * belong to the child.
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
    /* Makes a round. Returns the time until the next round in nanoseconds, less than a second. 0: at once, after other threads had the
     * CPU. PATROL_OVER: there is no next round. */
    uint64_t (*round)(void);
    void *list; /* address of the pointer to the list's first entry */
    pthread_mutex_t lock;
    bool runs;
    struct patrol *next; /* next patrol of the process */
};
#define PATROL(name_, round_, list_)                                                                                   \
    { .name = (name_), .round = (round_), .list = (list_), .lock = PTHREAD_MUTEX_INITIALIZER }

/* Takes the patrol's lock before an entry is added. Once the list has had an entry, the mutex alone is enough. */
void patrol_lock(struct patrol *patrol);

/* Starts the thread, if it does not run yet. The caller holds the lock. */
enum collet_result patrol_start(struct patrol *patrol);

#endif
