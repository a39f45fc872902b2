/* SPDX-License-Identifier: Apache-2.0 */
#include "base/patrol.h"

#include "base/err.h"
#include "base/os.h"

#include <sched.h>
#include <time.h>

static uint64_t make_round(struct patrol *patrol) {
    pthread_mutex_lock(&patrol->lock);
    uint64_t pause_ns = patrol->round();
    patrol->runs = pause_ns != PATROL_OVER;
    pthread_mutex_unlock(&patrol->lock);
    return pause_ns;
}

static void *walk(void *patrol) {
    for (uint64_t pause_ns; (pause_ns = make_round(patrol)) != PATROL_OVER;)
        if (pause_ns == 0)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = (long)pause_ns}, NULL);
    return NULL;
}

enum collet_result patrol_start(struct patrol *patrol) {
    pthread_t thread;
    if (patrol->runs)
        return COLLET_SUCCESS;
    COLLET_TRY(os_thread_start(&thread, patrol->name, walk, patrol));
    pthread_detach(thread);
    patrol->runs = true;
    return COLLET_SUCCESS;
}
