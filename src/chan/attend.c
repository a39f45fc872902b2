/* SPDX-License-Identifier: Apache-2.0
 *
 * What a waiting rank does for other ranks. Otherwise, two ranks in different calls could wait for each other:
 *
 *    rank 0   call 7: all is sent, but the rail died and rank 1    ◀── waits for rank 1 ──
 *             must say what has come (transport/verbs/verbs_failover.c)                         │
 *    rank 1   has finished call 7; call 8, by other connections ── waits for rank 0 ──▶
 *
 * So a waiting rank attends to all connections of its communicator. A rank that makes calls without waiting does so five times a second. If
 * a transport's peers may wait for this rank while it is in no call, the transport has a thread for that (transport/verbs/verbs_attend.c).
 */
#include "chan/chan.h"
#include "transport/transport.h"

#define ATTEND_AFTER_NS 1000000u

void chan_attend_now(struct chan *chan) {
    if (__atomic_load_n(&chan->proxy, __ATOMIC_ACQUIRE) != NULL)
        return; /* The proxy owns these connections, and attends to them */
    if (boot_failed(chan->owner.boot) != COLLET_SUCCESS)
        return;
    for (struct conn *conn = chan->owner.first; conn != NULL; conn = conn->next)
        if (conn->state == CONN_READY && conn->transport->attend != NULL)
            conn->transport->attend(conn);
}

void chan_attend(struct chan *chan, uint64_t idle_ns, uint64_t now_ns) {
    if (idle_ns < ATTEND_AFTER_NS && now_ns - chan->attended_ns < CHAN_ATTEND_EVERY_NS)
        return;
    chan->attended_ns = now_ns;
    chan_attend_now(chan);
}
