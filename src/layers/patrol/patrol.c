/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/patrol/patrol.h"

#include "base/err.h"
#include "base/thread.h"

#include <sched.h>
#include <string.h>
#include <time.h>

static struct patrol *patrols; /* patrols whose lists have had an entry */
static pthread_mutex_t patrols_lock = PTHREAD_MUTEX_INITIALIZER;

/* Runs in the child after fork(): a lock may be held by a thread that only the parent has, so all locks are initialized
 * again. */
static void forget_parents_lists(void) {
    pthread_mutex_init(&patrols_lock, NULL);
    for (struct patrol *patrol = patrols; patrol != NULL; patrol = patrol->next) {
        memset(patrol->list, 0, sizeof(void *));
        patrol->runs = false;
        pthread_mutex_init(&patrol->lock, NULL);
    }
}

static void forget_in_children(void) { pthread_atfork(NULL, NULL, forget_parents_lists); }

void patrol_lock(struct patrol *patrol) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, forget_in_children);
    pthread_mutex_lock(&patrols_lock);
    struct patrol **link = &patrols;
    while (*link != NULL && *link != patrol)
        link = &(*link)->next;
    *link = patrol;
    pthread_mutex_unlock(&patrols_lock);
    pthread_mutex_lock(&patrol->lock);
}

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
