/* SPDX-License-Identifier: Apache-2.0
 *
 * An end learns from completions: of slots at the consumer, of heads at the producer, and of failures.
 *
 *    completion of a receive ─┬─▶ consumer: arrived[s]; in the order of steps ─▶ header s, tail
 *                             └─▶ producer: head
 *    completion of a send    ───▶ room in the send queue
 *    either, with an error   ───▶ the rail is lost (verbs_lost.c)
 */
#include "transport/verbs/verbs_direct.h"
#include "transport/verbs/verbs_end.h"

#include <arpa/inet.h>
#include <string.h>

#define POLL_BATCH 16
#define RECEIVE_ID (1ull << 63)

uint64_t verbs_receive_id(int index) { return RECEIVE_ID | (uint64_t)index << 32; }
static int index_of(uint64_t id) { return (int)(id >> 32 & 0xff); }

/* A counter was sent with its low 28 bits. Returns the difference between the counter nearest to `near`, with these bits, and `near`. */
static int64_t counter_ahead(uint32_t immediate, uint64_t near) {
    uint32_t ahead = (immediate - (uint32_t)near) & VERBS_COUNTER_MASK;
    return ahead > VERBS_COUNTER_MASK / 2 ? (int64_t)ahead - (int64_t)VERBS_COUNTER_MASK - 1 : (int64_t)ahead;
}

static void take_credit(struct conn *conn, uint32_t immediate) {
    uint64_t known = *conn->end.head;
    if (immediate & VERBS_LANDED)
        verbs_take_landing(conn, known + (uint64_t)counter_ahead(immediate, known));
    else if (!wire_take_head(conn, known + (uint64_t)counter_ahead(immediate, known)))
        verbs_set_broken(conn, WIRE_NOT_SENT);
}

void verbs_deliver(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    for (uint64_t step = *conn->end.tail;; step++) {
        uint32_t slot = (uint32_t)step & (conn->end.nslots - 1), arrived = end->arrived[slot];
        if (arrived == 0 || !verbs_direct_visible(end, slot))
            return;
        uint32_t word = arrived - 1, framed = end->frames_of[slot];
        if (framed & VERBS_FRAMED)
            memcpy(&end->frame, verbs_frame_at(conn, step, word, framed), sizeof(end->frame));
        end->arrived[slot] = 0;
        const char *landing = loan_landing_at(&conn->end.loans, step, fifo_word_bytes(word));
        wire_deliver(conn, word, end->frame.signature, end->frame.sequence, framed & VERBS_LANDED ? landing : NULL);
    }
}

/* With COLLET_CHECKSUM: did the step come unchanged? */
static bool is_intact(const struct conn *conn, uint64_t step, uint32_t word, uint32_t framed, const char *landing) {
    struct verbs_frame frame;
    if (!conn->owner->config->checksum)
        return true;
    if (!(framed & VERBS_FRAMED))
        return false;
    const char *slot = fifo_slot_at(&conn->end, fifo_word_protocol(word), step);
    const char *payload = framed & VERBS_LANDED ? landing : slot;
    memcpy(&frame, verbs_frame_at(conn, step, word, framed), sizeof(frame));
    return frame.crc == verbs_crc(payload, step, word, frame.sequence, frame.signature) &&
           frame.bytes == fifo_word_bytes(word) && frame.none == 0;
}

static void set_changed(struct conn *conn, uint64_t step) {
    struct verbs_end *end = conn->impl;
    if (end->broken[0] == '\0')
        conn_text_changed(conn, step, CONN_BY_CHECKSUM, end->broken);
}

/* The payload's size, from a notification with `length` bytes. A result larger than any slot means that the notification is wrong. */
static uint32_t payload_bytes(const struct verbs_end *end, uint32_t slot, uint32_t framed, uint32_t length) {
    const uint32_t behind = framed & VERBS_FRAME_BEHIND ? sizeof(struct verbs_frame) : 0;
    if ((framed & VERBS_FRAME_AHEAD) && length == 0)
        return end->frames[slot].bytes;
    return length >= behind ? length - behind : UINT32_MAX;
}

static void take_slot(struct conn *conn, int rail, uint32_t immediate, uint32_t length) {
    struct verbs_end *end = conn->impl;
    uint64_t tail = *conn->end.tail;
    uint32_t protocol = fifo_word_protocol(immediate), framed = immediate & (VERBS_FRAMED | VERBS_LANDED);
    int64_t ahead = counter_ahead(immediate, tail);
    uint64_t step = tail + (uint64_t)ahead;
    uint32_t slot = (uint32_t)step & (conn->end.nslots - 1);
    const uint32_t bytes = payload_bytes(end, slot, framed, length), word = fifo_word(protocol, bytes);
    const char *landing = loan_landing_at(&conn->end.loans, step, bytes);
    end->came_by[slot] = (uint8_t)rail;
    const bool fits = fifo_word_bytes(word) == bytes && fifo_header_fits(conn_layout(conn), word);
    if (!fits && (framed & VERBS_FRAME_AHEAD) && conn->owner->config->checksum)
        set_changed(conn, step);
    else if (!fits)
        verbs_set_broken(conn, WIRE_TOO_LONG);
    else if (step == (uint64_t)conn->owner->config->first_step && !(framed & VERBS_FRAMED))
        verbs_set_broken(conn, "it does not say which call its first slot is of");
    else if (ahead < 0 || step - wire_head(conn) >= conn->end.nslots || end->arrived[slot] != 0)
        verbs_set_broken(conn, "it sent a step that was not due, or without credit");
    else if ((framed & VERBS_LANDED) && (landing == NULL || (int64_t)(end->told - step) <= 0))
        verbs_set_broken(conn, "it says that a slot is in memory that was not offered");
    else if (!is_intact(conn, step, word, framed, landing))
        set_changed(conn, step);
    else {
        end->arrived[slot] = 1 + word;
        end->frames_of[slot] = framed;
        verbs_direct_landed(end, slot, rail, protocol == PROTOCOL_SIMPLE && bytes > 0);
    }
    verbs_deliver(conn);
}

static void take_failure(struct conn *conn, int index, const struct ibv_wc *wc) {
    struct verbs_end *end = conn->impl;
    int r = index / VERBS_QPS_MAX;
    const struct verbs_rail *rail = &end->rails[r];
    const struct verbs_qp *qp = verbs_qp_at(end, index);
    if (rail->state == VERBS_RAIL_LOST)
        return;
    verbs_look(conn); /* the device may know the reason */
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
    if (conn->side == CONN_CONSUMER)
        take_slot(conn, index / VERBS_QPS_MAX, ntohl(wc->imm_data), wc->byte_len);
    else
        take_credit(conn, ntohl(wc->imm_data));
}

/* Reposts receives, in one batch, when a quarter of them is used. Also while this rail is being tested: the peer may already use it. */
static void refill_receives(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    for (int q = 0; q < end->nqps && end->rails[r].state != VERBS_RAIL_LOST; q++) {
        struct verbs_qp *qp = &end->qps[r][q];
        if (qp->receives < qp->depths.receives - qp->depths.receives / 4 &&
            !verbs_qp_post_receives(qp, verbs_receive_id(r * VERBS_QPS_MAX + q)))
            verbs_rail_lost(conn, r, "is cut off: the device takes no receives");
    }
}

bool verbs_poll(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    struct ibv_wc wcs[POLL_BATCH];
    bool moved = false;
    int n;
    if (end->rails[r].cq == NULL)
        return false;
    do {
        n = ibv_poll_cq(end->rails[r].cq, POLL_BATCH, wcs);
        for (int k = 0; k < n; k++)
            take_completion(conn, &wcs[k]);
        moved |= n > 0;
    } while (n == POLL_BATCH);
    if (n < 0)
        verbs_rail_lost(conn, r, "is cut off: the completion queue has failed");
    else if (moved)
        refill_receives(conn, r);
    return moved;
}
