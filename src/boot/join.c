/* SPDX-License-Identifier: Apache-2.0
 *
 * See rendezvous.c for the sequence. What comes from the meeting point goes into the hub; what it means for the tree is
 * told to the tree.
 */
#include "boot/join.h"

#include "base/log.h"
#include "base/memory.h"
#include "boot/rendezvous.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPREAD_NS 50000ull /* per rank: the time in which a meeting point accepts one guest */
#define SPREAD_MOST_NS 1000000000ull

static void dial_root(struct join *join);

static void fail_init(struct join *join, enum collet_result code, const char *text) {
    if (!hub_fail(join->hub, code, hub_rank_to_blame(join->hub, code), text))
        return;
    log_warn(BOOT, "%s", text);
    watch_post(join->hub->work);
}

/* ------------------------------------------------------------------------------------------------------------ announcing */

/* Finds a rank that the meeting point does not know yet, and marks it as announced; −1: none. */
static int next_unannounced(struct hub *hub, struct boot_self *self, struct config *config) {
    int found = -1;
    SCOPED_LOCK(&hub->lock);
    for (int rank = 0; rank < hub->nranks && found < 0; rank++) {
        struct boot *boot = hub->local[rank];
        if (boot == NULL || boot->announced)
            continue;
        found = rank;
        boot->announced = true;
        *self = boot->self;
        *config = boot->own_config;
    }
    return found;
}

/* Announces a rank. Only rank 0's AGREED knobs are sent: other knobs, such as the secret, stay here. */
static void announce(struct join *join, int rank, const struct boot_self *self, const struct config *config) {
    struct card card;
    struct config agreed;
    enum collet_result result;
    memset(&agreed, 0, sizeof agreed);
    config_adopt(&agreed, config);
    card_fill(&card, join->hub->nranks, rank, self, config);
    card.listener = join->listener;
    if ((result = process_probe(&card.probe)) != COLLET_SUCCESS) {
        fail_init(join, result, err_last());
        return;
    }
    wire_send(join->root, TABLE_JOIN, &card, sizeof card, &agreed, rank == 0 ? sizeof agreed : 0);
}

static void turn_away(struct hub *hub, int rank, enum collet_result code, const char *text) {
    SCOPED_LOCK(&hub->lock);
    struct boot *boot = rank >= 0 && rank < hub->nranks ? hub->local[rank] : NULL;
    if (boot != NULL && boot->rejected == COLLET_SUCCESS) {
        snprintf(boot->rejected_text, sizeof boot->rejected_text, "%.380s (here %.100s)", text,
                 boot->own_config.believed);
        boot->rejected = code;
    }
}

static void announce_ranks(struct join *join) {
    struct config config;
    int rank;
    struct boot_self self;
    if (join->root == NULL && join->hub->phase != HUB_READY)
        return;
    while ((rank = next_unannounced(join->hub, &self, &config)) >= 0) {
        if (join->root != NULL)
            announce(join, rank, &self, &config);
        else
            turn_away(join->hub, rank, COLLET_ERR_INVALID_ARGUMENT,
                      "rank: taken by another process, with which the communicator is complete");
    }
}

static void say_ready(struct join *join) {
    struct hub *hub = join->hub;
    SCOPED_FREE struct node_report *reports = calloc((size_t)hub->nranks, sizeof *reports);
    size_t nreports = 0;
    if (reports == NULL) {
        fail_init(join, COLLET_ERR_NO_MEMORY, "no memory to report nodes");
        return;
    }
    for (int rank = 0; rank < hub->nranks; rank++)
        if (process_is_here(hub->peers[rank].process))
            reports[nreports++] = (struct node_report){.rank = rank, .node = hub->peers[rank].node};
    wire_send(join->root, TABLE_READY, reports, nreports * sizeof *reports, NULL, 0);
    join->ready_said = true;
}

void join_ask(struct join *join) {
    join->asks = true; /* the question also waits for a meeting point that is found later */
    if (join->root != NULL)
        wire_send(join->root, TABLE_ASK, NULL, 0, NULL, 0);
}

void join_continue(struct join *join) {
    announce_ranks(join);
    if (join->linking && !join->ready_said && join->root != NULL && tree_linked(join->tree))
        say_ready(join);
}

/* ------------------------------------------------------------------------------------------------------------ the frames */

/* Here and below, false means: a meeting point cannot say that. */
static bool on_reject(struct join *join, const struct frame *frame) {
    struct rejection rejection;
    if (!rejection_read(frame->data, frame->bytes, &rejection))
        return false;
    turn_away(join->hub, rejection.rank, (enum collet_result)rejection.code, rejection.text);
    return true;
}

static bool on_news(struct join *join, const struct frame *frame) {
    snprintf(join->news, sizeof join->news, "%.*s", (int)frame->bytes, frame->data);
    return true;
}

/* All ranks have come. This message is the position of this process. No further rank of it may come. */
static bool on_seat(struct join *join, const struct frame *frame) {
    struct hub *hub = join->hub;
    struct seat seat;
    if (hub->phase != HUB_GATHERS || !seat_read(frame->data, frame->bytes, hub->nranks, &seat))
        return false;
    hub_unlist(hub);
    pthread_mutex_lock(&hub->lock);
    hub->phase = HUB_LINKS;
    if (seat.place > 0)
        hub_set_peer(hub, &seat.parent);
    pthread_mutex_unlock(&hub->lock);
    snprintf(join->meeting, sizeof join->meeting, "%s", seat.meeting);
    join->linking = true;
    enum collet_result result = tree_link(join->tree, &seat);
    if (result != COLLET_SUCCESS)
        fail_init(join, result, err_last());
    return true;
}

static bool on_root_fail(struct join *join, const struct frame *frame) {
    struct failure failure;
    if (!failure_read(frame->data, frame->bytes, &failure))
        return false;
    hub_fail(join->hub, (enum collet_result)failure.code, failure.rank, failure.text);
    return true;
}

static bool on_root_frame(struct join *join, const struct frame *frame) {
    switch (frame->type) {
    case TABLE_REJECT: return on_reject(join, frame);
    case TABLE_NEWS: return on_news(join, frame);
    case TABLE_SEAT: return on_seat(join, frame);
    case TABLE_KNOBS:
    case TABLE_CARDS:
    case TABLE_NODES: return hub_failed(join->hub) != COLLET_SUCCESS || tree_take_table(join->tree, frame);
    case TABLE_DONE: join->done = true; return true;
    case TABLE_FAIL: return on_root_fail(join, frame);
    case TABLE_OVER: join->met = false; return true; /* an earlier communicator with the same listed id */
    default: return false;
    }
}

/* --------------------------------------------------------------------------------------------------------- connecting */

/* False: no rank of this process is still wanted. */
static bool announce_again(struct hub *hub) {
    bool any = false;
    SCOPED_LOCK(&hub->lock);
    for (int rank = 0; rank < hub->nranks; rank++) {
        struct boot *boot = hub->local[rank];
        if (boot == NULL || boot->rejected != COLLET_SUCCESS)
            continue;
        boot->announced = false;
        any = true;
    }
    return any;
}

static void err_meeting_died(struct join *join) {
    char text[ERR_TEXT_BYTES];
    snprintf(text, sizeof text, "the process with the meeting point (%s) died while the communicator was created",
             join->meeting);
    fail_init(join, COLLET_ERR_REMOTE, text);
}

static void root_lost(struct join *join) {
    struct hub *hub = join->hub;
    wire_destroy(join->root);
    join->root = NULL;
    if (join->done || hub->phase == HUB_READY || hub_failed(hub) != COLLET_SUCCESS)
        return;
    if (join->linking) {
        err_meeting_died(join);
        return;
    }
    if (announce_again(hub))
        dial_root(join);
}

static void root_ready(struct wire *wire) {
    struct join *join = wire->owner;
    bool open = wire_fill(wire, wire_room(TABLE_PART_BYTES));
    struct frame frame;
    int got;
    while ((got = wire_next(wire, TABLE_PART_BYTES, &frame)) > 0 && on_root_frame(join, &frame))
        ;
    if (got != 0) /* not all could be read and understood */
        fail_init(
            join, COLLET_ERR_REMOTE,
            "the meeting point sent what cannot be: another version of collet, or somebody on the way changed it");
    watch_post(join->hub->work);
    if (!open || got != 0 || join->done)
        root_lost(join);
}

static void on_root_proven(struct dial *dial, struct wire *wire) {
    struct join *join = WATCH_OWNER(dial, struct join, dial);
    join->root = wire;
    join->met = true;
    wire->ready = root_ready;
    wire->owner = join;
    announce_ranks(join);
    if (join->asks)
        join_ask(join);
    root_ready(wire);
}

/* A listed meeting point may open later. Every other one was open before its id was made. */
static void on_root_round_failed(struct dial *dial) {
    struct join *join = WATCH_OWNER(dial, struct join, dial);
    char text[ERR_TEXT_BYTES];
    if (dial->exhausted) {
        snprintf(text, sizeof text, "cannot connect to the meeting point: %s", dial->trouble);
        fail_init(join, COLLET_ERR_SYSTEM, text);
        return;
    }
    if ((join->hub->id.listed && !join->met) || dial_refused_ns(dial) < MEETING_GONE_NS)
        return;
    dial_stop(dial);
    snprintf(
        text, sizeof text,
        "nobody of this job listens at the meeting point any more (%s): the process that made the id has exited, or a "
        "communicator was created with this id before",
        dial->trouble);
    fail_init(join, COLLET_ERR_REMOTE, text);
}

/* Spreads the ranks' connections over time, so the meeting point can accept one after the other. */
static uint64_t spread_ns(int nranks) {
    const uint64_t wanted_ns = (uint64_t)nranks * SPREAD_NS;
    return wanted_ns < SPREAD_MOST_NS ? wanted_ns : SPREAD_MOST_NS;
}

static void dial_root(struct join *join) {
    const struct id *id = &join->hub->id;
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    id_key(id->secret, "meeting point", NULL, 0, key);
    dial_start(&join->dial, &id->set, key, spread_ns(join->hub->nranks), on_root_proven, on_root_round_failed);
}

void join_start(struct join *join) { dial_root(join); }

void join_fail(struct join *join, const struct failure *failure) {
    /* Directly, if the meeting point is in this process: the process may be about to exit. */
    bool told = join->hub->phase != HUB_READY && rendezvous_fail(join->hub->id.secret, failure);
    if (!told && join->root != NULL)
        wire_send(join->root, TABLE_FAIL, failure, sizeof *failure, NULL, 0);
    join_stop(join);
}

void join_stop(struct join *join) {
    dial_stop(&join->dial);
    wire_finish(join->root);
    join->root = NULL;
}

bool join_expects_news(const struct join *join) {
    return join->root != NULL && !join->linking && join->news[0] == '\0';
}

void join_waiting_text(const struct join *join, char *text, size_t room) {
    if (join->root == NULL) {
        char where[200];
        address_set_text(&join->hub->id.set, where, sizeof where);
        snprintf(text, room, "no meeting point answers at %s (%s)", where, join->dial.trouble);
    } else if (join->linking && join->tree->dial.active) {
        char name[HUB_NAME_BYTES];
        hub_name_rank(join->hub, tree_parent_rank(join->tree), name);
        snprintf(text, room, "cannot connect to %s (%s)", name, join->tree->dial.trouble);
    } else {
        snprintf(text, room, "%.400s", join->news[0] ? join->news : "the meeting point is silent");
    }
}
