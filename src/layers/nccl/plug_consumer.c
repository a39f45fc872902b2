/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a plugin's connection that receives slots. See plug.c.
 *
 *    ask for a frame ─▶ it comes ─┬─ short: the payload is behind it ────────────────┐
 *                                 └─ ask for the payload, then for the next frame ─▶ it comes (▶ flush it) ─▶ delivered, in order
 *
 *    ask for frames and payloads ─▶ both of the next slot come ─────────────────────────────── (▶ flush it) ─▶ delivered, in order
 */
#include "layers/nccl/plug_end.h"

#include <string.h>

/* Did the plugin deliver as many bytes of payload as were sent? */
static bool length_is_right(struct conn *conn, uint32_t sent, int bytes) {
    if (bytes == (int)sent)
        return true;
    plug_set_broken(conn, "the plugin delivered %d bytes of %u", bytes, sent);
    return false;
}

/* Asks the plugin for n messages. False: the plugin takes no request now. */
static bool ask_for(struct conn *conn, int n, const struct plug_message *messages, void **request) {
    const struct plug_end *end = conn->impl;
    int result = plug_irecv(end->host, end->line, n, messages, request);
    if (result != PLUG_SUCCESS)
        plug_call_failed(conn, "irecv", result);
    return result == PLUG_SUCCESS && *request != NULL;
}

static struct plug_message room_for_payload(const struct conn *conn, uint64_t step, uint32_t bytes) {
    return (struct plug_message){plug_long_payload_at(conn, step), bytes, plug_payload_registration(conn->impl)};
}

/* Asks for the frame of the next slot, if it is free; or for frames and payloads of all free slots. */
static void ask_for_frames(struct conn *conn) {
    struct plug_end *end = conn->impl;
    const uint64_t most = end->together ? conn->end.nslots : 1;
    while (end->wanted - wire_head(conn) < conn->end.nslots && end->wanted - end->asked < most) {
        const struct plug_message messages[PLUG_TOGETHER] = {
            {plug_frame_at(conn, end->wanted), plug_frame_room(conn), end->registration},
            room_for_payload(conn, end->wanted, fifo_payload_bytes(conn_layout(conn), PROTOCOL_SIMPLE))};
        if (!ask_for(conn, end->together ? PLUG_TOGETHER : 1, messages,
                     &plug_slot_of(conn, end->wanted)->frame_request))
            return;
        end->wanted++;
    }
}

static bool is_intact(struct conn *conn, const struct wire_frame *frame, bool intact) {
    char text[ERR_TEXT_BYTES];
    if (intact)
        return true;
    conn_text_changed(conn, frame->step, CONN_BY_CHECKSUM, text);
    plug_set_broken(conn, "%s", text);
    return false;
}

/* Checks the frame of the next step. bytes[0]: length of the frame's message; bytes[1]: length of the payload's, if both
 * came together. */
static bool frame_is_right(struct conn *conn, const struct wire_frame *frame, const int bytes[PLUG_TOGETHER]) {
    const struct plug_end *end = conn->impl;
    const bool alone = !plug_is_short(conn, frame->word);
    const uint32_t payload = fifo_word_bytes(frame->word);
    if (bytes[0] >= (int)sizeof(*frame) && !is_intact(conn, frame, wire_frame_is_intact(conn, frame)))
        return false;
    const char *why =
        bytes[0] < (int)sizeof(*frame) ? "it sent no whole frame" : wire_frame_fault(conn, frame, end->asked);
    if (why == NULL && bytes[0] != (int)(sizeof(*frame) + (alone ? 0 : payload)))
        why = "the frame of a slot has another length than it says";
    if (why != NULL)
        plug_set_broken(conn, "the connection from rank %d (host %s) broke: %s", conn->peer,
                        conn->owner->peers[conn->peer].host, why);
    return why == NULL && (!end->together || length_is_right(conn, alone ? payload : 0, bytes[1]));
}

/* Has the frame of the next slot come? */
static bool frame_try(struct conn *conn) {
    struct plug_end *end = conn->impl;
    struct plug_slot *slot = plug_slot_of(conn, end->asked);
    int bytes[PLUG_TOGETHER] = {0};
    if (end->frame_here)
        return true;
    ask_for_frames(conn);
    if (end->asked == end->wanted || plug_is_broken(end) || !plug_test(conn, &slot->frame_request, bytes))
        return false;
    end->frame_here = frame_is_right(conn, plug_frame_at(conn, end->asked), bytes);
    slot->frame = *plug_frame_at(conn, end->asked);
    return end->frame_here;
}

/* Asks for the payload of the next slot, whose frame has come. False: the plugin takes no request now. */
static bool payload_try(struct conn *conn) {
    struct plug_end *end = conn->impl;
    struct plug_slot *slot = plug_slot_of(conn, end->asked);
    const uint32_t word = slot->frame.word, bytes = fifo_word_bytes(word);
    const bool alone = !plug_is_short(conn, word);
    const struct plug_message message = room_for_payload(conn, end->asked, bytes);
    slot->flushed = !(end->flush && alone);
    if (!alone)
        memcpy(plug_payload_at(conn, word, end->asked), plug_frame_at(conn, end->asked) + 1, bytes);
    else if (!end->together && !ask_for(conn, 1, &message, &slot->payload_request))
        return false;
    end->frame_here = false;
    end->asked++;
    return true;
}

/* Are the data visible to the GPU's kernels? Slots that need no flush always are. */
static bool flush_try(struct conn *conn, struct plug_slot *slot, uint64_t step) {
    struct plug_end *end = conn->impl;
    void *data = plug_payload_at(conn, slot->frame.word, step);
    int bytes = (int)fifo_word_bytes(slot->frame.word);
    if (!slot->flushed && slot->flush_request == NULL) {
        int result =
            end->host->table->iflush(end->line, 1, &data, &bytes, &end->gpu_registration, &slot->flush_request);
        if (result != PLUG_SUCCESS)
            plug_call_failed(conn, "iflush", result);
        slot->flushed = result == PLUG_SUCCESS; /* if there is no request, nothing has to be waited for */
    }
    return plug_test(conn, &slot->flush_request, NULL) && slot->flushed;
}

/* Delivers the oldest slot if it is complete. Works on a broken connection too. */
static bool deliver_next(struct conn *conn) {
    struct plug_end *end = conn->impl;
    uint64_t step = *conn->end.tail;
    struct plug_slot *slot = plug_slot_of(conn, step);
    if (step == end->asked || end->stuck)
        return false;
    int bytes = (int)fifo_word_bytes(slot->frame.word); /* stays if no request for the payload alone is left */
    const uint32_t failures = end->failures;
    if (plug_test(conn, &slot->payload_request, &bytes) &&
        length_is_right(conn, fifo_word_bytes(slot->frame.word), bytes) && flush_try(conn, slot, step) &&
        is_intact(conn, &slot->frame,
                  wire_payload_is_intact(conn, &slot->frame, wire_payload_at(conn, &slot->frame)))) {
        wire_deliver(conn, slot->frame.word, slot->frame.signature, slot->frame.sequence, NULL);
        return true;
    }
    end->stuck = end->failures != failures;
    return false;
}

bool plug_consumer_move(struct conn *conn) {
    const struct plug_end *end = conn->impl;
    bool moved = false;
    while (!plug_is_broken(end) && frame_try(conn) && payload_try(conn))
        moved = true;
    while (deliver_next(conn))
        moved = true;
    return moved;
}
