/* SPDX-License-Identifier: Apache-2.0
 *
 * The server of init. A guest is a process; it may bring several ranks.
 *
 *      guests                                    meeting point
 *      (handshake, auth.h)  ◀──────────────────▶ door
 *      JOIN card            ───────────────────▶ writes it into the table; REJECTs one that cannot be right, and init ends
 *      ABSENT failure       ───────────────────▶ instead: this rank will not come (abort_notice_send()), and init ends
 *      ASK                  ───────────────────▶ a guest that has waited for long
 *                           ◀─────────────────── NEWS: the ranks that are missing
 *                           ◀─────────────────── SEAT: where it stands in the tree, once the last rank has come; and to the
 *                                                guest of rank 0 the table: KNOBS, CARDS
 *      (guests connect to each other: the tree; hand the table down; and try whose memory they can share)
 *      READY nodes          ───────────────────▶
 *                           ◀─────────────────── DONE, once the last guest is ready; and to the guest of rank 0 the NODES,
 *                                                which go down the tree too
 *
 * The table is as long as there are ranks, and so is the list of nodes. Each is sent once from here, so a meeting point of n
 * ranks sends O(n) bytes, not O(n²).
 *
 * Until DONE, a guest that leaves or says FAIL ends init for all. So either all ranks begin or none, except for a death at
 * the very end. A meeting point that failed stays open for COLLET_INIT_TIMEOUT: a guest that comes late hears why. It is closed
 * at once if all have come, and so is a listed one, because the next attempt needs its port.
 *
 * It belongs to the watch thread. Read next: member.c, the guests' side.
 */
#include "boot/rendezvous.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "boot/interfaces.h"
#include "boot/patience.h"
#include "boot/tree.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOTICE_DIAL_NS 1000000000ull
#define NOTICE_NAP_NS 200000

enum meeting_state { MEETING_GATHERS, MEETING_LINKS, MEETING_FAILED };

struct guest {
    struct rendezvous *meeting;
    struct wire *wire;
    int nranks; /* number of ranks that it brought */
    struct guest *next, **link;
};

struct rendezvous {
    struct watch_task start;
    struct door door;
    bool listed;
    uint8_t secret[SECRET_BYTES];
    enum meeting_state state;
    struct guest *guests;
    struct watch_timer end;
    struct failure failure;
    struct rendezvous *next;

    /* Set by the first JOIN: */
    int nranks;
    struct arena arena;   /* owns the next two */
    struct guest **owner; /* [rank] NULL: has not come */
    uint8_t *have;        /* [rank] 1: has come (MEETING_GATHERS), or has reported its node (MEETING_LINKS) */
    int nhave;
    struct table table;
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

/* Queued messages for guests are sent first. */
static void meeting_destroy(struct rendezvous *meeting) {
    struct rendezvous **link = &process_without_lock()->meetings;
    while (*link != meeting)
        link = &(*link)->next;
    *link = meeting->next;
    door_close(&meeting->door);
    watch_timer_stop(&meeting->end);
    while (meeting->guests != NULL)
        wire_finish(guest_leave(meeting->guests));
    table_free(&meeting->table);
    arena_free(&meeting->arena);
    sodium_memzero(meeting->secret, sizeof meeting->secret);
    free(meeting);
}

/* Sends to all guests that brought ranks. */
static void meeting_tell(struct rendezvous *meeting, enum table_frame type, const void *data, size_t bytes) {
    for (struct guest *guest = meeting->guests; guest != NULL; guest = guest->next)
        if (guest->nranks > 0)
            wire_send(guest->wire, type, data, bytes, NULL, 0);
}

/* All late guests have come by now, or have given up. */
static void end_failed(struct watch_timer *timer) { meeting_destroy(WATCH_OWNER(timer, struct rendezvous, end)); }

/* Ends init for everybody. False: the meeting is freed, because no late guest can come. */
static bool meeting_fail(struct rendezvous *meeting, const struct failure *failure) {
    const bool somebody_may_come = meeting->state == MEETING_GATHERS && !meeting->listed;
    meeting->state = MEETING_FAILED;
    meeting->failure = *failure;
    meeting_tell(meeting, TABLE_FAIL, failure, sizeof *failure);
    meeting->end.fire = end_failed;
    watch_timer_set(&meeting->end, os_now_ns() + (uint64_t)config_process()->init_timeout * 1000000000u);
    if (!somebody_may_come)
        meeting_destroy(meeting);
    return somebody_may_come;
}

/* Like meeting_fail(), because there is no memory for `what` on this host. */
static bool fail_without_memory(struct rendezvous *meeting, const char *what) {
    struct failure failure = {.code = COLLET_ERR_NO_MEMORY, .rank = -1};
    snprintf(failure.text, sizeof failure.text, "no memory for %s at the meeting point (host %s, pid %d)", what,
             os_host_name(), os_pid());
    return meeting_fail(meeting, &failure);
}

/* --------------------------------------------------------------------------------------------------------- the frames */

/* Rejects a rank that contradicts the others. It has the place of a rank that is missing, so init cannot succeed, and ends for all.
 * Returns false if guest or meeting is freed, like all handlers here. */
static bool reject(struct guest *guest, const struct card *card, const char *text) {
    struct rendezvous *meeting = guest->meeting;
    struct rejection rejection = {.rank = card->rank, .code = COLLET_ERR_INVALID_ARGUMENT};
    struct failure failure = {.code = rejection.code, .rank = -1};
    snprintf(rejection.text, sizeof rejection.text, "%s", text);
    snprintf(failure.text, sizeof failure.text, "%s", text);
    log_warn(BOOT, "%s", text);
    wire_send(guest->wire, TABLE_REJECT, &rejection, sizeof rejection, NULL, 0);
    if (meeting->state != MEETING_GATHERS || meeting->nranks == 0)
        return true;
    return meeting_fail(meeting, &failure);
}

static bool meeting_table_create(struct rendezvous *meeting, int nranks) {
    size_t n = (size_t)nranks;
    struct guest **owner = arena_get(&meeting->arena, n, sizeof(struct guest *));
    meeting->have = arena_get(&meeting->arena, n, sizeof *meeting->have);
    if (meeting->arena.failed || table_create(&meeting->table, nranks) != COLLET_SUCCESS)
        return false;
    meeting->owner = owner;
    meeting->nranks = nranks;
    return true;
}

/* Is something wrong with this newcomer? Then text says what. */
static bool find_fault(const struct rendezvous *meeting, const struct card *card, char text[ERR_TEXT_BYTES]) {
    char who[CARD_TEXT_BYTES], other[CARD_TEXT_BYTES];
    card_text(card, who);
    if (meeting->nranks == 0)
        return false;
    int first = 0;
    while (meeting->owner[first] == NULL)
        first++;
    if (card->nranks != meeting->nranks) {
        card_text(&meeting->table.cards[first], other);
        snprintf(text, ERR_TEXT_BYTES, "nranks differs: %d on %s, but %d on %s", card->nranks, who, meeting->nranks,
                 other);
        return true;
    }
    if (meeting->owner[card->rank] != NULL) {
        card_text(&meeting->table.cards[card->rank], other);
        snprintf(text, ERR_TEXT_BYTES, "rank %d is taken: %s came first, %s came too", card->rank, other, who);
        return true;
    }
    return false;
}

/* Writes "rank 0 (host n1, pid 77)", for the process of this meeting point. */
static void meeting_text(const struct rendezvous *meeting, char text[CARD_TEXT_BYTES]) {
    snprintf(text, CARD_TEXT_BYTES, "none of the ranks");
    for (int rank = meeting->nranks - 1; rank >= 0; rank--)
        if (process_is_here(meeting->table.cards[rank].process))
            card_text(&meeting->table.cards[rank], text);
}

static void send_seats(struct rendezvous *meeting, const struct places *places) {
    struct seat seat = {.nplaces = places->count};
    meeting_text(meeting, seat.meeting);
    os_random(seat.nonce, sizeof seat.nonce);
    for (seat.place = 0; seat.place < places->count; seat.place++) {
        const int parent = places_parent(seat.place);
        seat.rank = places->list[seat.place].lowest_rank;
        if (parent >= 0)
            seat.parent = meeting->table.cards[places->list[parent].lowest_rank];
        wire_send(meeting->owner[seat.rank]->wire, TABLE_SEAT, &seat, sizeof seat, NULL, 0);
    }
    table_send_cards(&meeting->table, meeting->owner[0]->wire);
}

/* The last rank has come. Returns false if guest or meeting is freed, like all handlers here. */
static bool begin_linking(struct rendezvous *meeting) {
    struct places places;
    meeting->state = MEETING_LINKS;
    meeting->nhave = 0;
    memset(meeting->have, 0, (size_t)meeting->nranks);
    log_info(BOOT, "all %d ranks have come to port %d", meeting->nranks, meeting->door.port);
    const bool made = places_create(&places, meeting->table.cards, meeting->nranks) == COLLET_SUCCESS;
    if (made)
        send_seats(meeting, &places);
    else
        fail_without_memory(meeting, "the tree of processes");
    places_destroy(&places);
    return made;
}

static bool on_join(struct guest *guest, const struct frame *frame) {
    struct rendezvous *meeting = guest->meeting;
    struct card card;
    char text[ERR_TEXT_BYTES];
    if (frame->bytes < sizeof card)
        return true;
    const bool valid = card_read(frame->data, &card);
    const size_t config_bytes = frame->bytes - sizeof card;
    if (!valid || config_bytes != (card.rank == 0 ? sizeof meeting->table.agreed : 0)) {
        snprintf(text, sizeof text,
                 "rank %d of %d comes with another version of collet than the others, or with more than %d ranks",
                 card.rank, card.nranks, BOOT_RANKS_MAX);
        return reject(guest, &card, text);
    }
    if (meeting->state == MEETING_FAILED) {
        wire_send(guest->wire, TABLE_FAIL, &meeting->failure, sizeof meeting->failure, NULL, 0);
        return true;
    }
    if (find_fault(meeting, &card, text))
        return reject(guest, &card, text);
    if (meeting->nranks == 0 && !meeting_table_create(meeting, card.nranks)) {
        guest->nranks++; /* it must hear of the failure */
        fail_without_memory(meeting, "the table of ranks");
        return false;
    }
    meeting->table.cards[card.rank] = card;
    meeting->owner[card.rank] = guest;
    meeting->have[card.rank] = 1;
    guest->nranks++;
    if (card.rank == 0)
        memcpy(&meeting->table.agreed, frame->data + sizeof card, config_bytes);
    return ++meeting->nhave < meeting->nranks || begin_linking(meeting);
}

/* All processes have their edges. The guest of rank 0 is told last: this process may exit after that. */
static void send_nodes(struct rendezvous *meeting) {
    struct wire *first = meeting->owner[0]->wire;
    door_close(&meeting->door); /* first: ranks may soon return with the same listed id */
    for (struct guest *guest = meeting->guests; guest != NULL; guest = guest->next)
        if (guest->wire != first)
            wire_send(guest->wire, guest->nranks > 0 ? TABLE_DONE : TABLE_OVER, NULL, 0, NULL, 0);
    table_send_nodes(&meeting->table, first);
    wire_send(first, TABLE_DONE, NULL, 0, NULL, 0);
    meeting_destroy(meeting);
}

static void note_node(struct rendezvous *meeting, const struct guest *guest, const struct node_report *report) {
    if (report->rank < 0 || report->rank >= meeting->nranks || meeting->owner[report->rank] != guest ||
        report->node < 0 || report->node > report->rank)
        return;
    meeting->table.nodes[report->rank] = report->node;
    meeting->nhave += !meeting->have[report->rank];
    meeting->have[report->rank] = 1;
}

static bool on_guest_ready(struct guest *guest, const struct frame *frame) {
    struct rendezvous *meeting = guest->meeting;
    int32_t *nodes = meeting->table.nodes;
    if (meeting->state != MEETING_LINKS)
        return true;
    for (size_t at = 0; at + sizeof(struct node_report) <= frame->bytes; at += sizeof(struct node_report)) {
        struct node_report report;
        memcpy(&report, frame->data + at, sizeof report);
        note_node(meeting, guest, &report);
    }
    if (meeting->nhave < meeting->nranks)
        return true;
    for (int rank = 0; rank < meeting->nranks; rank++) /* sharing memory with a rank of a node means the same node */
        nodes[rank] = nodes[nodes[rank]];
    send_nodes(meeting);
    return false;
}

static void on_ask(struct guest *guest) {
    const struct rendezvous *meeting = guest->meeting;
    char list[160], text[ERR_TEXT_BYTES];
    ranks_text(meeting->have, meeting->nranks, list, sizeof list);
    int used =
        snprintf(text, sizeof text, "of %d ranks these %s: %s", meeting->nranks,
                 meeting->state == MEETING_GATHERS ? "have not come" : "have come but are not connected yet", list);
    if (meeting->door.has_refused)
        snprintf(text + used, sizeof text - (size_t)used,
                 "; somebody came with another secret: is COLLET_SECRET the same everywhere?");
    wire_send(guest->wire, TABLE_NEWS, text, strlen(text) + 1, NULL, 0);
}

static bool on_guest_fail(struct guest *guest, const struct frame *frame) {
    struct failure failure;
    if (guest->nranks == 0 || guest->meeting->state == MEETING_FAILED ||
        !failure_read(frame->data, frame->bytes, &failure))
        return true;
    return meeting_fail(guest->meeting, &failure);
}

/* A rank that will not come may be the first one of which the meeting point hears. */
static bool on_absent(struct guest *guest, const struct frame *frame) {
    struct rendezvous *meeting = guest->meeting;
    struct failure failure;
    if (meeting->state != MEETING_GATHERS || !failure_read(frame->data, frame->bytes, &failure))
        return true;
    const bool is_here = failure.rank >= 0 && failure.rank < meeting->nranks && meeting->have[failure.rank];
    return is_here || meeting_fail(meeting, &failure);
}

static bool on_guest_frame(struct guest *guest, const struct frame *frame) {
    switch (frame->type) {
    case TABLE_JOIN: return on_join(guest, frame);
    case TABLE_FAIL: return on_guest_fail(guest, frame);
    case TABLE_ABSENT: return on_absent(guest, frame);
    case TABLE_READY: return on_guest_ready(guest, frame);
    case TABLE_ASK: on_ask(guest); return true;
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
        card_text(&meeting->table.cards[rank], who);
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
    struct guest *guest = patient_malloc(sizeof *guest);
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
    hub_fail_gathering(meeting->secret, COLLET_ERR_SYSTEM, text); /* this process itself may be waiting outside */
    meeting_fail(meeting, &failure);
}

/* --------------------------------------------------------------------------------------------------------------- life */

static void start_meeting(struct watch_task *task) {
    struct rendezvous *meeting = WATCH_OWNER(task, struct rendezvous, start);
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    struct process *process = process_without_lock();
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
    struct rendezvous *meeting = process_without_lock()->meetings;
    while (meeting != NULL && memcmp(meeting->secret, secret, SECRET_BYTES) != 0)
        meeting = meeting->next;
    if (meeting == NULL || meeting->state == MEETING_FAILED)
        return false;
    meeting_fail(meeting, failure);
    return true;
}

/* ------------------------------------------------------------------------------------------------------- abort notices */

struct abort_notice {
    struct watch_task task;
    struct dial dial;
    struct id id;
    struct failure failure;
    bool dials;  /* the meeting point may be in another process */
    int holders; /* its creator and the watch; the last one frees it */
};

static void let_go(struct abort_notice *notice) {
    if (__atomic_sub_fetch(&notice->holders, 1, __ATOMIC_ACQ_REL) > 0) /* pairs with itself */
        return;
    sodium_memzero(notice, sizeof *notice);
    free(notice);
}

static void on_answer(struct dial *dial, struct wire *wire) {
    struct abort_notice *notice = WATCH_OWNER(dial, struct abort_notice, dial);
    wire_send(wire, TABLE_ABSENT, &notice->failure, sizeof notice->failure, NULL, 0);
    wire_finish(wire);
    let_go(notice);
}

static void on_no_answer(struct dial *dial) {
    if (dial_refused_ns(dial) < DIAL_GONE_NS && os_now_ns() - dial->started_ns < NOTICE_DIAL_NS)
        return;
    dial_stop(dial);
    let_go(WATCH_OWNER(dial, struct abort_notice, dial));
}

static void deliver(struct watch_task *task) {
    struct abort_notice *notice = WATCH_OWNER(task, struct abort_notice, task);
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    id_key(notice->id.secret, "meeting point", NULL, 0, key);
    if (rendezvous_fail(notice->id.secret, &notice->failure) || !notice->dials)
        let_go(notice);
    else
        dial_start(&notice->dial, &notice->id.set, key, 0, on_answer, on_no_answer);
}

void abort_notice_send(const struct id *id, const struct failure *failure, uint64_t patience_ns) {
    const uint64_t limit_ns = os_now_ns() + patience_ns;
    struct watch *watch;
    struct abort_notice *notice;
    if (id->set.count == 0 || watch_start(&watch) != COLLET_SUCCESS || (notice = calloc(1, sizeof *notice)) == NULL)
        return;
    notice->id = *id;
    notice->failure = *failure;
    notice->dials = patience_ns > 0;
    notice->holders = 2;
    watch_task_init(&notice->task, watch, deliver);
    watch_post(&notice->task);
    while (__atomic_load_n(&notice->holders, __ATOMIC_ACQUIRE) == 2 && os_now_ns() < limit_ns)
        nanosleep(&(struct timespec){.tv_nsec = NOTICE_NAP_NS}, NULL);
    let_go(notice);
}
