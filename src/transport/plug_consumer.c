/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a plugin's connection that receives slots. See plug.c.
 *
 *    ask for a frame ─▶ it comes ─┬─ short: the payload is behind it ────────────────┐
 *                                 └─ ask for the payload, then for the next frame ─▶ it comes (▶ flush it) ─▶ delivered, in order
 */
#include "transport/plug_end.h"

#include <string.h>

/* False: the plugin takes nothing now. */
static bool ask_for(struct conn *conn, void *data, size_t bytes, void *registration, void **request) {
    const struct plug_end *end = conn->impl;
    int result = plug_irecv(end->host, end->line, data, bytes, registration, request);
    if (result != PLUG_SUCCESS)
        plug_call_failed(conn, "irecv", result);
    return result == PLUG_SUCCESS && *request != NULL;
}

static bool plug_has_room(const struct conn *conn) {
    const struct plug_end *end = conn->impl;
    return end->asked - wire_head(conn) < conn->end.nslots;
}

/* What came as the frame of the next step; bytes: of its message. */
static bool frame_is_right(struct conn *conn, const struct plug_frame *frame, int bytes) {
    const struct plug_end *end = conn->impl;
    uint32_t behind = plug_is_short(conn, frame->word) ? fifo_word_bytes(frame->word) : 0;
    const char *why = NULL;
    if (bytes < (int)sizeof(*frame) || frame->magic != PLUG_MAGIC || frame->step != end->asked)
        why = "it sent another step than the next one";
    else if (!fifo_header_fits(conn_layout(conn), frame->word))
        why = WIRE_TOO_LONG;
    else if (bytes != (int)(sizeof(*frame) + behind))
        why = "the frame of a slot has another length than it says";
    if (why != NULL)
        plug_set_broken(conn, "the connection from rank %d (host %s) broke: %s", conn->peer,
                        conn->owner->peers[conn->peer].host, why);
    return why == NULL;
}

/* True: the next slot's frame is here. */
static bool frame_try(struct conn *conn) {
    struct plug_end *end = conn->impl;
    struct plug_slot *slot = plug_slot_of(conn, end->asked);
    struct plug_frame *frame = plug_frame_at(conn, end->asked);
    int bytes = 0;
    if (end->frame_here)
        return true;
    if (!end->frame_asked) {
        if (!plug_has_room(conn) || !ask_for(conn, frame, PLUG_FRAME_BYTES, end->registration, &slot->frame_request))
            return false;
        end->frame_asked = true;
    }
    if (!plug_test(conn, &slot->frame_request, &bytes))
        return false;
    end->frame_asked = false;
    end->frame_here = frame_is_right(conn, frame, bytes);
    slot->frame = *frame;
    return end->frame_here;
}

/* The frame of the next slot has come. False: the plugin does not take the request for its payload now. */
static bool payload_try(struct conn *conn) {
    struct plug_end *end = conn->impl;
    struct plug_slot *slot = plug_slot_of(conn, end->asked);
    uint32_t word = slot->frame.word;
    char *payload = plug_payload_at(conn, word, end->asked);
    slot->flushed = !(end->flush && plug_in_gpu(end, word));
    if (plug_is_short(conn, word))
        memcpy(payload, plug_frame_at(conn, end->asked) + 1, fifo_word_bytes(word));
    else if (!ask_for(conn, payload, fifo_word_bytes(word), plug_registration_of(end, word), &slot->payload_request))
        return false;
    end->frame_here = false;
    end->asked++;
    return true;
}

/* Memory of a GPU: has what came there become visible to its kernels? */
static bool flush_try(struct conn *conn, struct plug_slot *slot, uint64_t step) {
    struct plug_end *end = conn->impl;
    void *data = plug_payload_at(conn, slot->frame.word, step);
    int bytes = (int)fifo_word_bytes(slot->frame.word);
    if (!slot->flushed && slot->flush_request == NULL) {
        int result =
            end->host->table->iflush(end->line, 1, &data, &bytes, &end->gpu_registration, &slot->flush_request);
        if (result != PLUG_SUCCESS)
            plug_call_failed(conn, "iflush", result);
        slot->flushed = result == PLUG_SUCCESS; /* no request: there is nothing to wait for */
    }
    return plug_test(conn, &slot->flush_request, NULL) && slot->flushed;
}

/* bytes: of its payload, as the plugin says. */
static bool length_is_right(struct conn *conn, const struct plug_frame *frame, int bytes) {
    if (bytes == (int)fifo_word_bytes(frame->word))
        return true;
    plug_set_broken(conn, "the plugin delivered %d bytes of %u", bytes, fifo_word_bytes(frame->word));
    return false;
}

static bool crc_is_right(struct conn *conn, const struct plug_frame *frame) {
    char text[ERR_TEXT_BYTES];
    if (!conn->owner->config->checksum ||
        plug_crc(frame, plug_payload_at(conn, frame->word, frame->step)) == frame->crc)
        return true;
    conn_text_changed(conn, frame->step, CONN_BY_CHECKSUM, text);
    plug_set_broken(conn, "%s", text);
    return false;
}

/* Also of a line that has broken behind it. */
static bool deliver_next(struct conn *conn) {
    struct plug_end *end = conn->impl;
    uint64_t step = *conn->end.tail;
    struct plug_slot *slot = plug_slot_of(conn, step);
    if (step == end->asked || end->stuck)
        return false;
    int bytes = (int)fifo_word_bytes(slot->frame.word); /* of a payload that has come already, or with its frame */
    const uint32_t failures = end->failures;
    if (plug_test(conn, &slot->payload_request, &bytes) && length_is_right(conn, &slot->frame, bytes) &&
        flush_try(conn, slot, step) && crc_is_right(conn, &slot->frame)) {
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
