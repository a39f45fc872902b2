/* SPDX-License-Identifier: Apache-2.0
 *
 * When a rail dies and another takes over.
 *
 *    producer                                        consumer
 *    a send fails, its port goes down … (or there ▶)  (◀ or here) its port goes down, a credit fails …
 *    own queue pairs into error
 *    LOST rail ──────────── control plane ─────────▶ own queue pairs into error: nothing that is still in the network can be
 *                                                    written any more. Takes all completions that are there
 *              ◀─────────── control plane ────────── SETTLED rail: tail, head, steps beyond tail that have arrived
 *    sends again, over rails that are up, the steps
 *    that went through this one and are not there
 *
 * The order is what makes it safe: were a slot sent again while its first write may still be executed, that write could come
 * when the slot already holds a later step. The memory of those steps is as it was, since no credit for them has been given.
 *
 * Either end may begin; both hear of it by themselves or from the other. A rail that comes back is used by connections that are
 * made from then on; this one goes on without.
 */
#include "transport/verbs_end.h"

struct settled {
    uint64_t tail, head;
    uint32_t rail;
    uint32_t arrived; /* bit k: step tail + k is there */
};

/* Consumer: has every receive been completed or flushed? Then no write through this rail can come any more. */
static bool is_flushed(const struct verbs_end *end, int r) {
    for (int q = 0; q < end->nqps; q++)
        if (end->qps[r][q].receives > 0)
            return __atomic_load_n(&end->rails[r].port->device->removed, __ATOMIC_RELAXED);
    return true;
}

static enum collet_result settle(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    struct settled settled = {.tail = *conn->end.tail, .head = wire_head(conn), .rail = (uint32_t)r};
    for (uint32_t k = 0; k < conn->end.nslots; k++)
        if (end->arrived[(settled.tail + k) & (conn->end.nslots - 1)] != 0)
            settled.arrived |= 1u << k;
    end->rails[r].state = VERBS_RAIL_DOWN;
    end->credit = settled.head;
    return boot_send(conn->owner->boot, conn->peer, transport_key(conn, VERBS_SETTLED), &settled, sizeof(settled));
}

static enum collet_result consumer_failover(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    uint32_t r;
    size_t bytes;
    while (boot_try_recv(conn->owner->boot, conn->peer, transport_key(conn, VERBS_LOST), &r, sizeof(r), &bytes) ==
           COLLET_SUCCESS)
        if (bytes == sizeof(r) && r < (uint32_t)end->nrails)
            verbs_rail_lost(conn, (int)r, "says that this rail is lost");
    for (int k = 0; k < end->nrails; k++)
        if (end->rails[k].state == VERBS_RAIL_LOST && is_flushed(end, k) && verbs_direct_settled(end, k))
            COLLET_TRY(settle(conn, k));
    return COLLET_SUCCESS;
}

/* Had the step come through the lost rail when it was settled? Steps further on were sent later, and came to nothing. */
static bool had_arrived(const struct conn *conn, const struct settled *settled, uint64_t step) {
    uint64_t ahead = step - settled->tail;
    return (int64_t)ahead < 0 || (ahead < conn->end.nslots && (settled->arrived & 1u << ahead));
}

static void take_settled(struct conn *conn, const struct settled *settled) {
    struct verbs_end *end = conn->impl;
    int r = (int)settled->rail;
    verbs_rail_lost(conn, r, "says that this rail is lost");
    if (end->rails[r].state != VERBS_RAIL_LOST)
        return;
    if ((int64_t)(settled->head - *conn->end.head) > 0)    /* else credits by another rail were faster */
        port_store_release(conn->end.head, settled->head); /* pairs with fifo_has_credit() */
    for (uint64_t step = *conn->end.head; step != end->sent; step++) {
        uint32_t slot = (uint32_t)step & (conn->end.nslots - 1);
        if (end->carrier[slot] / VERBS_QPS_MAX == r && !had_arrived(conn, settled, step))
            end->again |= 1u << slot;
    }
    end->rails[r].state = VERBS_RAIL_DOWN;
    log_info(NET, "rank %d: rail %d to rank %d is settled, %d slot(s) are sent again", conn->owner->rank, r, conn->peer,
             __builtin_popcount(end->again));
}

static enum collet_result producer_failover(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    struct settled settled;
    size_t bytes;
    while (boot_try_recv(conn->owner->boot, conn->peer, transport_key(conn, VERBS_SETTLED), &settled, sizeof(settled),
                         &bytes) == COLLET_SUCCESS) {
        bool sane = bytes == sizeof(settled) && settled.rail < (uint32_t)end->nrails &&
                    (int64_t)(end->sent - settled.tail) >= 0 && settled.tail - settled.head <= conn->end.nslots;
        if (sane)
            take_settled(conn, &settled);
        else
            verbs_set_broken(conn, "it settled a rail with counters that cannot be");
    }
    for (int r = 0; r < end->nrails; r++)
        if (end->rails[r].state == VERBS_RAIL_LOST && !end->rails[r].told) {
            uint32_t rail = (uint32_t)r;
            end->rails[r].told = true;
            COLLET_TRY(boot_send(conn->owner->boot, conn->peer, transport_key(conn, VERBS_LOST), &rail, sizeof(rail)));
        }
    return COLLET_SUCCESS;
}

void verbs_failover_progress(struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    const bool listens = end->stage == VERBS_GREETING || end->turns % LISTEN_EVERY_TURNS == 0;
    if (!verbs_settling(end) && !listens)
        return;
    enum collet_result result = conn->side == CONN_PRODUCER ? producer_failover(conn) : consumer_failover(conn);
    if (result < 0)
        verbs_set_broken(conn, "%s", err_last());
}
