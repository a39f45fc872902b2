/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process does in init, for all its ranks of a communicator together:
 *
 *    GATHERS   dial the meeting point, prove the secret, JOIN each rank as it comes      until ALL (the table)
 *    LINKS     connect to the neighbours in the tree; try whose memory can be shared     then READY, until GO
 *    READY     letters, news and heartbeats, without the meeting point                   until all ranks have left
 *
 * All that other threads want (a new rank, a letter, a failure, a goodbye) is in the hub; they post the work task, which
 * looks at everything there is to do. A failure at any time is told to the meeting point, while there is one, and to the
 * neighbours.
 *
 * Read next: tree.c.
 */
#include "boot/member.h"

#include "base/log.h"
#include "base/os.h"
#include "boot/dial.h"
#include "boot/rendezvous.h"
#include "boot/table.h"
#include "boot/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARN_NS 30000000000ull
#define GONE_NS 5000000000ull /* refusals of this duration mean that a meeting point which was there is no more */

struct member {
    struct hub *hub;
    struct watch_task work;
    struct address_set listener; /* of the tree's door */
    struct tree tree;
    struct dial dial;         /* to the meeting point */
    struct wire *root;        /* to the meeting point, proven */
    struct watch_timer timer; /* of the warning and the deadlines of init */
    uint64_t warn_ns;         /* 0: done */
    bool started, met, linking, ready_said, failure_told;
    char news[ERR_TEXT_BYTES]; /* who is missing, in the meeting point's words */
};

static void dial_root(struct member *member);

static void fail(struct member *member, enum collet_result code, const char *text) {
    if (!hub_fail(member->hub, code, text))
        return;
    log_warn(BOOT, "%s", text);
    watch_post(&member->work);
}

/* ------------------------------------------------------------------------------------------------- the meeting point */

static void announce(struct member *member, int rank, int device, const struct config *config) {
    struct card card;
    card_fill(&card, member->hub->nranks, rank, device, config);
    card.probe = process_probe();
    card.listener = member->listener;
    wire_send(member->root, TABLE_JOIN, &card, sizeof card, config, rank == 0 ? sizeof *config : 0);
}

/* Finds a rank that the meeting point has not been told of and marks it; −1 if there is none. */
static int next_unannounced(struct hub *hub, int *device, struct config *config) {
    int found = -1;
    pthread_mutex_lock(&hub->lock);
    for (int rank = 0; rank < hub->nranks && found < 0; rank++) {
        struct boot *boot = hub->local[rank];
        if (boot == NULL || boot->announced)
            continue;
        found = rank;
        boot->announced = true;
        *device = boot->device;
        *config = boot->own_config;
    }
    pthread_mutex_unlock(&hub->lock);
    return found;
}

static void reject(struct hub *hub, int rank, enum collet_result code, const char *text) {
    pthread_mutex_lock(&hub->lock);
    struct boot *boot = rank >= 0 && rank < hub->nranks ? hub->local[rank] : NULL;
    if (boot != NULL && boot->rejected == COLLET_SUCCESS) {
        snprintf(boot->rejected_text, sizeof boot->rejected_text, "%s", text);
        boot->rejected = code < 0 ? code : COLLET_ERR_INTERNAL;
    }
    pthread_mutex_unlock(&hub->lock);
}

/* Brings ranks that have come since to the meeting point. */
static void announce_ranks(struct member *member) {
    struct hub *hub = member->hub;
    struct config config;
    int rank, device;
    if (member->root == NULL && hub->phase != HUB_READY)
        return;
    while ((rank = next_unannounced(hub, &device, &config)) >= 0) {
        if (member->root != NULL)
            announce(member, rank, device, &config);
        else
            reject(hub, rank, COLLET_ERR_INVALID_ARGUMENT,
                   "rank: taken by another process, with which the communicator is complete");
    }
}

static void on_reject(struct member *member, const struct frame *frame) {
    struct rejection rejection;
    if (frame->bytes != sizeof rejection)
        return;
    memcpy(&rejection, frame->data, sizeof rejection);
    rejection.text[sizeof rejection.text - 1] = '\0';
    reject(member->hub, rejection.rank, (enum collet_result)rejection.code, rejection.text);
}

static void on_news(struct member *member, const struct frame *frame) {
    snprintf(member->news, sizeof member->news, "%.*s", (int)frame->bytes, frame->data);
}

static void take_table(struct hub *hub, const struct card *cards) {
    pthread_mutex_lock(&hub->lock);
    for (int rank = 0; rank < hub->nranks; rank++)
        hub_set_peer(hub, &cards[rank]);
    hub->phase = HUB_LINKS;
    pthread_mutex_unlock(&hub->lock);
}

/* All have come: here is who they are. */
static void on_all(struct member *member, const struct frame *frame) {
    struct hub *hub = member->hub;
    const size_t cards_bytes = (size_t)hub->nranks * sizeof(struct card);
    struct card *cards = malloc(cards_bytes); /* a frame is not aligned */
    if (hub->phase != HUB_GATHERS || frame->bytes != sizeof hub->agreed + cards_bytes || cards == NULL) {
        fail(member, COLLET_ERR_INTERNAL, "the table of ranks cannot be taken in");
        free(cards);
        return;
    }
    hub_unlist(hub);
    memcpy(&hub->agreed, frame->data, sizeof hub->agreed);
    memcpy(cards, frame->data + sizeof hub->agreed, cards_bytes);
    take_table(hub, cards);
    member->linking = true;
    for (int rank = 0; rank < hub->nranks; rank++)
        if (process_is_here(cards[rank].process))
            hub->peers[rank].node = card_find_node(cards, rank);
    enum collet_result result = tree_link(&member->tree, cards);
    if (result != COLLET_SUCCESS)
        fail(member, result, err_last());
    free(cards);
    watch_post(&member->work);
}

/* The last word of the meeting point. */
static void on_go(struct member *member, const struct frame *frame) {
    struct hub *hub = member->hub;
    if (hub->phase != HUB_LINKS || frame->bytes != (size_t)hub->nranks * sizeof(int32_t))
        return;
    pthread_mutex_lock(&hub->lock);
    for (int rank = 0; rank < hub->nranks; rank++) {
        int32_t node;
        memcpy(&node, frame->data + (size_t)rank * sizeof node, sizeof node);
        hub->peers[rank].node = node >= 0 && node <= rank ? node : rank;
    }
    hub->phase = HUB_READY;
    pthread_mutex_unlock(&hub->lock);
    watch_timer_stop(&member->timer);
    tree_run(&member->tree);
    log_info(BOOT, "%d ranks in %d processes are connected", hub->nranks, member->tree.nplaces);
}

static void on_fail(struct member *member, const struct frame *frame) {
    struct failure failure;
    if (!failure_read(frame->data, frame->bytes, &failure))
        return;
    hub_fail(member->hub, (enum collet_result)failure.code, failure.text);
    watch_post(&member->work);
}

static void root_lost(struct member *member) {
    wire_destroy(member->root);
    member->root = NULL;
    if (member->hub->phase == HUB_READY || hub_failed(member->hub))
        return;
    if (member->linking) {
        fail(member, COLLET_ERR_REMOTE,
             "the process with the meeting point died while the communicator was created");
        return;
    }
    /* It may have been that of an earlier communicator with the same listed id, which was just complete. */
    struct hub *hub = member->hub;
    pthread_mutex_lock(&hub->lock);
    for (int rank = 0; rank < hub->nranks; rank++)
        if (hub->local[rank] != NULL)
            hub->local[rank]->announced = false;
    pthread_mutex_unlock(&hub->lock);
    dial_root(member);
}

static void root_ready(struct wire *wire) {
    struct member *member = wire->owner;
    const size_t most = sizeof(struct config) + sizeof(struct rejection) +
                        (size_t)member->hub->nranks * sizeof(struct card);
    bool open = wire_fill(wire, wire_room(most));
    struct frame frame;
    int got;
    while ((got = wire_next(wire, most, &frame)) > 0) {
        switch (frame.type) {
        case TABLE_REJECT: on_reject(member, &frame); break;
        case TABLE_NEWS: on_news(member, &frame); break;
        case TABLE_ALL: on_all(member, &frame); break;
        case TABLE_GO: on_go(member, &frame); break;
        case TABLE_FAIL: on_fail(member, &frame); break;
        default: break;
        }
    }
    if (!open || got < 0 || member->hub->phase == HUB_READY)
        root_lost(member);
}

static void on_proven(struct dial *dial, struct wire *wire) {
    struct member *member = WATCH_OWNER(dial, struct member, dial);
    member->root = wire;
    member->met = true;
    wire->ready = root_ready;
    wire->owner = member;
    announce_ranks(member);
    root_ready(wire);
}

static void on_round_failed(struct dial *dial) {
    struct member *member = WATCH_OWNER(dial, struct member, dial);
    char text[ERR_TEXT_BYTES];
    if ((member->hub->id.listed && !member->met) || dial_refused_ns(dial) < GONE_NS)
        return;
    dial_stop(dial);
    snprintf(text, sizeof text,
             "nobody listens at the meeting point any more (%s): the process that made the id has exited, or a "
             "communicator was created with this id before",
             dial->trouble);
    fail(member, COLLET_ERR_REMOTE, text);
}

static void dial_root(struct member *member) {
    const struct id *id = &member->hub->id;
    uint8_t key[SECRET_BYTES];
    id_key(id->secret, "meeting point", NULL, 0, key);
    dial_start(&member->dial, &id->set, key, on_proven, on_round_failed);
}

/* ------------------------------------------------------------------------------------------------- warning and deadline */

/* Who or what is being waited for. */
static void waiting_text(const struct member *member, char *text, size_t room) {
    if (member->root == NULL) {
        char where[200];
        address_set_text(&member->hub->id.set, where, sizeof where);
        snprintf(text, room, "no meeting point answers at %s (%s)", where, member->dial.trouble);
    } else if (member->linking && member->tree.dial.active) {
        char name[HUB_NAME_BYTES];
        hub_name_rank(member->hub, tree_parent_rank(&member->tree), name);
        snprintf(text, room, "cannot connect to %s (%s)", name, member->tree.dial.trouble);
    } else {
        snprintf(text, room, "%.400s", member->news[0] ? member->news : "not all ranks have come");
    }
}

/* The earliest deadline among this process's ranks; 0: there are none. */
static uint64_t first_deadline(struct hub *hub, int *timeout_s) {
    uint64_t first_ns = 0;
    pthread_mutex_lock(&hub->lock);
    for (int rank = 0; rank < hub->nranks; rank++) {
        const struct boot *boot = hub->local[rank];
        if (boot != NULL && (first_ns == 0 || boot->deadline_ns < first_ns)) {
            first_ns = boot->deadline_ns;
            *timeout_s = (int)boot->own_config.init_timeout;
        }
    }
    pthread_mutex_unlock(&hub->lock);
    return first_ns;
}

static void on_timer(struct watch_timer *timer) {
    struct member *member = WATCH_OWNER(timer, struct member, timer);
    uint64_t now_ns = os_now_ns();
    char waiting[ERR_TEXT_BYTES - 64], text[ERR_TEXT_BYTES];
    int timeout_s = 0;
    uint64_t deadline_ns = first_deadline(member->hub, &timeout_s);
    if (deadline_ns == 0)
        return;
    waiting_text(member, waiting, sizeof waiting);
    if (now_ns >= deadline_ns) {
        snprintf(text, sizeof text, "init took longer than %d s (COLLET_INIT_TIMEOUT): %s", timeout_s, waiting);
        fail(member, COLLET_ERR_TIMEOUT, text);
        return;
    }
    if (member->warn_ns != 0 && now_ns >= member->warn_ns) {
        log_warn(BOOT, "still waiting after 30 s: %s", waiting);
        member->warn_ns = 0;
    }
    bool warns_first = member->warn_ns != 0 && member->warn_ns < deadline_ns;
    watch_timer_set(timer, warns_first ? member->warn_ns : deadline_ns);
}

/* ----------------------------------------------------------------------------------------------------------- the work */

static void start(struct member *member) {
    member->started = true;
    member->warn_ns = os_now_ns() + WARN_NS;
    dial_root(member);
}

static void tell_failure(struct member *member) {
    struct failure failure = {.code = hub_failed(member->hub)};
    if (failure.code == 0 || member->failure_told)
        return;
    member->failure_told = true;
    snprintf(failure.text, sizeof failure.text, "%s", member->hub->failed_text);
    watch_timer_stop(&member->timer);
    dial_stop(&member->dial);
    if (member->root != NULL)
        wire_send(member->root, TABLE_FAIL, &failure, sizeof failure, NULL, 0);
    else if (member->hub->phase != HUB_READY)
        rendezvous_abandon(member->hub->id.secret, &failure);
    wire_finish(member->root);
    member->root = NULL;
    tree_spread_failure(&member->tree);
}

static void send_letters(struct member *member) {
    struct hub *hub = member->hub;
    for (;;) {
        pthread_mutex_lock(&hub->lock);
        struct letter *letter = letter_take(&hub->outbox);
        pthread_mutex_unlock(&hub->lock);
        if (letter == NULL)
            return;
        if (member->linking)
            tree_post(&member->tree, letter);
        else
            free(letter);
    }
}

static void say_ready(struct member *member) {
    struct hub *hub = member->hub;
    if (!member->linking || member->ready_said || member->root == NULL || !tree_linked(&member->tree))
        return;
    member->ready_said = true;
    struct node_report *reports = calloc((size_t)hub->nranks, sizeof *reports);
    size_t nreports = 0;
    for (int rank = 0; rank < hub->nranks && reports != NULL; rank++)
        if (process_is_here(hub->peers[rank].process))
            reports[nreports++] = (struct node_report){.rank = rank, .node = hub->peers[rank].node};
    wire_send(member->root, TABLE_READY, reports, nreports * sizeof *reports, NULL, 0);
    free(reports);
}

/* Has everybody left, or is there nobody here whom it could concern? */
static bool is_over(struct hub *hub) {
    pthread_mutex_lock(&hub->lock);
    bool over = hub->nlocal == 0 &&
                (hub->failed_word != 0 || hub->phase != HUB_READY || hub->missing_count == hub->nranks);
    pthread_mutex_unlock(&hub->lock);
    return over;
}

static void member_destroy(struct member *member) {
    tree_close(&member->tree);
    dial_stop(&member->dial);
    watch_timer_stop(&member->timer);
    wire_finish(member->root);
    hub_release(member->hub);
    free(member);
}

static void work(struct watch_task *task) {
    struct member *member = WATCH_OWNER(task, struct member, work);
    struct hub *hub = member->hub;
    pthread_mutex_lock(&hub->lock);
    uint64_t flushes_wanted = hub->flushes_wanted;
    pthread_mutex_unlock(&hub->lock);

    if (!member->started)
        start(member);
    announce_ranks(member);
    tell_failure(member);
    send_letters(member);
    say_ready(member);
    if (hub->phase != HUB_READY && hub_failed(hub) == 0)
        on_timer(&member->timer); /* sets it anew: a rank may have come with an earlier deadline */

    pthread_mutex_lock(&hub->lock);
    hub->flushes_done = flushes_wanted;
    pthread_cond_broadcast(&hub->flushed);
    pthread_mutex_unlock(&hub->lock);

    if (!is_over(hub))
        return;
    hub_unlist(hub); /* before the decision is final: no rank can come any more */
    if (is_over(hub) && !watch_task_queued(task))
        member_destroy(member);
}

enum collet_result member_create(struct hub *hub) {
    const struct config *config = NULL;
    for (int rank = 0; rank < hub->nranks; rank++)
        if (hub->local[rank] != NULL)
            config = &hub->local[rank]->own_config;
    int family;
    COLLET_TRY(address_family(config->socket_family, &family));
    struct member *member = calloc(1, sizeof *member);
    if (member == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a communicator");
    enum collet_result result = tree_open(&member->tree, hub, family);
    if (result == COLLET_SUCCESS)
        result = address_local(config->socket_ifname, member->tree.door.v6 ? family : AF_INET, &member->listener);
    if (result != COLLET_SUCCESS) {
        door_close(&member->tree.door);
        free(member);
        return result;
    }
    member->listener.port = (uint16_t)member->tree.door.port;
    member->listener.nports = 1;
    member->hub = hub;
    member->timer.fire = on_timer;
    watch_task_init(&member->work, hub->watch, work);
    hub->work = &member->work;
    hub->references++;
    return COLLET_SUCCESS;
}
