/* SPDX-License-Identifier: Apache-2.0
 *
 * What a waiting rank does for other ranks. Otherwise, two ranks in different calls could wait for each other:
 *
 *    rank 0   call 7: all is sent, but the rail died and rank 1    ◀── waits for rank 1 ──
 *             must say what has come (transport/verbs/verbs_failover.c)                         │
 *    rank 1   has finished call 7; call 8, by other connections or on another communicator ── waits for rank 0 ──▶
 *
 * So a waiting rank attends to all connections of its communicator, and to all communicators of its process whose calls
 * nobody drives. A rank whose calls go on and on does so five times a second. And while a program computes outside collet, the
 * thread collet-attend does it, as often. It is not the watch, which sends heartbeats: a device that has failed may keep
 * whoever asks it waiting.
 */
#include "base/log.h"
#include "base/memory.h"
#include "base/patrol.h"
#include "chan/chan.h"
#include "transport/transport.h"

#define ATTEND_EVERY_NS 200000000u
#define ATTEND_AFTER_NS 1000000u

static uint64_t attend_all(void);
static struct chan *listed;
static struct patrol patrol = PATROL("collet-attend", attend_all, &listed);

/* Attends to the connections of one chan; the caller holds its lock. Not if it has failed: lent memory belongs to the program again. */
static void attend_one(struct chan *chan) {
    if (__atomic_load_n(&chan->proxy, __ATOMIC_ACQUIRE) != NULL)
        return; /* the proxy owns these connections, and attends to them */
    if (boot_failed(chan->owner.boot) != COLLET_SUCCESS)
        return;
    for (struct conn *conn = chan->owner.first; conn != NULL; conn = conn->next)
        if (conn->state == CONN_READY && conn->transport->attend != NULL)
            conn->transport->attend(conn);
}

/* The caller holds the list's lock. It is released while a device is asked; chan's own lock then keeps chan on the list. */
static uint64_t attend_all(void) {
    for (struct chan *chan = listed; chan != NULL; chan = chan->next_chan) {
        if (!call_lock_try(chan->lock))
            continue;
        pthread_mutex_unlock(&patrol.lock);
        attend_one(chan);
        pthread_mutex_lock(&patrol.lock);
        call_lock_release(chan->lock);
    }
    return listed != NULL ? ATTEND_EVERY_NS : PATROL_OVER;
}

static void attend_others(void) {
    SCOPED_LOCK(&patrol.lock);
    attend_all();
}

void chan_attend_always(void) {
    SCOPED_LOCK(&patrol.lock);
    if (listed != NULL && patrol_start(&patrol) != COLLET_SUCCESS)
        log_info(CONN, "%s: while this rank is in no call, others may wait for it", err_last());
}

void chan_attend(struct chan *chan, uint64_t idle_ns, uint64_t now_ns) {
    if (idle_ns < ATTEND_AFTER_NS && now_ns - chan->attended_ns < ATTEND_EVERY_NS)
        return;
    chan->attended_ns = now_ns;
    attend_one(chan);
    attend_others();
}

void chan_list(struct chan *chan, struct call_lock *lock) {
    patrol_lock(&patrol);
    chan->lock = lock;
    chan->next_chan = listed;
    listed = chan;
    pthread_mutex_unlock(&patrol.lock);
}

void chan_unlist(struct chan *chan) {
    if (chan->lock == NULL)
        return;
    SCOPED_LOCK(&patrol.lock);
    struct chan **at = &listed;
    while (*at != NULL && *at != chan)
        at = &(*at)->next_chan;
    if (*at != NULL)
        *at = chan->next_chan;
}
