/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process does for all its ranks of a communicator together:
 *
 *    GATHERS   dial the meeting point, prove the secret, announce each rank as it comes    until it says that all have come
 *    LINKS     connect to the neighbours in the tree; try whose memory can be shared       until all have
 *    READY     letters, news and heartbeats, without the meeting point                     until all ranks have left
 *
 * All that other threads want (a new rank, a letter, a failure, a goodbye) they put into the hub, and post the work task,
 * which looks at everything there is to do.
 *
 * Read next: rendezvous.c, the other side of the first two phases; tree.h for the third.
 */
#include "boot/member.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "boot/interfaces.h"
#include "boot/link.h"
#include "boot/rendezvous.h"
#include "boot/tree_serve.h"
#include "seams/layer.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPREAD_NS 50000ull /* per rank: the time in which a meeting point accepts one guest */
#define SPREAD_MOST_NS 1000000000ull
#define ASK_NS 500000000ull /* time before a warning or deadline at which it asks the meeting point who is missing */
#define ANSWER_NS 3000000000ull /* maximum wait for the answer: a process may be busy, or was stopped */
#define LOOK_NS 20000000ull     /* time until it looks for the answer again */

struct member {
    struct hub *hub;
    struct watch_task work;
    struct tree tree;
    bool started, failure_told;
    struct watch_timer goodbye; /* one waits for letters */

    /* The meeting point: */
    struct address_set listener;   /* addresses of the tree's door */
    struct dial dial;              /* dials the meeting point */
    struct wire *root;             /* proven wire to the meeting point; NULL: not connected */
    bool met;                      /* it has been connected once */
    bool linking;                  /* the seat of this process has come */
    char meeting[CARD_TEXT_BYTES]; /* the process with the meeting point; known after that */
    bool ready_said;
    bool done;                 /* the meeting point has nothing more to say */
    bool asks;                 /* The meeting point is to be asked who is missing, now or once it is found. */
    char news[ERR_TEXT_BYTES]; /* the answer of the meeting point */

    /* The time that init takes: */
    struct watch_timer timer; /* for the warning and the deadlines of init */
    struct late late;         /* init's own wait */
    char believed[128];
    uint64_t asked_for_ns; /* time of the warning or deadline for which it has asked */
    uint64_t asked_ns;     /* time of the question */
};

static void dial_root(struct member *member);

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
static void announce(struct member *member, int rank, const struct boot_self *self, const struct config *config) {
    struct card card;
    struct config agreed;
    enum collet_result result;
    memset(&agreed, 0, sizeof agreed);
    config_adopt(&agreed, config);
    card_fill(&card, member->hub->nranks, rank, self, config);
    card.listener = member->listener;
    if ((result = process_probe(&card.probe)) != COLLET_SUCCESS) {
        hub_give_up(member->hub, result, err_last());
        return;
    }
    wire_send(member->root, TABLE_JOIN, &card, sizeof card, &agreed, rank == 0 ? sizeof agreed : 0);
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

static void announce_ranks(struct member *member) {
    struct config config;
    int rank;
    struct boot_self self;
    if (member->root == NULL && member->hub->phase != HUB_READY)
        return;
    while ((rank = next_unannounced(member->hub, &self, &config)) >= 0) {
        if (member->root != NULL)
            announce(member, rank, &self, &config);
        else
            turn_away(member->hub, rank, COLLET_ERR_INVALID_ARGUMENT,
                      "rank: taken by another process, with which the communicator is complete");
    }
}

static void say_ready(struct member *member) {
    struct hub *hub = member->hub;
    SCOPED_FREE struct node_report *reports = calloc((size_t)hub->nranks, sizeof *reports);
    size_t nreports = 0;
    if (reports == NULL) {
        hub_give_up(member->hub, COLLET_ERR_NO_MEMORY, "no memory to report nodes");
        return;
    }
    for (int rank = 0; rank < hub->nranks; rank++)
        if (process_is_here(hub->peers[rank].process))
            reports[nreports++] = (struct node_report){.rank = rank, .node = hub->peers[rank].node};
    wire_send(member->root, TABLE_READY, reports, nreports * sizeof *reports, NULL, 0);
    member->ready_said = true;
}

static void ask(struct member *member) {
    member->asks = true; /* the question also waits for a meeting point that is found later */
    if (member->root != NULL)
        wire_send(member->root, TABLE_ASK, NULL, 0, NULL, 0);
}

static void continue_init(struct member *member) {
    announce_ranks(member);
    if (member->linking && !member->ready_said && member->root != NULL && tree_linked(&member->tree))
        say_ready(member);
}

/* ------------------------------------------------------------------------------------------------------------ the frames */

/* Here and below, false means: a meeting point cannot say that. */
static bool on_reject(struct member *member, const struct frame *frame) {
    struct rejection rejection;
    if (!rejection_read(frame->data, frame->bytes, &rejection))
        return false;
    turn_away(member->hub, rejection.rank, (enum collet_result)rejection.code, rejection.text);
    return true;
}

static bool on_news(struct member *member, const struct frame *frame) {
    snprintf(member->news, sizeof member->news, "%.*s", (int)frame->bytes, frame->data);
    return true;
}

/* All ranks have come. This message is the position of this process. No further rank of it may come. */
static bool on_seat(struct member *member, const struct frame *frame) {
    struct hub *hub = member->hub;
    struct seat seat;
    if (hub->phase != HUB_GATHERS || !seat_read(frame->data, frame->bytes, hub->nranks, &seat))
        return false;
    hub_unlist(hub);
    pthread_mutex_lock(&hub->lock);
    seat_secret(&seat, hub->id.secret, hub->secret);
    hub->phase = HUB_LINKS;
    if (seat.place > 0)
        hub_set_peer(hub, &seat.parent);
    pthread_mutex_unlock(&hub->lock);
    snprintf(member->meeting, sizeof member->meeting, "%s", seat.meeting);
    member->linking = true;
    enum collet_result result = tree_link(&member->tree, &seat);
    if (result != COLLET_SUCCESS)
        hub_give_up(member->hub, result, err_last());
    return true;
}

static bool on_root_fail(struct member *member, const struct frame *frame) {
    struct failure failure;
    if (!failure_read(frame->data, frame->bytes, &failure))
        return false;
    hub_fail(member->hub, (enum collet_result)failure.code, failure.rank, failure.text);
    return true;
}

static bool on_root_frame(struct member *member, const struct frame *frame) {
    switch (frame->type) {
    case TABLE_REJECT: return on_reject(member, frame);
    case TABLE_NEWS: return on_news(member, frame);
    case TABLE_SEAT: return on_seat(member, frame);
    case TABLE_KNOBS:
    case TABLE_CARDS:
    case TABLE_NODES: return hub_failed(member->hub) != COLLET_SUCCESS || tree_take_table(&member->tree, frame);
    case TABLE_DONE: member->done = true; return true;
    case TABLE_FAIL: return on_root_fail(member, frame);
    case TABLE_OVER: member->met = false; return true; /* an earlier communicator with the same listed id */
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

static void err_meeting_died(struct member *member) {
    char text[ERR_TEXT_BYTES];
    snprintf(text, sizeof text, "the process with the meeting point (%s) died while the communicator was created",
             member->meeting);
    hub_give_up(member->hub, COLLET_ERR_REMOTE, text);
}

static void root_lost(struct member *member) {
    struct hub *hub = member->hub;
    wire_destroy(member->root);
    member->root = NULL;
    if (member->done || hub->phase == HUB_READY || hub_failed(hub) != COLLET_SUCCESS)
        return;
    if (member->linking) {
        err_meeting_died(member);
        return;
    }
    if (announce_again(hub))
        dial_root(member);
}

static void root_ready(struct wire *wire) {
    struct member *member = wire->owner;
    bool open = wire_fill(wire, wire_room(TABLE_PART_BYTES));
    struct frame frame;
    int got;
    while ((got = wire_next(wire, TABLE_PART_BYTES, &frame)) > 0 && on_root_frame(member, &frame))
        ;
    if (got != 0) /* not all could be read and understood */
        hub_give_up(
            member->hub, COLLET_ERR_REMOTE,
            "the meeting point sent what cannot be: another version of collet, or somebody on the way changed it");
    watch_post(&member->work);
    if (!open || got != 0 || member->done)
        root_lost(member);
}

static void on_root_proven(struct dial *dial, struct wire *wire) {
    struct member *member = WATCH_OWNER(dial, struct member, dial);
    member->root = wire;
    member->met = true;
    wire->ready = root_ready;
    wire->owner = member;
    announce_ranks(member);
    if (member->asks)
        ask(member);
    root_ready(wire);
}

/* A listed meeting point may open later. Every other one was open before its id was made. */
static void on_root_round_failed(struct dial *dial) {
    struct member *member = WATCH_OWNER(dial, struct member, dial);
    char text[ERR_TEXT_BYTES];
    if (dial->exhausted) {
        snprintf(text, sizeof text, "cannot connect to the meeting point: %s", dial->trouble);
        hub_give_up(member->hub, COLLET_ERR_SYSTEM, text);
        return;
    }
    if ((member->hub->id.listed && !member->met) || dial_refused_ns(dial) < MEETING_GONE_NS)
        return;
    dial_stop(dial);
    snprintf(
        text, sizeof text,
        "nobody of this job listens at the meeting point any more (%s): the process that made the id has exited, or a "
        "communicator was created with this id before",
        dial->trouble);
    hub_give_up(member->hub, COLLET_ERR_REMOTE, text);
}

/* Spreads the ranks' connections over time, so the meeting point can accept one after the other. */
static uint64_t spread_ns(int nranks) {
    const uint64_t wanted_ns = (uint64_t)nranks * SPREAD_NS;
    return wanted_ns < SPREAD_MOST_NS ? wanted_ns : SPREAD_MOST_NS;
}

static void dial_root(struct member *member) {
    const struct id *id = &member->hub->id;
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    id_key(id->secret, "meeting point", NULL, 0, key);
    dial_start(&member->dial, &id->set, key, spread_ns(member->hub->nranks), on_root_proven, on_root_round_failed);
}

static void leave_meeting_point(struct member *member) {
    dial_stop(&member->dial);
    wire_finish(member->root);
    member->root = NULL;
}

/* Tells the meeting point of a failure, in any state, and leaves it. */
static void tell_meeting_point(struct member *member, const struct failure *failure) {
    /* Directly, if the meeting point is in this process: the process may be about to exit. */
    bool told = member->hub->phase != HUB_READY && rendezvous_fail(member->hub->id.secret, failure);
    if (!told && member->root != NULL)
        wire_send(member->root, TABLE_FAIL, failure, sizeof *failure, NULL, 0);
    leave_meeting_point(member);
}

/* ------------------------------------------------------------------------------------------------- warning and deadline */

/* Is there a meeting point that has not yet said which ranks are missing? */
static bool expects_news(const struct member *member) {
    return member->root != NULL && !member->linking && member->news[0] == '\0';
}

/* Describes what is being waited for. */
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
        snprintf(text, room, "%.400s", member->news[0] ? member->news : "the meeting point is silent");
    }
}

/* The earliest deadline of this process's ranks; 0: none. */
static uint64_t first_deadline(struct hub *hub, int *timeout_s) {
    uint64_t first_ns = 0;
    SCOPED_LOCK(&hub->lock);
    for (int rank = 0; rank < hub->nranks; rank++) {
        const struct boot *boot = hub->local[rank];
        if (boot != NULL && boot->rejected == COLLET_SUCCESS && (first_ns == 0 || boot->deadline_ns < first_ns)) {
            first_ns = boot->deadline_ns;
            *timeout_s = (int)boot->own_config.init_timeout;
        }
    }
    return first_ns;
}

/* Has the deadline passed, and is everything known about the missing ranks that can be known? */
static bool time_is_up(const struct member *member, uint64_t deadline_ns, uint64_t now_ns) {
    if (now_ns < deadline_ns)
        return false;
    if (!expects_news(member))
        return true;
    return member->asked_for_ns == deadline_ns && now_ns >= member->asked_ns + ANSWER_NS;
}

/* Checks whether init takes too long. Sets the time of the next check. */
static void check_time(struct member *member) {
    const uint64_t now_ns = os_now_ns();
    char waiting[ERR_TEXT_BYTES], text[ERR_TEXT_BYTES];
    int timeout_s = 0;
    uint64_t deadline_ns = first_deadline(member->hub, &timeout_s);
    if (deadline_ns == 0 || member->hub->phase == HUB_READY || hub_failed(member->hub) != COLLET_SUCCESS) {
        watch_timer_stop(&member->timer);
        return;
    }
    waiting_text(member, waiting, sizeof waiting);
    if (time_is_up(member, deadline_ns, now_ns)) {
        snprintf(text, sizeof text, "init took longer than %d s (COLLET_INIT_TIMEOUT): %.320s (%s)", timeout_s, waiting,
                 member->believed);
        hub_give_up(member->hub, COLLET_ERR_TIMEOUT, text);
        return;
    }
    if (late_look(&member->late))
        log_always(BOOT, "init %s: %s (%s)", late_text(&member->late), waiting, member->believed);
    const uint64_t due_ns = member->late.due_ns < deadline_ns ? member->late.due_ns : deadline_ns;
    const bool asks = member->asked_for_ns != due_ns && now_ns + ASK_NS >= due_ns;
    if (asks) {
        ask(member);
        member->asked_for_ns = due_ns;
        member->asked_ns = now_ns;
    }
    const uint64_t next_ns = member->asked_for_ns == due_ns ? due_ns : due_ns - ASK_NS;
    watch_timer_set(&member->timer, next_ns > now_ns ? next_ns : now_ns + LOOK_NS);
}

static void on_init_timer(struct watch_timer *timer) { check_time(WATCH_OWNER(timer, struct member, timer)); }

/* ----------------------------------------------------------------------------------------------------------- the work */

static void start_once(struct member *member) {
    if (member->started)
        return;
    member->started = true;
    for (int k = 0; k < nlayers; k++)
        if (layers[k]->hub_begin != NULL)
            layers[k]->hub_begin(member->hub);
    dial_root(member);
}

static void tell_failure(struct member *member) {
    if (hub_failed(member->hub) == COLLET_SUCCESS || member->failure_told)
        return;
    member->failure_told = true;
    const struct failure failure = hub_failure(member->hub);
    tell_meeting_point(member, &failure);
    tree_spread_failure(&member->tree);
}

static void on_goodbye_timer(struct watch_timer *timer) {
    watch_post(&WATCH_OWNER(timer, struct member, goodbye)->work);
}

/* Takes the next letter of the outbox; NULL: there is none. Who has heard a goodbye waits for no letter any more. So it waits until the
 * letters before it have come. */
static struct letter *next_letter(struct member *member) {
    struct hub *hub = member->hub;
    const bool clear = links_clear(&member->tree); /* before it takes the hub's lock: that takes the process's */
    SCOPED_LOCK(&hub->lock);
    const struct letter *next = hub->outbox.first;
    if (next == NULL || next->to != LETTER_TO_ALL || clear || os_now_ns() >= next->number)
        return letter_take(&hub->outbox);
    watch_timer_set(&member->goodbye, next->number);
    return NULL;
}

static void send_letters(struct member *member) {
    struct letter *letter;
    while ((letter = next_letter(member)) != NULL) {
        const bool ready = member->hub->phase == HUB_READY;
        if (ready && letter->to != LETTER_TO_ALL && hub_state(member->hub, letter->to, NULL) == PEER_ALIVE) {
            link_post(&member->tree, letter);
            continue;
        }
        if (ready && letter->to == LETTER_TO_ALL)
            tree_spread_state(&member->tree, letter->from, (enum peer_state)letter->key, NULL);
        letter_free(letter);
    }
}

/* May this side end? Only if no rank of this process is left, and no other process needs it in the tree. After a failure, others may still
 * have to agree on who lives. While no parent is connected, a goodbye may have been lost. */
static bool is_over(const struct member *member) {
    struct hub *hub = member->hub;
    const bool heard = tree_is_heard(&member->tree);
    SCOPED_LOCK(&hub->lock);
    return hub->nlocal == 0 && hub->outbox.first == NULL &&
           (hub->phase != HUB_READY || (hub->missing_count == hub->nranks && heard));
}

static void member_destroy(struct member *member) {
    for (int k = 0; k < nlayers; k++)
        if (layers[k]->hub_end != NULL)
            layers[k]->hub_end(member->hub);
    leave_meeting_point(member);
    tree_close(&member->tree);
    watch_timer_stop(&member->timer);
    watch_timer_stop(&member->goodbye);
    hub_release(member->hub);
    free(member);
}

static void work(struct watch_task *task) {
    struct member *member = WATCH_OWNER(task, struct member, work);
    struct hub *hub = member->hub;
    pthread_mutex_lock(&hub->lock);
    uint64_t flushes_wanted = hub->flushes_wanted;
    pthread_mutex_unlock(&hub->lock);

    start_once(member);
    continue_init(member);
    tell_failure(member);
    send_letters(member);
    links_go_on();
    check_time(member);

    pthread_mutex_lock(&hub->lock);
    if (hub->outbox.first == NULL)
        hub->flushes_done = flushes_wanted;
    pthread_cond_broadcast(&hub->flushed);
    pthread_mutex_unlock(&hub->lock);

    if (!is_over(member))
        return;
    hub_unlist(hub); /* before it decides to end: now no rank can come any more */
    if (is_over(member) && !watch_task_queued(task))
        member_destroy(member);
}

/* --------------------------------------------------------------------------------------------------------------- life */

/* The configuration of the rank for which the hub was made. */
static const struct config *config_of_first(const struct hub *hub) {
    int rank = 0;
    while (hub->local[rank] == NULL)
        rank++;
    return &hub->local[rank]->own_config;
}

enum collet_result member_create(struct hub *hub) {
    const struct config *config = config_of_first(hub);
    int family;
    COLLET_TRY(address_family(config->socket_family, &family));
    struct member *member;
    COLLET_TRY(memory_get(&member, 1, sizeof *member, "no memory for a communicator"));
    struct address_set *listener = &member->listener;
    enum collet_result result = tree_open(&member->tree, hub, family, config->socket_ifname);
    if (result == COLLET_SUCCESS)
        result = address_local(config->socket_ifname, member->tree.door.v6 ? family : AF_INET, "", listener);
    if (result != COLLET_SUCCESS) {
        door_close(&member->tree.door);
        free(member);
        return result;
    }
    address_log_down(config->socket_ifname);
    late_begin(&member->late, os_now_ns(), config->warn_after);
    snprintf(member->believed, sizeof member->believed, "%.80s%s%.24s", config->believed,
             hub->id.listed && config->comm_id[0] ? ", COLLET_COMM_ID=" : "", hub->id.listed ? config->comm_id : "");
    listener->port = (uint16_t)member->tree.door.port;
    member->hub = hub;
    member->timer.fire = on_init_timer;
    member->goodbye.fire = on_goodbye_timer;
    watch_task_init(&member->work, hub->watch, work);
    hub->work = &member->work;
    hub->references++;
    return COLLET_SUCCESS;
}
