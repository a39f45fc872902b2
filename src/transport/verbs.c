/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs: RDMA. Two FIFOs of the same layout, one at each end, both registered with the NICs; the producer's NIC writes slots
 * straight from the one into the other.
 *
 *    producer's FIFO                                                           consumer's FIFO
 *    slot s:  │ payload │ frame │ ── RDMA WRITE, immediate (bits, step) ─────▶ slot s:  │ payload │ frame │
 *    head                         ◀── empty RDMA WRITE, immediate (head) ─────  arrived[s]; header s, then tail
 *
 *    what                    carried by                        checked by the consumer
 *    step, 28 bits           immediate                         within nslots of tail, not there already
 *    protocol                immediate, highest three bits     is one
 *    is there a frame?       immediate, the bit below          a frame has come before, or with it
 *    payload's length        length of the write − frame       fits the slot
 *    signature, sequence     frame, behind the payload         no: they become the slot header
 *
 * Only a slot whose signature or sequence differ from those of the step before has a frame: the first of a call. The others
 * would need one more packet for it, since payloads tend to be multiples of the MTU.
 *
 * One slot is one write, and one packet where it fits into the MTU. Nothing is copied: the slot's memory at both ends is what
 * the executors read and write. Small writes are inline: the NIC need not fetch them.
 *
 * Payloads of Simple slots may lie in memory of a GPU at either end (verbs_direct.h). The frame then goes ahead of them, in a
 * write of its own without an immediate, to a place in host memory.
 *
 * Which order makes it right. Data that an RDMA WRITE puts into memory may be looked at when the completion of a write with
 * immediate, or of a later send, has been taken; polling memory for a flag that was written behind the data is not promised
 * by the InfiniBand Architecture Specification (volume 1, "Transaction Ordering"), though most machines do it. Here every
 * slot's own write has the immediate, so its completion at the consumer covers all of it, in whatever order a NIC stores the
 * parts, on however many queue pairs; and a frame that goes ahead of it is covered too, being earlier on the same queue pair.
 *
 * All notifications are absolute counters (step; head), so it does not matter if one comes twice, late, or by another path. The
 * steps go through the live queue pairs by turns, those of all rails; they may arrive out of order and are delivered in order.
 *
 * An empty write uses up a receive at the other end. Of slots at most nslots are on their way, of heads three; twice that
 * many receives are posted, and refilled before a credit is given, so a receiver is never without one.
 *
 * Credits are given when half of the slots were consumed, as tcp does, with the same argument that it cannot deadlock.
 *
 * A slot's memory may be filled anew when its credit has come back. Its own completion may still be missing then; but the
 * responder has executed the write, and a retransmission would be a duplicate, which is acknowledged without effect.
 * Completions are asked for seldom (the last write of a list, and now and then one within), to know when the send queue has
 * room and when all has been acknowledged.
 *
 * Read next: verbs_send.c, what a step is sent as; verbs_setup.c, how ends come to be; verbs_rail.c, by which ports;
 * verbs_failover.c, when a rail dies.
 */
#include "transport/verbs_end.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define POLL_BATCH 16
#define LOOK_EVERY_TURNS 1024u /* of progress() that moved nothing: asking the device is a system call */
#define RECEIVE_ID (1ull << 63)

static uint64_t verbs_card(int device) {
    (void)device;
    return verbs_host()->kinds;
}

static bool verbs_reaches(const struct peer_info *a, const struct peer_info *b, const char **why) {
    *why = verbs_kinds(a) == 0 || verbs_kinds(b) == 0 ? "no RDMA port on one of both hosts (see collet-info)"
                                                      : "their RDMA networks differ (see collet-info)";
    return verbs_common_kind(verbs_kinds(a), verbs_kinds(b)) >= 0;
}

/* ------------------------------------------------------------------------------------------------------------- completions */

uint64_t verbs_receive_id(int index) { return RECEIVE_ID | (uint64_t)index << 32; }
static int index_of(uint64_t id) { return (int)(id >> 32 & 0xff); }

/* The counter nearest to `near` whose low 28 bits came: what is older than near is negative in the difference. */
static int64_t counter_ahead(uint32_t immediate, uint64_t near) {
    uint32_t ahead = (immediate - (uint32_t)near) & VERBS_COUNTER_MASK;
    return ahead > VERBS_COUNTER_MASK / 2 ? (int64_t)ahead - (int64_t)VERBS_COUNTER_MASK - 1 : (int64_t)ahead;
}

static void take_credit(struct conn *conn, uint32_t immediate) {
    uint64_t known = *conn->end.head;
    int64_t ahead = counter_ahead(immediate, known);
    if (ahead <= 0) /* it comes after a newer one */
        return;
    if ((uint64_t)ahead > wire_tail(conn) - known)
        verbs_set_broken(conn, "it returned credits for slots that were not sent");
    else
        port_store_release(conn->end.head, known + (uint64_t)ahead); /* pairs with fifo_has_credit() */
}

static void deliver_slots(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    for (uint64_t step = *conn->end.tail;; step++) {
        uint32_t slot = (uint32_t)step & (conn->end.nslots - 1), arrived = end->arrived[slot];
        if (arrived == 0 || !verbs_direct_visible(end, slot))
            return;
        struct fifo_slot_header *header = &conn->end.headers[slot];
        header->word = (arrived - 1) & ~VERBS_FRAME_BIT;
        if ((arrived - 1) & VERBS_FRAME_BIT)
            memcpy(&end->frame, verbs_frame_at(conn, step, header->word), sizeof(end->frame));
        header->signature = end->frame.signature;
        header->sequence = end->frame.sequence;
        end->arrived[slot] = 0;
        port_store_release(conn->end.tail, step + 1); /* pairs with fifo_has_data() */
    }
}

static void take_slot(struct conn *conn, int rail, uint32_t immediate, uint32_t length) {
    struct verbs_end *end = conn->impl;
    uint64_t tail = *conn->end.tail;
    uint32_t protocol = fifo_word_protocol(immediate), framed = immediate & VERBS_FRAME_BIT;
    bool behind = framed && (protocol != PROTOCOL_SIMPLE || !verbs_frames_apart(end));
    uint32_t frame_bytes = behind ? (uint32_t)sizeof(struct verbs_frame) : 0, bytes = length - frame_bytes;
    uint32_t word = fifo_word(protocol, bytes);
    int64_t ahead = counter_ahead(immediate, tail);
    uint64_t step = tail + (uint64_t)ahead;
    uint32_t slot = (uint32_t)step & (conn->end.nslots - 1);
    if (length < frame_bytes || !fifo_header_fits(&conn->owner->layout, word))
        verbs_set_broken(conn, "it sent more than a slot holds");
    else if (step == (uint64_t)conn->owner->config->first_step && !framed)
        verbs_set_broken(conn, "it does not say which call its first slot is of");
    else if (ahead < 0 || step - wire_head(conn) >= conn->end.nslots || end->arrived[slot] != 0)
        verbs_set_broken(conn, "it sent a step that was not due, or without credit");
    else {
        end->arrived[slot] = 1 + (word | framed);
        verbs_direct_landed(end, slot, rail, protocol == PROTOCOL_SIMPLE && bytes > 0);
    }
    deliver_slots(conn);
}

static void take_failure(struct conn *conn, int index, const struct ibv_wc *wc) {
    struct verbs_end *end = conn->impl;
    int r = index / VERBS_QPS_MAX;
    const struct verbs_rail *rail = &end->rails[r];
    const struct verbs_qp *qp = verbs_qp_at(end, index);
    if (rail->state != VERBS_RAIL_UP)
        return;       /* flushed, as was asked for */
    verbs_look(conn); /* the device may know more */
    int event = __atomic_load_n(&qp->event, __ATOMIC_RELAXED);
    verbs_rail_lost(conn, r, "%s; queue pair %u, %s%s%s%s", verbs_status_meaning(wc->status), qp->qp->qp_num,
                    end->host->lib.wc_status_str(wc->status), event != 0 ? ", " : "",
                    event != 0 ? end->host->lib.event_type_str((enum ibv_event_type)event) : "",
                    rail->port->down ? ", this end's port is down" : "");
}

static void take_completion(struct conn *conn, const struct ibv_wc *wc) {
    struct verbs_end *end = conn->impl;
    int index = index_of(wc->wr_id);
    struct verbs_qp *qp = verbs_qp_at(end, index);
    bool received = wc->wr_id & RECEIVE_ID;
    if (received)
        qp->receives--;
    else
        qp->completed = (uint32_t)wc->wr_id;
    if (wc->status != IBV_WC_SUCCESS) {
        take_failure(conn, index, wc);
        return;
    }
    if (!received)
        return;
    qp->greeted = true;
    if (conn->side == CONN_CONSUMER)
        take_slot(conn, index / VERBS_QPS_MAX, ntohl(wc->imm_data), wc->byte_len);
    else
        take_credit(conn, ntohl(wc->imm_data));
}

/* What one poll has taken is replaced in one go, once a quarter is gone. */
static void refill(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    for (int q = 0; q < end->nqps && end->rails[r].state == VERBS_RAIL_UP; q++) {
        struct verbs_qp *qp = &end->qps[r][q];
        if (qp->receives < qp->depths.receives - qp->depths.receives / 4 &&
            !verbs_qp_post_receives(qp, verbs_receive_id(r * VERBS_QPS_MAX + q)))
            verbs_rail_lost(conn, r, "is cut off: the device takes no receives");
    }
}

bool verbs_poll(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    struct ibv_wc wcs[POLL_BATCH];
    int n = ibv_poll_cq(end->rails[r].cq, POLL_BATCH, wcs);
    for (int k = 0; k < n; k++)
        take_completion(conn, &wcs[k]);
    if (n < 0)
        verbs_rail_lost(conn, r, "is cut off: the completion queue has failed");
    else if (n > 0)
        refill(conn, r);
    return n > 0;
}

/* ---------------------------------------------------------------------------------------------------------------- consumer */

static bool credit_is_due(const struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    uint64_t half = conn->end.nslots > 1 ? conn->end.nslots / 2 : 1;
    return wire_head(conn) - end->credit >= half;
}

static void send_credit(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    uint64_t head = wire_head(conn);
    if (end->nlive == 0 || !credit_is_due(conn))
        return;
    int index = end->live[head % (uint64_t)end->nlive];
    errno = 0;
    if (verbs_post_counter(conn, index, head))
        end->credit = head;
    else if (errno != 0)
        verbs_rail_lost(conn, index / VERBS_QPS_MAX, "could not be sent to: the device takes no sends (%s)",
                        strerror(errno));
}

/* --------------------------------------------------------------------------------------------------------------- the table */

static bool has_left(const struct conn *conn) {
    return boot_missing_count(conn->owner->boot) > 0 &&
           boot_peer_state(conn->owner->boot, conn->peer, NULL) == PEER_LEFT;
}

static bool poll_rails(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    bool moved = false;
    for (int r = 0; r < end->nrails; r++)
        moved |= verbs_poll(conn, r);
    if (!moved && ++end->turns % LOOK_EVERY_TURNS == 0)
        verbs_look(conn);
    return moved;
}

static bool all_greeted(const struct conn *conn) {
    struct verbs_end *end = conn->impl;
    for (int k = 0; k < end->nlive; k++) {
        const struct verbs_qp *qp = verbs_qp_at(end, end->live[k]);
        if (conn->side == CONN_PRODUCER ? !qp->greeted : qp->completed == 0)
            return false;
    }
    return true;
}

static enum collet_result err_broken(const struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    return err_set(COLLET_ERR_REMOTE, "%s", end->broken);
}

static enum collet_result verbs_ready(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    if (end->stage == VERBS_OFFERED)
        COLLET_TRY(verbs_connect(conn));
    if (end->stage == VERBS_READY)
        return COLLET_SUCCESS;
    poll_rails(conn);
    if (end->broken[0] != '\0')
        return err_broken(conn);
    if (!all_greeted(conn))
        return COLLET_IN_PROGRESS;
    end->stage = VERBS_READY;
    verbs_update_live(end);
    return COLLET_SUCCESS;
}

static bool move(struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    bool moved = poll_rails(conn);
    if (end->direct.memory != NULL && verbs_direct_progress(conn)) {
        deliver_slots(conn);
        moved = true;
    }
    if (end->nrails > 1)
        verbs_failover_progress(conn);
    if (conn->side == CONN_PRODUCER)
        moved |= verbs_send_slots(conn);
    else
        send_credit(conn);
    return moved;
}

/* A rail that died is settled by both ends, and the producer's call does not end before. */
static void verbs_attend(struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    if (end->nrails > 1 && end->broken[0] == '\0')
        move(conn);
}

/* What was received stays consumable, and the failure is reported when that is all consumed. That a rank which has finished
 * and left no longer answers is none: whether somebody still waits for it, the executor knows. */
static enum collet_result verbs_progress(struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    bool moved = move(conn);
    bool consumed = conn->side == CONN_PRODUCER || wire_head(conn) == *conn->end.tail;
    if (end->broken[0] != '\0' && !moved && consumed && !has_left(conn))
        return err_broken(conn);
    return moved ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}

static bool all_acknowledged(const struct conn *conn) {
    struct verbs_end *end = conn->impl;
    for (int k = 0; k < end->nlive; k++) {
        const struct verbs_qp *qp = verbs_qp_at(end, end->live[k]);
        if (qp->posted != qp->completed)
            return false;
    }
    return !verbs_settling(end);
}

/* The NIC delivers what it was given, whether anybody makes progress or not; unless its rail dies and another must take
 * over. So where that can happen, an end is only idle when all has been acknowledged. */
static bool verbs_idle(const struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    bool handed_over =
        conn->side == CONN_PRODUCER ? wire_tail(conn) == end->sent && end->again == 0 : !credit_is_due(conn);
    if (handed_over && (end->nrails == 1 || all_acknowledged(conn)))
        return true;
    return (conn->side == CONN_CONSUMER && end->broken[0] != '\0') || has_left(conn);
}

const struct transport transport_verbs = {
    .name = "verbs",
    .remote = 1,
    .messages = 1,
    .card = verbs_card,
    .reaches = verbs_reaches,
    .offer = verbs_offer,
    .accept = verbs_accept,
    .ready = verbs_ready,
    .progress = verbs_progress,
    .idle = verbs_idle,
    .attend = verbs_attend,
    .close = verbs_free,
};
