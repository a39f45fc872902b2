/* SPDX-License-Identifier: Apache-2.0
 *
 * An end sends writes: a producer's published steps become writes; a consumer's heads become empty writes.
 *
 *    in the same write                     │ payload │ frame │ ── WRITE, immediate ──▶ the slot
 *    two, on one queue pair: a payload     │ frame │ ───────────── WRITE ────────────▶ its place in host memory
 *    that is lent, or in memory of a       │ payload │ ─────────── WRITE, immediate ─▶ the slot
 *    GPU, here or there
 *    three, on one queue pair: a long      │ frame │ ───────────── WRITE ────────────▶ its place in host memory
 *    payload, if switches route            │ payload │ ─────────── WRITE ────────────▶ the slot
 *    adaptively                            nothing ─────────────── WRITE, immediate ─▶
 *
 * A lent payload (layers/memory/loan.h) is read from the program's memory, by a key that the NIC has for that memory
 * (registration.h). The program's call does not end before the other end has acknowledged the payload, because until then the NIC
 * may have to send it again.
 *
 * Adaptive routing (COLLET_IB_ADAPTIVE_ROUTING): switches send each packet of a plain write by any free path, and the
 * NIC at the other end stores the packets in any order. All packets of a write with an immediate take one path. So in the
 * last case only an empty packet has the immediate, and the frame has the payload's length. The completion of the empty
 * write covers the two writes before it, because a queue pair keeps their order.
 *
 * The writes that one call of progress() finds are posted in one list per queue pair.
 */
#include "layers/memory/registration.h"
#include "transport/verbs/verbs_end.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

/* wr_id: the queue pair, and the number of sends posted with this one. */
static uint64_t send_id(int index, const struct verbs_qp *qp) { return (uint64_t)index << 32 | (qp->posted + 1); }

/* The next write of queue pair `index`. Its data and destination are still missing. */
static struct ibv_send_wr write_with(struct verbs_end *end, int index, uint32_t immediate) {
    return (struct ibv_send_wr){.wr_id = send_id(index, verbs_qp_at(end, index)),
                                .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                                .imm_data = htonl(immediate)};
}

bool verbs_post_counter(struct conn *conn, int index, uint64_t counter) {
    struct verbs_end *end = conn->impl;
    struct verbs_qp *qp = verbs_qp_at(end, index);
    struct ibv_send_wr *bad, write = write_with(end, index, (uint32_t)counter & VERBS_COUNTER_MASK);
    write.wr.rdma.remote_addr = end->theirs.memory;
    write.wr.rdma.rkey = end->theirs.rails[index / VERBS_QPS_MAX].rkey;
    write.send_flags = IBV_SEND_SIGNALED;
    if (!verbs_qp_has_room(qp, 1))
        return false;
    errno = ibv_post_send(qp->qp, &write, &bad);
    qp->posted += errno == 0;
    return errno == 0;
}

void verbs_post_landing(struct conn *conn, int index, const struct verbs_landing *landing) {
    struct verbs_end *end = conn->impl;
    struct verbs_qp *qp = verbs_qp_at(end, index);
    int rail = index / VERBS_QPS_MAX, slot = (int)(landing - end->landings);
    struct ibv_sge place = {(uintptr_t)landing, sizeof(*landing), end->rails[rail].mr->lkey};
    struct ibv_send_wr *bad,
        write = write_with(end, index, ((uint32_t)landing->step & VERBS_COUNTER_MASK) | VERBS_LANDED);
    write.wr.rdma.remote_addr =
        end->theirs.frames + conn->end.nslots * sizeof(struct verbs_frame) + (size_t)slot * sizeof(*landing);
    write.wr.rdma.rkey = end->theirs.rails[rail].rkey;
    write.sg_list = &place;
    write.num_sge = 1;
    write.send_flags = IBV_SEND_SIGNALED | (sizeof(*landing) <= qp->depths.inline_bytes ? IBV_SEND_INLINE : 0);
    int error = ibv_post_send(qp->qp, &write, &bad);
    qp->posted += error == 0;
    if (error != 0)
        verbs_rail_lost(conn, rail, "could not be sent to: the device takes no sends (%s)", strerror(error));
}

/* The writes of one progress(): a list per queue pair, posted with one doorbell each. */
#define BATCH_WRITES (STEP_WRITES * FIFO_MAX_SLOTS)
struct write_batch {
    struct ibv_send_wr writes[BATCH_WRITES], *last[VERBS_LIVE_MAX], *first[VERBS_LIVE_MAX];
    struct ibv_sge places[BATCH_WRITES];
    int n;
};

/* Does the write of this step need a frame? A repeated write has the same form as the first one. */
static bool needs_frame(struct conn *conn, uint64_t step) {
    struct verbs_end *end = conn->impl;
    uint32_t slot = (uint32_t)step & (conn->end.nslots - 1);
    const struct fifo_slot_header *header = &conn->end.headers[slot];
    if (step != end->sent)
        return end->framed & 1u << slot;
    const struct config *config = conn->owner->config;
    bool needed = config->checksum || step == (uint64_t)config->first_step ||
                  header->signature != end->frame.signature || header->sequence != end->frame.sequence;
    end->frame = (struct verbs_frame){header->sequence, header->signature, 0, 0, 0};
    end->framed = needed ? end->framed | 1u << slot : end->framed & ~(1u << slot);
    return needed;
}

static struct verbs_frame frame_of(const struct conn *conn, uint64_t step, const char *payload) {
    const struct fifo_slot_header *header = &conn->end.headers[step & (conn->end.nslots - 1)];
    struct verbs_frame frame = {header->sequence, header->signature, 0, fifo_word_bytes(header->word), 0};
    if (conn->owner->config->checksum)
        frame.crc = verbs_crc(payload, step, wire_word(header), header->sequence, header->signature);
    return frame;
}

/* A part of this end's memory, to be written to the other end's memory. */
struct write_part {
    const void *from;
    uint32_t bytes, lkey, rkey;
    uint64_t to;
    bool in_gpu; /* the part is in GPU memory: the CPU cannot read it, so it is never inline */
    bool lent;   /* the part is in the program's memory */
};

/* Adds a write after the batch's other writes for the same entry of live[]. */
static void add_write(struct conn *conn, struct write_batch *batch, int turn, struct write_part part,
                      struct ibv_send_wr write) {
    struct verbs_end *end = conn->impl;
    struct verbs_qp *qp = verbs_qp_at(end, end->live[turn]);
    struct ibv_send_wr *to = &batch->writes[batch->n];
    struct ibv_sge *place = &batch->places[batch->n++];
    *place = (struct ibv_sge){(uintptr_t)part.from, part.bytes, part.lkey};
    *to = write;
    to->wr.rdma.remote_addr = part.to;
    to->wr.rdma.rkey = part.rkey;
    to->sg_list = place;
    to->num_sge = part.bytes > 0;
    if (qp->posted % (qp->depths.sends / 4 + 1) == 0)
        to->send_flags = IBV_SEND_SIGNALED;
    if (part.bytes > 0 && !part.in_gpu && part.bytes <= qp->depths.inline_bytes)
        to->send_flags |= IBV_SEND_INLINE;
    if (batch->first[turn] == NULL)
        batch->first[turn] = to;
    else
        batch->last[turn]->next = to;
    batch->last[turn] = to;
    qp->posted++;
    if (part.lent)
        qp->lent = qp->posted;
}

/* A part of host memory, for the other end's memory. */
static struct write_part part_of_memory(const struct verbs_end *end, int rail, const void *from, uint32_t bytes,
                                        uint64_t to) {
    return (struct write_part){from, bytes, end->rails[rail].mr->lkey, end->theirs.rails[rail].rkey, to, false, false};
}

/* All slots but Simple ones are in host memory, at the same offset at both ends. */
static struct write_part part_of_host_slot(const struct conn *conn, int rail, const char *from, uint32_t bytes) {
    const struct verbs_end *end = conn->impl;
    return part_of_memory(end, rail, from, bytes, end->theirs.memory + (uint64_t)(from - (const char *)end->memory));
}

static struct write_part part_of_slot(const struct conn *conn, int rail, const char *from, uint32_t bytes) {
    const struct verbs_end *end = conn->impl;
    const struct ibv_mr *mr = end->mine.direct ? end->direct.rails[rail].slots : end->rails[rail].mr;
    return (struct write_part){from,
                               bytes,
                               mr->lkey,
                               end->theirs.rails[rail].slots_rkey,
                               end->theirs.slots + (uint64_t)(from - conn->end.slots[PROTOCOL_SIMPLE]),
                               end->mine.direct,
                               false};
}

/* Is the payload lent? If this NIC cannot send from the program's memory, the payload is copied into the slot after all. */
static bool is_lent(struct conn *conn, int rail, uint64_t step, struct registration_keys *keys) {
    const struct verbs_end *end = conn->impl;
    struct fifo_slot_header *header = &conn->end.headers[step & (conn->end.nslots - 1)];
    uint32_t bytes = fifo_word_bytes(header->word);
    if (!direct_is_lent(header))
        return false;
    if (registration_keys(end->host, end->rails[rail].port->device, header->loan.address, bytes, keys))
        return true;
    header->word = wire_word(header);
    memcpy(fifo_slot_at(&conn->end, PROTOCOL_SIMPLE, step), (const void *)(uintptr_t)header->loan.address, bytes);
    return false;
}

/* Adds a frame with its own write, without a notification. The payload's write, next on the same queue pair, gives the notification for
 * both. */
static void add_frame(struct conn *conn, struct write_batch *batch, int turn, uint32_t slot) {
    struct verbs_end *end = conn->impl;
    uint64_t to = end->theirs.frames + slot * sizeof(struct verbs_frame);
    struct ibv_send_wr write = write_with(end, end->live[turn], 0);
    write.opcode = IBV_WR_RDMA_WRITE;
    add_write(conn, batch, turn,
              part_of_memory(end, end->live[turn] / VERBS_QPS_MAX, &end->frames[slot], sizeof(struct verbs_frame), to),
              write);
}

/* Adds the payload of a step without a notification, then the notification by itself. */
static void add_spread(struct conn *conn, struct write_batch *batch, int turn, struct write_part part,
                       uint32_t immediate) {
    struct verbs_end *end = conn->impl;
    const int index = end->live[turn];
    struct ibv_send_wr write = write_with(end, index, 0);
    write.opcode = IBV_WR_RDMA_WRITE;
    add_write(conn, batch, turn, part, write);
    struct write_part nothing = part_of_memory(end, index / VERBS_QPS_MAX, end->memory, 0, end->theirs.memory);
    add_write(conn, batch, turn, nothing, write_with(end, index, immediate));
}

static void count_payload(struct verbs_tally *tally, uint32_t bytes, bool lent, bool landed) {
    tally->bytes += bytes;
    tally->lent += lent ? bytes : 0;
    tally->landed += landed ? bytes : 0;
}

/* Adds the writes of a step. False: its queue pair has no room now. */
static bool add_step(struct conn *conn, struct write_batch *batch, uint64_t step) {
    struct verbs_end *end = conn->impl;
    int turn = (int)(step % (uint64_t)end->nlive), index = end->live[turn], rail = index / VERBS_QPS_MAX;
    uint32_t slot = (uint32_t)step & (conn->end.nslots - 1);
    const struct fifo_slot_header *header = &conn->end.headers[slot];
    uint32_t word = wire_word(header), protocol = fifo_word_protocol(word), bytes = fifo_word_bytes(word);
    struct registration_keys keys;
    bool lent = is_lent(conn, rail, step, &keys);
    const struct verbs_landing *landing = verbs_landing_of(conn, step, bytes, rail);
    const bool spread = bytes > end->spread_bytes;
    bool apart = spread || lent || landing != NULL || (protocol == PROTOCOL_SIMPLE && verbs_frames_apart(end));
    if (!verbs_qp_has_room(verbs_qp_at(end, index), 1u + apart + spread))
        return false;
    count_payload(&end->tally, bytes, lent, landing != NULL);
    const char *slot_memory = fifo_slot_at(&conn->end, protocol, step);
    const char *payload = lent ? (const char *)(uintptr_t)header->loan.address : slot_memory;
    const bool frame_is_due = needs_frame(conn, step);
    uint32_t framed = !frame_is_due && !spread ? 0 : apart ? VERBS_FRAME_AHEAD : VERBS_FRAME_BEHIND;
    if (framed) {
        struct verbs_frame frame = frame_of(conn, step, payload);
        memcpy(verbs_frame_at(conn, step, word, framed), &frame, sizeof(frame));
    }
    if (framed & VERBS_FRAME_AHEAD)
        add_frame(conn, batch, turn, slot);
    else if (framed)
        bytes += (uint32_t)sizeof(struct verbs_frame);
    struct write_part part = protocol == PROTOCOL_SIMPLE ? part_of_slot(conn, rail, slot_memory, bytes)
                                                         : part_of_host_slot(conn, rail, slot_memory, bytes);
    part.from = payload;
    part.lent = lent;
    part.lkey = lent ? keys.local : part.lkey;
    if (landing != NULL) {
        part.to = landing->address;
        part.rkey = landing->keys[rail];
        framed |= VERBS_LANDED;
    }
    uint32_t immediate = ((uint32_t)step & VERBS_COUNTER_MASK) | fifo_word(protocol, 0) | framed;
    if (spread)
        add_spread(conn, batch, turn, part, immediate);
    else
        add_write(conn, batch, turn, part, write_with(end, index, immediate));
    end->carrier[slot] = (uint8_t)index;
    return true;
}

static void post_batch(struct conn *conn, struct write_batch *batch) {
    struct verbs_end *end = conn->impl;
    uint8_t live[VERBS_LIVE_MAX];
    int nlive = end->nlive; /* a rail that is lost in this loop changes live[] */
    memcpy(live, end->live, sizeof(live));
    for (int turn = 0; turn < nlive; turn++) {
        struct ibv_send_wr *bad;
        if (batch->first[turn] == NULL)
            continue;
        batch->last[turn]->send_flags |= IBV_SEND_SIGNALED;
        int error = ibv_post_send(verbs_qp_at(end, live[turn])->qp, batch->first[turn], &bad);
        if (error != 0)
            verbs_rail_lost(conn, live[turn] / VERBS_QPS_MAX, "could not be sent to: the device takes no sends (%s)",
                            strerror(error));
    }
}

bool verbs_send_slots(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    uint64_t tail = wire_tail(conn);
    if (end->nlive == 0 || (tail == end->sent && end->again == 0))
        return false;
    struct write_batch batch = {.n = 0};
    bool room = true;
    for (uint64_t step = tail - conn->end.nslots; end->again != 0 && room && step != end->sent; step++) {
        uint32_t bit = 1u << (step & (conn->end.nslots - 1));
        if ((int64_t)(step - *conn->end.head) < 0 || !(end->again & bit))
            continue;
        room = add_step(conn, &batch, step);
        end->again &= room ? ~bit : ~0u;
    }
    while (room && end->sent != tail && batch.n + STEP_WRITES <= BATCH_WRITES) {
        room = add_step(conn, &batch, end->sent);
        end->sent += room;
    }
    post_batch(conn, &batch);
    return batch.n > 0;
}

void verbs_send_credit(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    uint64_t head = wire_head(conn);
    if (end->nlive == 0 || !wire_credit_is_due(conn, end->credit))
        return;
    int index = end->live[head % (uint64_t)end->nlive];
    errno = 0;
    if (verbs_post_counter(conn, index, head))
        end->credit = head;
    else if (errno != 0)
        verbs_rail_lost(conn, index / VERBS_QPS_MAX, "could not be sent to: the device takes no sends (%s)",
                        strerror(errno));
}

bool verbs_loans_acknowledged(const struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    for (int k = 0; k < end->nrails * end->nqps; k++) {
        const struct verbs_qp *qp = &end->qps[k / end->nqps][k % end->nqps];
        if (end->rails[k / end->nqps].state == VERBS_RAIL_UP && (int32_t)(qp->lent - qp->completed) > 0)
            return false;
    }
    return true;
}

bool verbs_all_acknowledged(const struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    for (int k = 0; k < end->nrails * end->nqps; k++) {
        const struct verbs_qp *qp = &end->qps[k / end->nqps][k % end->nqps];
        if (end->rails[k / end->nqps].state == VERBS_RAIL_UP && qp->posted != qp->completed)
            return false;
    }
    return true;
}
