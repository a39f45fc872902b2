/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that is in no call may still know a fact for which others wait: which slots have come by a rail that died
 * (verbs_failover.c). So while this process has connections over RDMA, the thread collet-attend looks five times a second
 * at all communicators that nobody drives. The watch does not do this, because it sends heartbeats, and a device that has
 * failed may block a thread that asks it.
 */
#include "transport/verbs/verbs_attend.h"

#include "api/comm.h"
#include "base/log.h"
#include "base/memory.h"
#include "layers/patrol/patrol.h"
#include "seams/layer.h"

#include <stdlib.h>

struct attended {
    struct chan *chan;
    struct call_lock *lock; /* the communicator's lock; held while chan is used */
    struct attended *next;
};

static uint64_t attend_all(void);
static struct attended *listed;
static struct patrol patrol = PATROL("collet-attend", attend_all, &listed);

/* The caller holds the list's lock. The lock is released while a device is asked. Then the communicator's own lock keeps it on the list. */
static uint64_t attend_all(void) {
    for (struct attended *at = listed; at != NULL; at = at->next) {
        if (!call_lock_try(at->lock))
            continue;
        pthread_mutex_unlock(&patrol.lock);
        chan_attend_now(at->chan);
        pthread_mutex_lock(&patrol.lock);
        call_lock_release(at->lock);
    }
    return listed != NULL ? CHAN_ATTEND_EVERY_NS : PATROL_OVER;
}

void verbs_attend_start(void) {
    SCOPED_LOCK(&patrol.lock);
    if (listed != NULL && patrol_start(&patrol) != COLLET_SUCCESS)
        log_info(CONN, "%s: while this rank is in no call, others may wait for it", err_last());
}

static enum collet_result verbs_attend_list(struct chan *chan, struct call_lock *lock) {
    struct attended *attended;
    COLLET_TRY(memory_get(&attended, 1, sizeof *attended, "no memory to attend to connections"));
    patrol_lock(&patrol);
    *attended = (struct attended){chan, lock, listed};
    listed = attended;
    pthread_mutex_unlock(&patrol.lock);
    return COLLET_SUCCESS;
}

/* The caller holds the communicator's lock. chan need not be listed. */
static void verbs_attend_unlist(const struct chan *chan) {
    SCOPED_LOCK(&patrol.lock);
    struct attended **at = &listed;
    while (*at != NULL && (*at)->chan != chan)
        at = &(*at)->next;
    struct attended *found = *at;
    if (found != NULL)
        *at = found->next;
    free(found);
}

/* A proxy attends to the connections of ranks on GPUs. */
static enum collet_result open_comm(struct collet_comm *comm) {
    return comm->gpu == NULL ? verbs_attend_list(comm->chan, &comm->lock) : COLLET_SUCCESS;
}

static bool close_comm(struct collet_comm *comm) {
    verbs_attend_unlist(comm->chan);
    return true;
}

const struct layer layer_verbs = {.comm_open = open_comm, .comm_close = close_comm};
