/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs: RDMA. There are two FIFOs of the same layout, one at each end, both registered with the NICs. The producer's NIC
 * writes slots directly from one FIFO into the other.
 *
 *    producer's FIFO                                                           consumer's FIFO
 *    slot s:  │ payload │ frame │ ── RDMA WRITE, immediate (bits, step) ─────▶ slot s:  │ payload │ frame │
 *    head                         ◀── empty RDMA WRITE, immediate (head) ─────  arrived[s]; header s, then tail
 *
 *    what                    carried by                        checked by the consumer
 *    step, 26 bits           immediate                         within nslots of tail, not there already
 *    protocol                immediate, highest three bits     is one
 *    where is the frame?     immediate, the two bits below     a frame has come before, or with it
 *    has it landed?          immediate, the bit below          where it is, was offered (verbs_land.c)
 *    payload's length        length of the write − frame, or   fits the slot
 *                            a frame ahead of it
 *    signature, sequence     frame, behind the payload         no: they become the slot header
 *    all of the above        frame                             with COLLET_CHECKSUM, by its CRC32C; then each slot has a frame
 *
 * A slot has a frame only if its signature or sequence differs from the step before: usually, if it is the first slot of a
 * call. For other slots, a frame would need one more packet, because payloads tend to be multiples of the MTU.
 *
 * One slot is one write, and one packet if it fits into the MTU. Nothing is copied: the executors read and write the slot's
 * memory at both ends. Small writes are inline, so the NIC need not fetch them.
 *
 * Payloads of Simple slots may lie in GPU memory at either end (verbs_direct.h). Other payloads may come from the program's
 * memory (verbs_send.c), and go into it (verbs_land.c). In these cases the frame goes before the payload, in a write of its
 * own without an immediate, to a place in host memory.
 *
 * Why is the order right? An RDMA WRITE puts data into memory. The data may be read after the completion of a write with
 * immediate, or of a later send, has been taken. The InfiniBand Architecture Specification (volume 1, "Transaction
 * Ordering") does not promise that a flag in memory becomes visible after the data before it, though on most machines it
 * does. Here every slot's own write has the immediate. So its completion at the consumer covers the whole slot, in whatever
 * order a NIC stores its parts, and on however many queue pairs. A frame in a write of its own is covered too, because it
 * is earlier on the same queue pair.
 *
 * All notifications are absolute counters (step or head), so a notification may come twice, late, or by another path. Steps
 * use the live queue pairs of all rails in turn. They may arrive out of order, and are delivered in order.
 *
 * Long payloads over InfiniBand go as plain writes, and an empty write with the immediate follows them (verbs_send.c).
 *
 * Each notification uses up a receive at the other end. At most nslots slots, or three heads, are on their way. Twice that
 * many receives are posted, and used ones are replaced before a credit is given. So there is always a receive.
 *
 * Credits are given when they are due (wire.h).
 *
 * A slot's memory may be filled again when its credit has come back. The completion of its write may still be missing then.
 * But the responder has executed the write, and it acknowledges a retransmission as a duplicate, without effect.
 * Completions are requested only for the last write of a list, and for some writes within it. They tell when the send queue
 * has room, and when everything has been acknowledged.
 *
 * Read next, each file above those after it: verbs_setup.c, how ends are made; verbs_send.c, how a step is sent;
 * verbs_receive.c, what comes; verbs_land.c, where payloads go; verbs_failover.c and verbs_lost.c, what happens when a rail
 * dies; verbs_rail.c, which ports are used.
 */
#include "layers/memory/registration.h"
#include "transport/verbs/verbs_attend.h"
#include "transport/verbs/verbs_direct.h"
#include "transport/verbs/verbs_end.h"

#define LOOK_EVERY_TURNS 1024u /* turns of progress() between two questions to the device, which are system calls */

static uint64_t verbs_card(int device) {
    (void)device;
    return verbs_host_card(verbs_host());
}

static bool verbs_reaches(const struct peer_info *a, const struct peer_info *b, const char **why) {
    *why = verbs_card_of(a) == 0 || verbs_card_of(b) == 0 ? "no RDMA port on one of the two hosts (see collet-info)"
                                                          : "their RDMA networks differ (see collet-info)";
    return verbs_common_kind(verbs_card_of(a), verbs_card_of(b)) >= 0;
}

static bool poll_rails(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    bool moved = false;
    for (int r = 0; r < end->nrails; r++)
        moved |= verbs_poll(conn, r);
    if (++end->turns % LOOK_EVERY_TURNS == 0)
        verbs_look(conn);
    return moved;
}

static enum collet_result err_broken(const struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    return err_set(COLLET_ERR_REMOTE, "%s", end->broken);
}

/* Sets the error that no rail works. Both ends come to this error. */
static enum collet_result err_no_rail(const struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    return err_set(
        COLLET_ERR_UNSUPPORTED,
        "no RDMA port between rank %d and rank %d (host %s) carries anything: %s; COLLET_IB_DISABLE=1 does without",
        conn->owner->rank, conn->peer, conn->owner->peers[conn->peer].host,
        end->lost[0] != '\0' ? end->lost : "all are down or unreachable: set the links up");
}

/* Is it not known yet which rails will work? */
static bool rails_are_in_doubt(const struct verbs_end *end) {
    bool doubt = verbs_any_rail(end, VERBS_RAIL_TESTED) || verbs_any_rail(end, VERBS_RAIL_LOST);
    for (int r = 0; r < end->nrails; r++)
        doubt |= end->rails[r].untried && verbs_rail_is_needed(end, r);
    return doubt;
}

static enum collet_result verbs_ready(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    if (end->stage == VERBS_OFFERED)
        COLLET_TRY(verbs_connect(conn));
    if (end->stage == VERBS_READY)
        return COLLET_SUCCESS;
    poll_rails(conn);
    verbs_failover_progress(conn);
    if (end->broken[0] != '\0')
        return err_broken(conn);
    if (rails_are_in_doubt(end))
        return COLLET_IN_PROGRESS;
    if (end->nlive == 0)
        return err_no_rail(conn);
    end->stage = VERBS_READY;
    verbs_update_live(end);
    wire_allow_loans(conn, registration_covers);
    verbs_attend_start();
    return COLLET_SUCCESS;
}

static bool move_both(struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    bool moved = poll_rails(conn);
    if (end->direct.memory != NULL && verbs_direct_progress(conn)) {
        verbs_deliver(conn);
        moved = true;
    }
    if (end->nrails > 1)
        verbs_failover_progress(conn);
    if (conn->side == CONN_PRODUCER)
        moved |= verbs_send_slots(conn);
    else {
        verbs_tell_landings(conn); /* before the credit: the producer then knows where to send */
        verbs_send_credit(conn);
    }
    return moved;
}

/* Both ends must settle a dead rail: the producer's call ends only after that. Both ends must test a rail that is back. */
static void verbs_attend(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    if (end->nrails <= 1 || end->broken[0] != '\0')
        return;
    end->turns |= LISTEN_EVERY_TURNS - 1; /* called rarely: the next turn reads letters */
    move_both(conn);
}

/* Slots that have come may still be consumed; the failure is reported after the last of them. If a rank has finished and left, its
 * silence is no failure: the executor knows whether somebody still waits for it. */
static enum collet_result verbs_progress(struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    bool moved = move_both(conn);
    bool consumed = conn->side == CONN_PRODUCER || wire_head(conn) == *conn->end.tail;
    if (end->broken[0] != '\0' && !moved && consumed && !conn_peer_has_left(conn))
        return err_broken(conn);
    return moved ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}

/* Producer: has every published slot been given to a queue pair? */
static bool all_is_sent(const struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    return wire_tail(conn) == end->sent && end->again == 0;
}

/* The NIC delivers posted writes, even if nobody makes progress. But if its rail dies, another rail must take over. So if there are
 * several rails, an end is idle only when everything is acknowledged. */
static bool verbs_idle(const struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    bool handed_over = conn->side == CONN_PRODUCER ? all_is_sent(conn) : !wire_credit_is_due(conn, end->credit);
    bool settled = end->nrails == 1 ? verbs_loans_acknowledged(conn)
                                    : verbs_all_acknowledged(conn) && !verbs_any_rail(end, VERBS_RAIL_LOST);
    if (handed_over && settled)
        return true;
    return (conn->side == CONN_CONSUMER && end->broken[0] != '\0') || conn_peer_has_left(conn);
}

/* Is the program's memory not needed any more? Data of a lost rail may be sent again. */
static bool needs_no_memory(const struct conn *conn) {
    if (conn->side == CONN_CONSUMER)
        return !verbs_may_land(conn);
    return all_is_sent(conn) && verbs_loans_acknowledged(conn) && !verbs_any_rail(conn->impl, VERBS_RAIL_LOST);
}

/* After a failed call, the program may write its send buffers and read its receive buffers. So no other rank may receive from its send
 * buffers, or write to its receive buffers. */
static void verbs_stop(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    if (conn->end.loans.way != LOAN_WIRE || needs_no_memory(conn))
        return;
    for (int k = 0; k < end->nrails * end->nqps; k++)
        verbs_qp_fail(end->host, &end->qps[k / end->nqps][k % end->nqps]);
    verbs_set_broken(conn, "a call failed in the middle of memory of the program");
}

/* The CPUs near the home rail's NIC, or the first rail's. */
static const struct os_cpu_set *verbs_cpus(const struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    return &end->rails[end->home < 0 ? 0 : end->home].port->device->cpus;
}

const struct transport transport_verbs = {
    .name = "verbs",
    .bit = COLLET_TRANSPORT_VERBS,
    .remote = true,
    .messages = true,
    .card = verbs_card,
    .reaches = verbs_reaches,
    .offer = verbs_offer,
    .accept = verbs_accept,
    .ready = verbs_ready,
    .progress = verbs_progress,
    .idle = verbs_idle,
    .attend = verbs_attend,
    .cpus = verbs_cpus,
    .stop = verbs_stop,
    .link_text = verbs_link_text,
    .close = verbs_free,
};
