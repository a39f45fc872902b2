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
#ifndef COLLET_BASE_PATROL_H
#define COLLET_BASE_PATROL_H

#include "collet.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define PATROL_OVER UINT64_MAX

struct patrol {
    const char *name; /* of the thread */
    uint64_t (*round)(
        void); /* nanoseconds until the next one, less than a second; 0: others may have the CPU first; PATROL_OVER: there is none */
    void *list; /* the address of the pointer to its first entry */
    pthread_mutex_t lock;
    bool runs;
    struct patrol *next; /* of the process's */
};
#define PATROL(name_, round_, list_)                                                                                   \
    { .name = (name_), .round = (round_), .list = (list_), .lock = PTHREAD_MUTEX_INITIALIZER }

/* Takes its lock, before something comes onto the list. Once anything has, the mutex alone will do. */
void patrol_lock(struct patrol *patrol);

/* With its lock. If it runs already: no effect. */
enum collet_result patrol_start(struct patrol *patrol);

#endif
