/* SPDX-License-Identifier: Apache-2.0
 *
 * The server of init. A guest is a process; it may bring several ranks.
 *
 *      guests                                    meeting point
 *      (handshake, auth.h)  ◀──────────────────▶ door
 *      JOIN card            ───────────────────▶ writes it into the table; REJECTs one that cannot be right, and init ends
 *                           ◀─────────────────── NEWS: who is missing, now and then while somebody is
 *                           ◀─────────────────── ALL: the table, once the last rank has come
 *      (guests connect to each other: the tree; and try whose memory they can share)
 *      READY nodes          ───────────────────▶
 *                           ◀─────────────────── GO nodes, once the last guest is ready
 *
 * Until GO, a guest that leaves or says FAIL ends init for all. So either all ranks begin or none, except for a death at the
 * very end. A meeting point that failed stays open for COLLET_INIT_TIMEOUT: a guest that comes late hears why. A listed one is closed, because the
 * next attempt needs its port.
 *
 * Read next: join.c, the guests' side.
 */
#include "boot/rendezvous.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "boot/door.h"
#include "boot/hub.h"
#include "boot/table.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEWS_NS 100000000ull /* least time between two */

enum meeting_state { MEETING_GATHERS, MEETING_LINKS, MEETING_FAILED };

struct guest {
    struct rendezvous *meeting;
    struct wire *wire;
    int nranks; /* that it brought */
    bool ready;
    struct guest *next, **link;
};

struct rendezvous {
    struct watch_task start;
    struct door door;
    bool listed;
    uint8_t secret[SECRET_BYTES];
    enum meeting_state state;
    struct guest *guests;
    struct watch_timer news;
    struct failure failure;
    struct rendezvous *next;

    /* From the first JOIN on: */
    int nranks, njoined;
    struct arena arena;   /* has the arrays */
    struct card *cards;   /* by rank, as all that follow */
    struct guest **owner; /* NULL: has not come */
    uint8_t *have;        /* came (MEETING_GATHERS), reported its node (MEETING_LINKS) */
    int32_t *nodes;
    struct config agreed; /* rank 0's agreed knobs, zero elsewhere */
};

/* --------------------------------------------------------------------------------------------------------------- ends */

static struct wire *guest_leave(struct guest *guest) {
    struct wire *wire = guest->wire;
    *guest->link = guest->next;
    if (guest->next != NULL)
        guest->next->link = guest->link;
    free(guest);
    return wire;
}

static void meeting_destroy(struct rendezvous *meeting) {
    struct rendezvous **link = &process_lock()->meetings;
    process_unlock(); /* the list is the watch thread's */
    while (*link != meeting)
        link = &(*link)->next;
    *link = meeting->next;
    door_close(&meeting->door);
    watch_timer_stop(&meeting->news);
    while (meeting->guests != NULL)
        wire_finish(guest_leave(meeting->guests));
    arena_free(&meeting->arena);
    sodium_memzero(meeting->secret, sizeof meeting->secret);
    free(meeting);
}

static void tell_all(struct rendezvous *meeting, enum table_frame type, const void *head, size_t head_bytes,
                     const void *data, size_t bytes) {
    for (struct guest *guest = meeting->guests; guest != NULL; guest = guest->next)
        if (guest->nranks > 0)
            wire_send(guest->wire, type, head, head_bytes, data, bytes);
}

/* Whoever was to come has come by now, or has given up. */
static void end_failed(struct watch_timer *timer) { meeting_destroy(WATCH_OWNER(timer, struct rendezvous, news)); }

/* Init is over for everybody. Frees a listed meeting. */
static void meeting_fail(struct rendezvous *meeting, const struct failure *failure) {
    meeting->state = MEETING_FAILED;
    meeting->failure = *failure;
    tell_all(meeting, TABLE_FAIL, failure, sizeof *failure, NULL, 0);
    meeting->news.fire = end_failed;
    watch_timer_set(&meeting->news, os_now_ns() + (uint64_t)config_process()->init_timeout * 1000000000u);
    if (meeting->listed)
        meeting_destroy(meeting);
}

/* --------------------------------------------------------------------------------------------------------------- news */

static void send_news(struct watch_timer *timer) {
    struct rendezvous *meeting = WATCH_OWNER(timer, struct rendezvous, news);
    char list[160], text[ERR_TEXT_BYTES];
    ranks_text(meeting->have, meeting->nranks, list, sizeof list);
    int used =
        snprintf(text, sizeof text, "of %d ranks these %s: %s", meeting->nranks,
                 meeting->state == MEETING_GATHERS ? "have not come" : "have come but are not connected yet", list);
    if (meeting->door.has_refused)
        snprintf(text + used, sizeof text - (size_t)used,
                 "; somebody came with another secret: is COLLET_SECRET the same everywhere?");
    tell_all(meeting, TABLE_NEWS, text, strlen(text) + 1, NULL, 0);
}

static void want_news(struct rendezvous *meeting) {
    if (meeting->news.link == NULL)
        watch_timer_set(&meeting->news, os_now_ns() + NEWS_NS);
}

/* --------------------------------------------------------------------------------------------------------- the frames */

/* While ranks are missing, a rank that contradicts the others has a place that another one should have: init cannot succeed,
 * and ends for all. False, as in all handlers here: guest or meeting are gone. */
static bool reject(struct guest *guest, const struct card *card, const char *text) {
    struct rendezvous *meeting = guest->meeting;
    struct rejection rejection = {.rank = card->rank, .code = COLLET_ERR_INVALID_ARGUMENT};
    struct failure failure = {.code = rejection.code, .rank = -1};
    snprintf(rejection.text, sizeof rejection.text, "%s", text);
    snprintf(failure.text, sizeof failure.text, "%s", text);
    log_warn(BOOT, "%s", text);
    wire_send(guest->wire, TABLE_REJECT, &rejection, sizeof rejection, NULL, 0);
    if (meeting->state != MEETING_GATHERS || meeting->cards == NULL)
        return true;
    const bool listed = meeting->listed;
    meeting_fail(meeting, &failure);
    return !listed;
}

static bool meeting_table_create(struct rendezvous *meeting, int nranks) {
    size_t n = (size_t)nranks;
    meeting->owner = arena_get(&meeting->arena, n, sizeof *meeting->owner);
    meeting->have = arena_get(&meeting->arena, n, sizeof *meeting->have);
    meeting->nodes = arena_get(&meeting->arena, n, sizeof *meeting->nodes);
    struct card *cards = arena_get(&meeting->arena, n, sizeof *cards);
    if (meeting->arena.failed)
        return false;
    meeting->cards = cards;
    meeting->nranks = nranks;
    return true;
}

/* Is something wrong with this newcomer? What? */
static bool find_fault(const struct rendezvous *meeting, const struct card *card, char text[ERR_TEXT_BYTES]) {
    char who[CARD_TEXT_BYTES], other[CARD_TEXT_BYTES];
    card_text(card, who);
    if (meeting->cards == NULL)
        return false;
    int first = 0;
    while (meeting->owner[first] == NULL)
        first++;
    if (card->nranks != meeting->nranks) {
        card_text(&meeting->cards[first], other);
        snprintf(text, ERR_TEXT_BYTES, "nranks differs: %d on %s, but %d on %s", card->nranks, who, meeting->nranks,
                 other);
        return true;
    }
    if (meeting->owner[card->rank] != NULL) {
        card_text(&meeting->cards[card->rank], other);
        snprintf(text, ERR_TEXT_BYTES, "rank %d is taken: %s came first, %s came too", card->rank, other, who);
        return true;
    }
    return false;
}

/* The last rank has come. */
static void send_table(struct rendezvous *meeting) {
    meeting->state = MEETING_LINKS;
    memset(meeting->have, 0, (size_t)meeting->nranks);
    log_info(BOOT, "all %d ranks have come to port %d", meeting->nranks, meeting->door.port);
    struct table_head head = {.agreed = meeting->agreed};
    memcpy(head.process, process_identity(), sizeof head.process);
    tell_all(meeting, TABLE_ALL, &head, sizeof head, meeting->cards, (size_t)meeting->nranks * sizeof *meeting->cards);
    want_news(meeting);
}

static bool on_join(struct guest *guest, const struct frame *frame) {
    struct rendezvous *meeting = guest->meeting;
    struct card card;
    char text[ERR_TEXT_BYTES];
    if (frame->bytes < sizeof card)
        return true;
    const bool valid = card_read(frame->data, &card);
    const size_t config_bytes = frame->bytes - sizeof card;
    if (!valid || config_bytes != (card.rank == 0 ? sizeof meeting->agreed : 0)) {
        snprintf(text, sizeof text,
                 "rank %d of %d comes with another version of collet than the others, or with more than %d ranks",
                 card.rank, card.nranks, NRANKS_MAX);
        return reject(guest, &card, text);
    }
    if (meeting->state == MEETING_FAILED) {
        wire_send(guest->wire, TABLE_FAIL, &meeting->failure, sizeof meeting->failure, NULL, 0);
        return true;
    }
    if (find_fault(meeting, &card, text))
        return reject(guest, &card, text);
    if (meeting->cards == NULL && !meeting_table_create(meeting, card.nranks)) {
        guest->nranks++; /* it is to hear of the failure */
        meeting_fail(meeting, &(struct failure){COLLET_ERR_NO_MEMORY, -1, "no memory for the table of ranks"});
        return false;
    }
    meeting->cards[card.rank] = card;
    meeting->owner[card.rank] = guest;
    meeting->have[card.rank] = 1;
    guest->nranks++;
    if (card.rank == 0)
        memcpy(&meeting->agreed, frame->data + sizeof card, config_bytes);
    if (++meeting->njoined == meeting->nranks)
        send_table(meeting);
    else
        want_news(meeting);
    return true;
}

/* Everybody's edges stand. This process's own guest hears it last: it may exit soon after. */
static void send_go(struct rendezvous *meeting) {
    const size_t bytes = (size_t)meeting->nranks * sizeof *meeting->nodes;
    door_close(&meeting->door); /* first: ranks may soon come back with the same listed id, for another communicator */
    for (int own = false; own <= true; own++) {
        for (int rank = 0; rank < meeting->nranks; rank++) {
            struct guest *guest = meeting->owner[rank];
            if (guest->ready && process_is_here(meeting->cards[rank].process) == own) {
                guest->ready = false; /* has been told */
                wire_send(guest->wire, TABLE_GO, meeting->nodes, bytes, NULL, 0);
            }
        }
    }
    for (struct guest *guest = meeting->guests; guest != NULL; guest = guest->next)
        if (guest->nranks == 0)
            wire_send(guest->wire, TABLE_OVER, NULL, 0, NULL, 0);
    meeting_destroy(meeting);
}

static bool on_guest_ready(struct guest *guest, const struct frame *frame) {
    struct rendezvous *meeting = guest->meeting;
    if (meeting->state != MEETING_LINKS)
        return true;
    for (size_t at = 0; at + sizeof(struct node_report) <= frame->bytes; at += sizeof(struct node_report)) {
        struct node_report report;
        memcpy(&report, frame->data + at, sizeof report);
        if (report.rank < 0 || report.rank >= meeting->nranks || meeting->owner[report.rank] != guest ||
            report.node < 0 || report.node > report.rank)
            continue;
        meeting->nodes[report.rank] = report.node;
        meeting->have[report.rank] = 1;
        guest->ready = true;
    }
    want_news(meeting);
    for (int rank = 0; rank < meeting->nranks; rank++)
        if (!meeting->have[rank])
            return true;
    for (int rank = 0; rank < meeting->nranks; rank++) /* what shares memory with a node's member is of that node */
        meeting->nodes[rank] = meeting->nodes[meeting->nodes[rank]];
    send_go(meeting);
    return false;
}

static bool on_guest_fail(struct guest *guest, const struct frame *frame) {
    struct failure failure;
    if (guest->nranks == 0 || guest->meeting->state == MEETING_FAILED ||
        !failure_read(frame->data, frame->bytes, &failure))
        return true;
    const bool listed = guest->meeting->listed;
    meeting_fail(guest->meeting, &failure);
    return !listed;
}

static bool on_guest_frame(struct guest *guest, const struct frame *frame) {
    switch (frame->type) {
    case TABLE_JOIN: return on_join(guest, frame);
    case TABLE_READY: return on_guest_ready(guest, frame);
    case TABLE_FAIL: return on_guest_fail(guest, frame);
    default: return true;
    }
}

/* ------------------------------------------------------------------------------------------------------------- guests */

static void guest_lost(struct guest *guest, const char *how) {
    struct rendezvous *meeting = guest->meeting;
    const int nranks = guest->nranks;
    struct failure failure = {.code = COLLET_ERR_REMOTE, .rank = -1};
    for (int rank = meeting->nranks - 1; rank >= 0; rank--) {
        if (meeting->owner[rank] != guest)
            continue;
        char who[CARD_TEXT_BYTES];
        card_text(&meeting->cards[rank], who);
        snprintf(failure.text, sizeof failure.text, "%s %s while the communicator was created", who, how);
        meeting->owner[rank] = NULL;
    }
    wire_destroy(guest_leave(guest));
    if (nranks > 0 && meeting->state != MEETING_FAILED) {
        log_warn(BOOT, "%s", failure.text);
        meeting_fail(meeting, &failure);
    }
}

static void guest_ready(struct wire *wire) {
    struct guest *guest = wire->owner;
    const size_t most = sizeof(struct card) + sizeof(struct config) + sizeof(struct failure) +
                        (size_t)guest->nranks * sizeof(struct node_report);
    bool open = wire_fill(wire, wire_room(most));
    struct frame frame;
    int got;
    while ((got = wire_next(wire, most, &frame)) > 0)
        if (!on_guest_frame(guest, &frame))
            return;
    if (!open || got < 0)
        guest_lost(guest, got < 0 ? "sent what is no message of collet, or somebody on the way changed it," : "died");
}

static void on_guest_proven(struct door *door, struct wire *wire) {
    struct rendezvous *meeting = WATCH_OWNER(door, struct rendezvous, door);
    struct guest *guest = calloc(1, sizeof *guest);
    if (guest == NULL) {
        wire_destroy(wire);
        return;
    }
    *guest = (struct guest){.meeting = meeting, .wire = wire, .next = meeting->guests, .link = &meeting->guests};
    if (guest->next != NULL)
        guest->next->link = &guest->next;
    meeting->guests = guest;
    wire->ready = guest_ready;
    wire->owner = guest;
}

static void on_meeting_exhausted(struct door *door, const char *text) {
    struct rendezvous *meeting = WATCH_OWNER(door, struct rendezvous, door);
    struct failure failure = {.code = COLLET_ERR_SYSTEM, .rank = -1};
    snprintf(failure.text, sizeof failure.text, "%s", text);
    if (meeting->state == MEETING_FAILED)
        return;
    log_warn(BOOT, "%s", text);
    hub_fail_gathering(meeting->secret, COLLET_ERR_SYSTEM, text); /* perhaps it is this process that waits outside */
    meeting_fail(meeting, &failure);
}

/* --------------------------------------------------------------------------------------------------------------- life */

static void start_meeting(struct watch_task *task) {
    struct rendezvous *meeting = WATCH_OWNER(task, struct rendezvous, start);
    uint8_t key[SECRET_BYTES];
    struct process *process = process_lock();
    process_unlock();
    meeting->next = process->meetings;
    process->meetings = meeting;
    id_key(meeting->secret, "meeting point", NULL, 0, key);
    if (door_serve(&meeting->door, key, on_guest_proven, on_meeting_exhausted) != COLLET_SUCCESS)
        meeting_destroy(meeting);
}

enum collet_result rendezvous_open(struct id *id) {
    const struct config *config = config_process();
    struct watch *watch;
    int family;
    COLLET_TRY(watch_start(&watch));
    COLLET_TRY(address_family(config->socket_family, &family));
    struct rendezvous *meeting;
    COLLET_TRY(memory_get(&meeting, 1, sizeof *meeting, "no memory for the meeting point"));
    meeting->listed = id->listed;
    meeting->news.fire = send_news;
    meeting->door.listener.fd = -1;
    enum collet_result result =
        door_open(&meeting->door, family, id->listed ? id->set.port : 0, id->listed ? "" : config->socket_ifname);
    if (result == COLLET_SUCCESS && !id->listed) {
        result = address_local(config->socket_ifname, meeting->door.v6 ? family : AF_INET, "", &id->set);
        id->set.port = (uint16_t)meeting->door.port;
        os_random(id->secret, SECRET_BYTES);
    }
    memcpy(meeting->secret, id->secret, SECRET_BYTES);
    watch_task_init(&meeting->start, watch, start_meeting);
    if (result != COLLET_SUCCESS) {
        door_close(&meeting->door);
        free(meeting);
        return result;
    }
    log_info(BOOT, "meeting point on port %d", meeting->door.port);
    watch_post(&meeting->start);
    return COLLET_SUCCESS;
}

bool rendezvous_fail(const uint8_t secret[SECRET_BYTES], const struct failure *failure) {
    struct rendezvous *meeting = process_lock()->meetings;
    process_unlock();
    while (meeting != NULL && memcmp(meeting->secret, secret, SECRET_BYTES) != 0)
        meeting = meeting->next;
    if (meeting == NULL || meeting->state == MEETING_FAILED)
        return false;
    meeting_fail(meeting, failure);
    return true;
}
