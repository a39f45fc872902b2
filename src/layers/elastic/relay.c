/* SPDX-License-Identifier: Apache-2.0
 *
 * A job may have several unique ids, and so several meeting points in several processes. Each gathers a part of the processes,
 * so none has to take the connections of all:
 *
 *        guests of ranks 0 … 99 ───────────────▶ meeting point of the first id
 *        guests of ranks 100 … 199 ─▶ relay ──▶
 *        guests of ranks 200 … 299 ─▶ relay ──▶
 *
 * To the meeting point, a relay is a guest that brings many ranks. To its guests, it is the meeting point. Upwards it passes
 * on all that guests say. Downwards it looks for whom a frame is: for the guest of one rank, for those that asked, or for all.
 * What the ranks have to know of each other goes down the tree of processes as always, and not through here, except to rank 0.
 */
#include "seams/elastic.h"

#include "base/log.h"
#include "boot/dial.h"
#include "boot/meeting.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct relay {
    struct rendezvous *meeting;
    uint8_t key[SECRET_BYTES];
    struct dial dial;  /* dials the meeting point of the first id */
    struct wire *wire; /* wire to it; NULL: not connected */
};

static void fail_for(struct relay *relay, enum collet_result code, const char *text) {
    struct failure failure = {.code = code, .rank = -1};
    snprintf(failure.text, sizeof failure.text, "%s", text);
    log_warn(BOOT, "%s", text);
    meeting_fail(relay->meeting, &failure);
}

/* ------------------------------------------------------------------------------------------------------------------ up */

/* Announces a rank whose card came before the wire. */
static void announce(struct relay *relay, int rank) {
    const struct table *table = &relay->meeting->table;
    wire_send(relay->wire, TABLE_JOIN, &table->cards[rank], sizeof *table->cards, &table->agreed,
              rank == 0 ? sizeof table->agreed : 0);
}

void relay_pass_up(struct relay *relay, const struct frame *frame) {
    if (relay->wire != NULL)
        wire_send(relay->wire, frame->type, frame->data, frame->bytes, NULL, 0);
}

void relay_fail(struct relay *relay, const struct failure *failure) {
    if (relay == NULL)
        return;
    dial_stop(&relay->dial);
    if (relay->wire != NULL)
        wire_send(relay->wire, TABLE_FAIL, failure, sizeof *failure, NULL, 0);
    wire_finish(relay->wire);
    relay->wire = NULL;
}

/* ---------------------------------------------------------------------------------------------------------------- down */

/* Sends a frame to the guest of one rank. */
static void pass_down(struct rendezvous *meeting, int rank, const struct frame *frame) {
    const bool is_ours = rank >= 0 && rank < meeting->nranks && meeting->owner[rank] != NULL;
    if (frame->type == TABLE_SEAT)
        meeting->state = MEETING_LINKS;
    if (is_ours)
        wire_send(meeting->owner[rank]->wire, frame->type, frame->data, frame->bytes, NULL, 0);
}

static void pass_news(struct rendezvous *meeting, const struct frame *frame) {
    for (struct guest *guest = meeting->guests; guest != NULL; guest = guest->next) {
        if (guest->asks)
            wire_send(guest->wire, frame->type, frame->data, frame->bytes, NULL, 0);
        guest->asks = false;
    }
}

/* The rank for which a frame is. Seats and rejections begin with it; the table is for the process of rank 0. */
static int receiver_of(const struct frame *frame) {
    int32_t rank = 0;
    if (frame->type == TABLE_SEAT || frame->type == TABLE_REJECT)
        memcpy(&rank, frame->data, frame->bytes >= sizeof rank ? sizeof rank : 0);
    return rank;
}
_Static_assert(offsetof(struct seat, rank) == 0 && offsetof(struct rejection, rank) == 0, "receiver_of() reads it");

/* False: the meeting here is over. */
static bool on_frame_from_above(struct relay *relay, const struct frame *frame) {
    struct rendezvous *meeting = relay->meeting;
    struct failure failure;
    switch (frame->type) {
    case TABLE_NEWS: pass_news(meeting, frame); return true;
    case TABLE_FAIL:
        if (!failure_read(frame->data, frame->bytes, &failure))
            return true;
        meeting_fail(meeting, &failure);
        return false;
    case TABLE_DONE:
    case TABLE_OVER:
        meeting_tell(meeting, (enum table_frame)frame->type, NULL, 0);
        meeting_destroy(meeting);
        return false;
    default: pass_down(meeting, receiver_of(frame), frame); return true;
    }
}

static void relay_ready(struct wire *wire) {
    struct relay *relay = wire->owner;
    bool open = wire_fill(wire, wire_room(TABLE_PART_BYTES));
    struct frame frame;
    int got;
    while ((got = wire_next(wire, TABLE_PART_BYTES, &frame)) > 0)
        if (!on_frame_from_above(relay, &frame))
            return;
    if (!open || got < 0)
        fail_for(relay, COLLET_ERR_REMOTE,
                 "the process with the meeting point of the first id died while the communicator was created");
}

/* ---------------------------------------------------------------------------------------------------------- connecting */

static void on_above_proven(struct dial *dial, struct wire *wire) {
    struct relay *relay = WATCH_OWNER(dial, struct relay, dial);
    const struct rendezvous *meeting = relay->meeting;
    relay->wire = wire;
    wire->ready = relay_ready;
    wire->owner = relay;
    for (int rank = 0; rank < meeting->nranks; rank++)
        if (meeting->have[rank])
            announce(relay, rank);
    for (const struct guest *guest = meeting->guests; guest != NULL; guest = guest->next)
        if (guest->asks)
            wire_send(wire, TABLE_ASK, NULL, 0, NULL, 0);
    relay_ready(wire);
}

static void on_above_round_failed(struct dial *dial) {
    struct relay *relay = WATCH_OWNER(dial, struct relay, dial);
    char text[ERR_TEXT_BYTES];
    if (!dial->exhausted && dial_refused_ns(dial) < MEETING_GONE_NS)
        return;
    snprintf(text, sizeof text, "cannot connect to the meeting point of the first id: %s", dial->trouble);
    fail_for(relay, dial->exhausted ? COLLET_ERR_SYSTEM : COLLET_ERR_REMOTE, text);
}

static bool read_via(const struct frame *frame, struct id *id) {
    struct collet_unique_id unique_id;
    if (frame->bytes != sizeof unique_id)
        return false;
    memcpy(&unique_id, frame->data, sizeof unique_id);
    return id_unpack(&unique_id, id) == COLLET_SUCCESS;
}

static void become(struct rendezvous *meeting, const struct frame *frame) {
    SCOPED_ID struct id id;
    struct relay *relay = read_via(frame, &id) ? calloc(1, sizeof *relay) : NULL;
    if (relay == NULL)
        return;
    relay->meeting = meeting;
    meeting->relay = relay;
    id_key(id.secret, "meeting point", NULL, 0, relay->key);
    dial_start(&relay->dial, &id.set, relay->key, 0, on_above_proven, on_above_round_failed);
}

static bool leads_to(const struct relay *relay, const struct frame *frame) {
    SCOPED_ID struct id id;
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    if (relay == NULL || !read_via(frame, &id))
        return false;
    id_key(id.secret, "meeting point", NULL, 0, key);
    return sodium_memcmp(key, relay->key, sizeof key) == 0;
}

bool relay_via(struct rendezvous *meeting, const struct frame *frame) {
    if (meeting->state == MEETING_GATHERS && meeting->relay == NULL && meeting->nranks == 0)
        become(meeting, frame);
    return leads_to(meeting->relay, frame);
}

void relay_destroy(struct relay *relay) {
    if (relay == NULL)
        return;
    dial_stop(&relay->dial);
    wire_finish(relay->wire);
    sodium_memzero(relay, sizeof *relay); /* wipes the key */
    free(relay);
}
