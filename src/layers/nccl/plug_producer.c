/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a plugin's connection that sends slots. See plug.c.
 */
#include "layers/nccl/plug_end.h"

#include <string.h>

static const struct fifo_slot_header *plug_header_of(const struct conn *conn, uint64_t step) {
    return &conn->end.headers[step & (conn->end.nslots - 1)];
}

/* Fills in a step's frame, with a short payload behind it. Returns the bytes of the message. */
static size_t fill_frame(const struct conn *conn, uint64_t step) {
    const struct fifo_slot_header *header = plug_header_of(conn, step);
    const char *payload = plug_payload_at(conn, header->word, step);
    struct wire_frame *frame = plug_frame_at(conn, step);
    const bool sums = conn->owner->config->checksum;
    *frame = wire_frame_of(conn, step, sums ? crc32c(0, payload, fifo_word_bytes(header->word)) : 0);
    if (!plug_is_short(conn, header->word))
        return sizeof(*frame);
    memcpy(frame + 1, payload, fifo_word_bytes(header->word));
    return sizeof(*frame) + fifo_word_bytes(header->word);
}

/* Gives a message to the plugin. False: the plugin takes none now. */
static bool send_message(struct conn *conn, const struct plug_message *message, int tag, void **request) {
    const struct plug_end *end = conn->impl;
    int result = plug_isend(end->host, end->line, message, tag, request);
    if (result != PLUG_SUCCESS)
        plug_call_failed(conn, "isend", result);
    return result == PLUG_SUCCESS && *request != NULL;
}

/* Sends the frame of the next slot, then its payload. If the consumer asks for both together, a message of 0 bytes
 * replaces a payload that went with its frame. False: the plugin does not take all of it now. */
static bool send_slot(struct conn *conn) {
    struct plug_end *end = conn->impl;
    uint64_t step = end->asked;
    struct plug_slot *slot = plug_slot_of(conn, step);
    uint32_t word = plug_header_of(conn, step)->word;
    if (!end->frame_sent) {
        if (end->frame_bytes == 0)
            end->frame_bytes = fill_frame(conn, step);
        struct plug_message frame = {plug_frame_at(conn, step), end->frame_bytes, end->registration};
        if (!send_message(conn, &frame, 0, &slot->frame_request))
            return false;
        end->frame_bytes = 0;
        end->frame_sent = true;
    }
    const bool alone = !plug_is_short(conn, word);
    struct plug_message payload = {plug_long_payload_at(conn, step), alone ? fifo_word_bytes(word) : 0,
                                   plug_payload_registration(end)};
    if ((alone || end->together) && !send_message(conn, &payload, end->together, &slot->payload_request))
        return false;
    end->frame_sent = false;
    end->asked++;
    return true;
}

/* Advances the head past slots whose messages are done, so the executor may overwrite them. */
static bool take_done(struct conn *conn) {
    const struct plug_end *end = conn->impl;
    uint64_t done = *conn->end.head;
    while (done != end->asked && !plug_is_broken(end)) {
        struct plug_slot *slot = plug_slot_of(conn, done);
        if (!plug_test(conn, &slot->frame_request, NULL) || !plug_test(conn, &slot->payload_request, NULL))
            break;
        done++;
    }
    bool moved = done != *conn->end.head;
    if (moved)
        port_store_release(conn->end.head, done); /* Pairs with fifo_has_credit(). */
    return moved;
}

bool plug_producer_move(struct conn *conn) {
    struct plug_end *end = conn->impl;
    uint64_t tail = wire_tail(conn);
    bool moved = false;
    while (end->asked != tail && !plug_is_broken(end) && send_slot(conn))
        moved = true;
    return take_done(conn) || moved;
}
