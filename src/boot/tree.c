/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of a communicator, in the order of their lowest ranks, form a tree of arity 8:
 *
 *                        0
 *          ┌────┬────┬───┴┬────┬────┬────┬────┐
 *          1    2    3    4    5    6    7    8         each dials its parent's door and proves the id's secret
 *       ┌──┴─…         (9 … 16 below 1, 17 … 24 below 2, and so on)
 *
 * The table of all ranks (table.h) comes down the tree: place 0 gets it from the meeting point, every other process from its
 * parent. So nobody sends it more than 8 times, however many processes there are.
 *
 * A letter goes to the neighbour in whose part of the tree its receiver is, or by a shortcut (shortcut.h). News (a rank left, a
 * rank died, the communicator failed) goes to all neighbours. They pass on what is new to them, so the spreading ends.
 *
 * When a process is lost, its neighbours notice and spread the news, each in its part of the broken tree; and each of its
 * children dials the next living ancestor instead (or, if there is none, the lowest living process, which is thereby the
 * new root). Both ends of a new edge tell each other all they know; so news reaches everyone whatever happens between:
 *
 *            0                 0
 *            │               ┌─┴─┐
 *            1     ─▶        9   10     1 was lost; 9 and 10 have come to 0
 *          ┌─┴─┐
 *          9   10
 *
 * Letters that a lost process had taken and not passed on are sent anew by their senders (courier.h): all processes hear when one
 * has come to another parent.
 *
 * A parent may be silent because the network is dead that the edge goes by. So after half of the time after which it counts as lost, its
 * child comes to it again, by whichever of its addresses answers. The new edge takes the place of the silent one at both ends.
 *
 * A process that is silent may live: it is stopped, or cut off. Who is lost to one is lost to all: they leave it, and tell it so. When it
 * goes on, it hears that, says so itself, and its calls fail. If all ranks are on one host, nobody is lost by silence.
 */
#include "boot/tree.h"

#include "base/log.h"
#include "base/os.h"
#include "boot/edge.h"
#include "boot/inquiry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOPS_MAX 64 /* a letter can go in circles while processes disagree about which of them live */
#define DIAL_PATIENCE_NS 5000000000ull
#define BEATS_MISSED 2
/* A dead process's kernel has ended all its edges by this time, if it can be reached. */
#define JUDGEMENT_NS 1000000000ull
#define WORD_NS 1000000000ull        /* maximum time in which the meeting point says why init has failed */
#define INQUIRY_MIN_NS 2500000000ull /* minimum time for the answer of a busy process */
#define NEVER_NS (UINT64_MAX / 2)

enum tree_frame {
    TREE_HELLO = 1, /* struct hello: the first frame toward the parent */
    TREE_SHORTCUT,  /* struct hello: the first frame on a shortcut. All others there are parcels */
    TREE_PARCEL,    /* struct parcel, and a letter's data */
    TREE_STATE,     /* struct state_news */
    TREE_FAIL,      /* struct failure */
    TREE_MOVED,     /* struct moved: letters may be lost */
    /* further types: the parts of the table (enum table_frame) */
};
_Static_assert(sizeof(struct parcel) + BOOT_MESSAGE_BYTES <= TABLE_PART_BYTES,
               "an edge's longest frame is a part of the table");

struct hello {
    int32_t place, zero;
    uint64_t process[2];
};

struct state_news {
    int32_t rank, state;
    uint64_t calls; /* see hub->last_calls */
};

/* A process has a new parent, for the times-th time. */
struct moved {
    int32_t place, times;
};

static void find_parent(struct tree *tree);
static void begin_beating(struct tree *tree);

static int node_of(const struct tree *tree, int place) {
    return tree->hub->peers[tree->places.list[place].lowest_rank].node;
}
static bool is_on_our_host(const struct tree *tree, int place) {
    return node_of(tree, place) == node_of(tree, tree->places.self);
}
static struct place *place_of(const struct tree *tree, int number) { return &tree->places.list[number]; }
/* The key of that process's door. */
static void place_key(const struct tree *tree, const struct place *place, uint8_t key[SECRET_BYTES]) {
    id_key(tree->hub->id.secret, "tree", place->process, sizeof place->process, key);
}
static void changed(const struct tree *tree) { watch_post(tree->hub->work); }

/* rank: the rank that is named as the finder; −1: the text says enough. */
static void fail_hub_for(const struct tree *tree, enum collet_result code, int rank, const char *text) {
    if (!hub_fail(tree->hub, code, rank, text))
        return;
    log_warn(BOOT, "%s", text);
    changed(tree);
}

static void fail_hub(const struct tree *tree, enum collet_result code, const char *text) {
    fail_hub_for(tree, code, hub_rank_to_blame(tree->hub, code), text);
}

/* --------------------------------------------------------------------------------------------------------------- news */

static void send_state(struct edge *edge, int rank, enum peer_state state) {
    const uint64_t calls = ((const struct tree *)edge->owner)->hub->last_calls[rank];
    struct state_news news = {.rank = rank, .state = (int32_t)state, .calls = calls};
    edge_send(edge, TREE_STATE, &news, sizeof news, NULL, 0);
}

static void spread_state(struct tree *tree, int rank, enum peer_state state, const struct edge *except) {
    for (struct edge *edge = tree->edges; edge != NULL; edge = edge->next)
        if (edge != except && edge->place >= 0)
            send_state(edge, rank, state);
}

static void send_failure(struct tree *tree, struct edge *edge) {
    struct failure failure = {.code = hub_failed(tree->hub), .rank = tree->hub->failed_rank};
    snprintf(failure.text, sizeof failure.text, "%s", tree->hub->failed_text);
    edge_send(edge, TREE_FAIL, &failure, sizeof failure, NULL, 0);
}

void tree_spread_failure(struct tree *tree) {
    for (struct edge *edge = tree->edges; edge != NULL; edge = edge->next)
        if (edge->place >= 0)
            send_failure(tree, edge);
}

static void spread_moved(struct tree *tree, const struct moved *moved, const struct edge *except) {
    for (struct edge *edge = tree->edges; edge != NULL; edge = edge->next)
        if (edge != except && edge->place >= 0)
            edge_send(edge, TREE_MOVED, moved, sizeof *moved, NULL, 0);
}

static bool on_moved(struct tree *tree, const struct edge *from, const struct frame *frame) {
    struct moved moved;
    if (frame->bytes != sizeof moved)
        return false;
    memcpy(&moved, frame->data, sizeof moved);
    if (moved.place < 0 || moved.place >= tree->places.count)
        return false;
    if (moved.times <= place_of(tree, moved.place)->moves)
        return true; /* already known */
    place_of(tree, moved.place)->moves = moved.times;
    courier_hurry(&tree->courier);
    spread_moved(tree, &moved, from);
    return true;
}

/* ------------------------------------------------------------------------------------------------------------ letters */

/* Sends a parcel one hop toward parcel->to_place. If there is no way, drops it: the sender's courier sends it again. */
static void forward(struct tree *tree, struct parcel *parcel, const void *data, size_t bytes) {
    int hop = places_next_hop(&tree->places, tree->parent, parcel->to_place);
    if (hop >= 0 && parcel->hops++ < HOPS_MAX)
        edge_send(place_of(tree, hop)->edge, TREE_PARCEL, parcel, sizeof *parcel, data, bytes);
}

/* Is a shortcut worth its cost? Yes, when a connection is being made: its other letters will use the shortcut. */
static bool is_worth_seeking(const struct tree *tree, const struct parcel *parcel) {
    const struct place *place = place_of(tree, parcel->to_place);
    return parcel->to >= 0 && parcel->key >> 56 == BOOT_OFFER && place->shortcut == NULL && place->sought == NULL &&
           shortcut_pays(&tree->shortcuts, parcel->to_place);
}

/* Sends a parcel. If a shortcut is being sought, the letter waits, and the courier is told later. */
static void carry(struct courier *courier, struct parcel *parcel, const void *data, size_t bytes) {
    struct tree *tree = WATCH_OWNER(courier, struct tree, courier);
    const struct place *place = place_of(tree, parcel->to_place);
    if (is_worth_seeking(tree, parcel)) {
        SCOPED_KEY uint8_t key[SECRET_BYTES];
        place_key(tree, place, key);
        shortcut_seek(&tree->shortcuts, parcel->to_place, key);
    }
    if (place->shortcut != NULL)
        edge_send(place->shortcut, TREE_PARCEL, parcel, sizeof *parcel, data, bytes);
    else if (parcel->to < 0 || place->sought == NULL)
        forward(tree, parcel, data, bytes);
}

static void deliver(struct courier *courier, struct letter *letter) {
    hub_deliver(WATCH_OWNER(courier, struct tree, courier)->hub, letter);
}

static bool on_parcel(struct tree *tree, const struct frame *frame) {
    struct parcel parcel;
    if (frame->bytes < sizeof parcel)
        return false;
    memcpy(&parcel, frame->data, sizeof parcel);
    const void *data = frame->data + sizeof parcel;
    const size_t bytes = frame->bytes - sizeof parcel;
    const int nranks = tree->hub->nranks;
    if (parcel.to_place < 0 || parcel.to_place >= tree->places.count || parcel.from_place < 0 ||
        parcel.from_place >= tree->places.count || parcel.to >= nranks || parcel.from < 0 || parcel.from >= nranks)
        return false;
    if (parcel.to_place == tree->places.self)
        return courier_receive(&tree->courier, &parcel, data, bytes);
    forward(tree, &parcel, data, bytes);
    return true;
}

void tree_post(struct tree *tree, struct letter *letter) {
    if (letter->to == LETTER_TO_ALL) {
        spread_state(tree, letter->from, (enum peer_state)letter->key, NULL);
        letter_free(letter);
    } else if (hub_state(tree->hub, letter->to, NULL) != PEER_ALIVE) {
        letter_free(letter);
    } else {
        courier_send(&tree->courier, tree->places.of_rank[letter->to], letter);
    }
}

/* -------------------------------------------------------------------------------------------------------------- losses */

static bool anyone_alive(const struct tree *tree, int place) {
    for (int rank = place_of(tree, place)->lowest_rank; rank < tree->hub->nranks; rank++)
        if (tree->places.of_rank[rank] == place && hub_state(tree->hub, rank, NULL) == PEER_ALIVE)
            return true;
    return false;
}

/* Marks a process: it is not asked, or connected to, any more. */
static void place_gone(struct place *place) {
    place->gone = true;
    inquiry_stop(place->inquiry);
    place->inquiry = NULL;
}

/* COLLET_HEARTBEAT_TIMEOUT, but at least the time that a connection needs; without that timeout, centuries. */
static uint64_t patience_ns(const struct tree *tree) {
    if (tree->silence_ns == 0)
        return NEVER_NS;
    return tree->silence_ns > DIAL_PATIENCE_NS ? tree->silence_ns : DIAL_PATIENCE_NS;
}

static void place_lost(struct tree *tree, int number, enum peer_state state, const char *why);

static void on_inquiry_result(void *owner, int number, enum peer_state state, struct wire *wire, const char *why) {
    struct tree *tree = owner;
    wire_destroy(wire);
    struct place *place = place_of(tree, number);
    place->inquiry = NULL;
    if (state != PEER_ALIVE && place->edge == NULL && !place->gone)
        place_lost(tree, number, state, why);
}

/* Asks a process whether it is still there, as part of the communicator. */
static void inquire(struct tree *tree, int number, uint64_t deadline_ns) {
    struct place *place = place_of(tree, number);
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    if (place->inquiry != NULL)
        return;
    place_key(tree, place, key);
    place->inquiry = inquiry_start(&place->listener, key, DIAL_GONE_NS, deadline_ns, on_inquiry_result, tree, number);
}

/* A process on another host is lost, or silent. Is its host lost? Asks all other processes there at once, except those to which this
 * process is connected. */
static void suspect_host_of(struct tree *tree, int suspect, uint64_t deadline_ns) {
    if (!tree->running || is_on_our_host(tree, suspect))
        return;
    for (int number = 0; number < tree->places.count; number++)
        if (node_of(tree, number) == node_of(tree, suspect) && !place_of(tree, number)->gone &&
            place_of(tree, number)->edge == NULL)
            inquire(tree, number, deadline_ns);
}

/* The time for the meeting point's reason is over. (The parent may have ended because init failed; the meeting point would say why.) */
static void on_lost_early(struct watch_timer *timer) {
    struct tree *tree = WATCH_OWNER(timer, struct tree, lost_early);
    fail_hub(tree, COLLET_ERR_REMOTE, tree->why_lost_early);
}

/* A process cannot be reached any more: its remaining ranks are dead, or lost. */
static void place_lost(struct tree *tree, int number, enum peer_state state, const char *why) {
    struct hub *hub = tree->hub;
    struct place *place = place_of(tree, number);
    char name[HUB_NAME_BYTES], text[ERR_TEXT_BYTES];
    bool death = false;
    if (!tree->known) {
        snprintf(tree->why_lost_early, sizeof tree->why_lost_early,
                 "the process of rank %d was lost while the communicator was created: %s", place->lowest_rank, why);
        watch_timer_set(&tree->lost_early, os_now_ns() + WORD_NS);
        return;
    }
    place_gone(place);
    for (int rank = place->lowest_rank; rank < hub->nranks; rank++) {
        if (tree->places.of_rank[rank] != number || !hub_set_state(hub, rank, state, 0))
            continue;
        hub_name_rank(hub, rank, name);
        log_info(BOOT, "%s is %s: %s", name, state == PEER_DEAD ? "dead" : "out of reach", why);
        spread_state(tree, rank, state, NULL);
        death = true;
    }
    if (death && !tree->running) {
        hub_name_rank(hub, place->lowest_rank, name);
        snprintf(text, sizeof text, "%s %s while the communicator was created: %s", name,
                 state == PEER_DEAD ? "died" : "was lost", why);
        fail_hub(tree, COLLET_ERR_REMOTE, text);
    }
    courier_forget(&tree->courier, number);
    suspect_host_of(tree, number, os_now_ns() + patience_ns(tree));
    if (number == tree->parent)
        find_parent(tree);
    changed(tree);
}

static void on_lost(struct edge *edge, enum peer_state state, const char *why) {
    struct tree *tree = edge->owner;
    int place = edge->place;
    if (edge->wire->error == ENOMEM) /* this process itself has no memory for the connection */
        fail_hub(tree, COLLET_ERR_NO_MEMORY, "no memory for the connections of the control plane");
    if (place >= 0)
        place_of(tree, place)->edge = NULL;
    if (place >= 0 && (tree->known || place == tree->parent))
        place_lost(tree, place, state, why); /* tells the process too, which may be alive */
    edge_finish(edge);
}

/* -------------------------------------------------------------------------------------------------------------- frames */

static bool ignore_frame(struct edge *edge, const struct frame *frame) {
    (void)edge, (void)frame;
    return true;
}

/* Stops using an edge. The other end closes it when it knows why. If it were closed here, that end might take us for dead. */
static void forsake(struct edge *edge) {
    edge->place = -1;
    edge->frame = ignore_frame;
}

/* Others say that this process is lost, so it is lost here too. Its children choose another parent. */
static void leave(struct tree *tree, struct place *place) {
    if (place->edge != NULL)
        forsake(place->edge);
    place->edge = NULL;
    if (tree->parent >= 0 && place == place_of(tree, tree->parent))
        find_parent(tree);
}

/* The other processes say that this one is lost. Makes that true everywhere. */
static void lose_self(struct tree *tree) {
    static const char why[] =
        "the other ranks count this process as lost: its connection broke, or it was silent for COLLET_HEARTBEAT_TIMEOUT";
    fail_hub_for(tree, COLLET_ERR_REMOTE, place_of(tree, tree->places.self)->lowest_rank, why);
    place_lost(tree, tree->places.self, PEER_LOST, why);
}

/* A process has come to us since it has lost its parent, it says. But we have an edge to that parent. If it died we shall soon see that
 * ourselves; if it goes on to be heard here, the edge between those two has broken, and who has come is the one that is lost:
 *
 *       0                     0
 *     ┌─┴─┐                   │
 *     1   2     ─▶      2 ──▶ 1      "0 is lost"      1 hears 0 for a second more: 2 is
 */
static bool accuses(struct tree *tree, const struct edge *from, int accused) {
    struct place *accuser = place_of(tree, from->place);
    if (from->place < tree->places.self || places_choose_parent(&tree->places, from->place) != accused ||
        place_of(tree, accused)->edge == NULL)
        return false;
    if (accuser->accuses_ns == 0)
        accuser->accuses_ns = os_now_ns();
    return true;
}

static void judge_accusations(struct tree *tree) {
    for (int number = tree->places.self + 1; number < tree->places.count; number++) {
        struct place *accuser = place_of(tree, number);
        const int accused = places_choose_parent(&tree->places, number);
        const struct edge *edge = accused >= 0 ? place_of(tree, accused)->edge : NULL;
        if (edge == NULL || accuser->gone)
            accuser->accuses_ns = 0;
        if (accuser->accuses_ns != 0 && edge->heard_ns > accuser->accuses_ns + JUDGEMENT_NS)
            place_lost(tree, number, PEER_LOST, "it has lost a process that is heard here");
    }
}

static bool on_state(struct tree *tree, const struct edge *from, const struct frame *frame) {
    struct state_news news;
    if (frame->bytes != sizeof news)
        return false;
    memcpy(&news, frame->data, sizeof news);
    if (news.rank < 0 || news.rank >= tree->hub->nranks || news.state <= PEER_ALIVE || news.state > PEER_LOST)
        return false;
    int place = tree->places.of_rank[news.rank];
    const bool believed = hub_state(tree->hub, place_of(tree, from->place)->lowest_rank, NULL) != PEER_LOST;
    if (place == tree->places.self) {
        if (news.state != PEER_LEFT)
            lose_self(tree);
    } else if (news.state != PEER_LEFT && (!believed || accuses(tree, from, place))) {
        return true;
    } else if (hub_set_state(tree->hub, news.rank, (enum peer_state)news.state, news.calls)) {
        spread_state(tree, news.rank, (enum peer_state)news.state, from);
        if (news.state != PEER_LEFT)
            place_gone(place_of(tree, place)); /* ranks die with their process */
        if (!anyone_alive(tree, place))
            courier_forget(&tree->courier, place);
        if (news.state == PEER_LOST)
            leave(tree, place_of(tree, place));
        else if (tree->dial.active && place_of(tree, tree->parent)->gone)
            find_parent(tree);
    }
    changed(tree);
    return true;
}

/* A new edge: both ends send everything they know. A process that the others have lost knows nothing about them. */
static void edge_up(struct tree *tree, struct edge *edge) {
    struct place *place = place_of(tree, edge->place);
    const int self = tree->places.self;
    place->edge = edge;
    for (int rank = 0; rank < tree->hub->nranks; rank++) {
        enum peer_state state = hub_state(tree->hub, rank, NULL);
        if (state != PEER_ALIVE && (!place_of(tree, self)->gone || tree->places.of_rank[rank] == self))
            send_state(edge, rank, state);
    }
    if (hub_failed(tree->hub))
        send_failure(tree, edge);
    changed(tree);
}

/* Tells that this process has a new parent. */
static void say_moved(struct tree *tree) {
    const struct moved moved = {tree->places.self, ++place_of(tree, tree->places.self)->moves};
    courier_hurry(&tree->courier);
    spread_moved(tree, &moved, NULL);
}

/* Watches a neighbour's process, if it is on this host. (Nodes are known now.) */
static void watch_neighbour(struct tree *tree, struct edge *edge) {
    edge->heard_ns = os_now_ns();
    if (is_on_our_host(tree, edge->place))
        edge_watch_process(edge, place_of(tree, edge->place)->pid);
}

static void say_hello(struct tree *tree, struct edge *edge, enum tree_frame type) {
    struct hello hello = {.place = tree->places.self};
    memcpy(hello.process, place_of(tree, tree->places.self)->process, sizeof hello.process);
    edge_send(edge, type, &hello, sizeof hello, NULL, 0);
}

static bool on_hello(struct tree *tree, struct edge *edge, const struct frame *frame) {
    struct hello hello;
    if (frame->bytes != sizeof hello)
        return false;
    memcpy(&hello, frame->data, sizeof hello);
    if (hello.place <= tree->places.self || hello.place >= tree->places.count)
        return false;
    struct place *place = place_of(tree, hello.place);
    if (!tree->known) /* places_fill() compares it with the table later */
        memcpy(place->process, hello.process, sizeof hello.process);
    else if (memcmp(hello.process, place->process, sizeof hello.process) != 0)
        return false;
    if (place->edge != NULL) /* the process has given up that edge, or it would not come again */
        edge_destroy(place->edge);
    edge->place = hello.place;
    edge_up(tree, edge);
    if (tree->running)
        watch_neighbour(tree, edge);
    else if (tree->known)
        table_send_cards(&tree->table, edge->wire);
    return true;
}

/* ----------------------------------------------------------------------------------------------------------- shortcuts */

static void greet(struct edge *edge) { say_hello(edge->owner, edge, TREE_SHORTCUT); }

static bool on_shortcut(struct tree *tree, struct edge *edge, const struct frame *frame) {
    struct hello hello;
    if (frame->bytes != sizeof hello || !tree->known)
        return false;
    memcpy(&hello, frame->data, sizeof hello);
    if (hello.place < 0 || hello.place >= tree->places.count || hello.place == tree->places.self ||
        memcmp(hello.process, place_of(tree, hello.place)->process, sizeof hello.process) != 0)
        return false;
    return shortcut_take(&tree->shortcuts, edge, hello.place);
}

static bool on_shortcut_frame(struct edge *edge, const struct frame *frame) {
    struct tree *tree = edge->owner;
    place_of(tree, edge->place)->answered = true;
    return frame->type == TREE_PARCEL && on_parcel(tree, frame);
}

static void on_shortcut_lost(struct edge *edge, enum peer_state state, const char *why) {
    struct tree *tree = edge->owner;
    (void)state, (void)why;
    shortcut_lost(&tree->shortcuts, edge);
}

/* ----------------------------------------------------------------------------------------------------------- the table */

/* All cards have come: passes them on, and gives the hub its peers. */
static bool learn_cards(struct tree *tree) {
    struct hub *hub = tree->hub;
    const struct card *cards = tree->table.cards;
    if (!hub_knows_itself(hub, cards))
        return false;
    enum collet_result result = places_fill(&tree->places, cards, hub->nranks);
    if (result == COLLET_ERR_REMOTE)
        return false;
    for (struct edge *edge = tree->edges; edge != NULL; edge = edge->next)
        if (edge->place >= 0 && edge->place != tree->parent)
            table_send_cards(&tree->table, edge->wire);
    if (result == COLLET_SUCCESS)
        result = hub_set_peers(hub, cards);
    if (result != COLLET_SUCCESS) {
        fail_hub(tree, result, err_last());
        return true;
    }
    hub->agreed = tree->table.agreed;
    tree->known = true;
    if (tree->places.count > 1)
        begin_beating(tree);
    return true;
}

/* All nodes have come, so all processes are linked. Init is complete here, and soon below. */
static void learn_nodes(struct tree *tree) {
    struct hub *hub = tree->hub;
    for (struct edge *edge = tree->edges; edge != NULL; edge = edge->next)
        if (edge->place >= 0 && edge->place != tree->parent)
            table_send_nodes(&tree->table, edge->wire);
    tree->running = true;
    hub_complete(hub, tree->table.nodes);
    int place = 0;
    while (place < tree->places.count && is_on_our_host(tree, place))
        place++;
    if (place == tree->places.count)
        tree->silence_ns = 0;
    for (struct edge *edge = tree->edges; edge != NULL; edge = edge->next)
        if (edge->place >= 0)
            watch_neighbour(tree, edge);
    table_free(&tree->table);
    log_info(BOOT, "%d ranks in %d processes are connected", hub->nranks, tree->places.count);
}

bool tree_take_table(struct tree *tree, const struct frame *frame) {
    switch (table_take(&tree->table, frame)) {
    case TABLE_NONSENSE: return false;
    case TABLE_PART: return true;
    case TABLE_KNOWN:
        if (!learn_cards(tree))
            return false;
        break;
    case TABLE_COMPLETE: learn_nodes(tree); break;
    }
    changed(tree);
    return true;
}

static bool on_table(struct tree *tree, const struct edge *edge, const struct frame *frame) {
    return edge->place == tree->parent && tree_take_table(tree, frame);
}

static bool on_edge_frame(struct edge *edge, const struct frame *frame) {
    struct tree *tree = edge->owner;
    struct failure failure;
    if (edge->place < 0 && frame->type == TREE_SHORTCUT)
        return on_shortcut(tree, edge, frame);
    if (edge->place < 0)
        return frame->type == TREE_HELLO && on_hello(tree, edge, frame);
    switch (frame->type) {
    case TREE_PARCEL: return on_parcel(tree, frame);
    case TREE_STATE: return on_state(tree, edge, frame);
    case TREE_MOVED: return on_moved(tree, edge, frame);
    case TREE_FAIL:
        if (!failure_read(frame->data, frame->bytes, &failure))
            return false;
        hub_fail(tree->hub, (enum collet_result)failure.code, failure.rank, failure.text);
        changed(tree); /* the work task tells the others */
        return true;
    case TABLE_KNOBS:
    case TABLE_CARDS:
    case TABLE_NODES: return on_table(tree, edge, frame);
    default: return false;
    }
}

/* --------------------------------------------------------------------------------------------------------- connecting */

static size_t longest_frame(const struct tree *tree) {
    return TABLE_PART_BYTES + (size_t)tree->hub->nranks; /* a decision has one byte per rank (agreement.h) */
}

static struct edge *add_edge(struct tree *tree, struct wire *wire, int place) {
    const struct edge like = {
        .place = place,
        .max_bytes = longest_frame(tree),
        .frame = on_edge_frame,
        .lost = on_lost,
        .owner = tree,
    };
    return edge_create(wire, &like, &tree->edges);
}

static void on_child(struct door *door, struct wire *wire) {
    struct edge *edge = add_edge(WATCH_OWNER(door, struct tree, door), wire, -1);
    if (edge != NULL)
        edge_read(edge);
}

/* Should this process connect to us, as our child, or as a child of a lost process? */
static bool is_awaited(const struct tree *tree, int number) {
    const struct place *place = &tree->places.list[number];
    return !place->gone && place->edge == NULL && places_choose_parent(&tree->places, number) == tree->places.self;
}

/* A connection waits, but there is no descriptor. If it needs no edge of the tree, it only wanted a shortcut, and uses the tree. */
static void on_door_exhausted(struct door *door, const char *text) {
    struct tree *tree = WATCH_OWNER(door, struct tree, door);
    bool needed = !tree->running;
    for (int number = tree->places.self + 1; number < tree->places.count && !needed; number++)
        needed = is_awaited(tree, number);
    if (needed)
        fail_hub(tree, COLLET_ERR_SYSTEM, text);
    else
        log_trace(BOOT, "no shortcut: %s", text);
}

static void on_parent(struct dial *dial, struct wire *wire) {
    struct tree *tree = WATCH_OWNER(dial, struct tree, dial);
    struct edge *silent = place_of(tree, tree->parent)->edge, *edge = add_edge(tree, wire, tree->parent);
    if (edge == NULL) {
        find_parent(tree);
        return;
    }
    if (silent != NULL) {
        log_info(BOOT, "the process of rank %d was silent, and answers by a new connection", tree_parent_rank(tree));
        forsake(silent);
    }
    say_hello(tree, edge, TREE_HELLO);
    tree->orphan_ns = 0;
    edge_up(tree, edge);
    if (tree->running) {
        watch_neighbour(tree, edge);
        say_moved(tree);
    }
    edge_read(edge);
}

static bool patience_over(const struct tree *tree, uint64_t since_ns) {
    return os_now_ns() - since_ns > patience_ns(tree);
}

/* The parent does not answer. During init it may be slow. After init it was there before, so now it is gone. */
static void on_parent_round_failed(struct dial *dial) {
    struct tree *tree = WATCH_OWNER(dial, struct tree, dial);
    if (!tree->running && dial->exhausted)
        fail_hub(tree, COLLET_ERR_SYSTEM, dial->trouble);
    const bool refused = dial_refused_ns(dial) > DIAL_GONE_NS;
    if (place_of(tree, tree->parent)->edge == NULL && tree->running &&
        (refused || patience_over(tree, dial->started_ns)))
        place_lost(tree, tree->parent, refused ? PEER_DEAD : PEER_LOST, dial->trouble);
}

static void dial_parent(struct tree *tree) {
    const struct place *place = place_of(tree, tree->parent);
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    place_key(tree, place, key);
    dial_start(&tree->dial, &place->listener, key, 0, on_parent, on_parent_round_failed);
}

static void find_parent(struct tree *tree) {
    dial_stop(&tree->dial);
    tree->parent = places_choose_parent(&tree->places, tree->places.self);
    if (tree->parent < 0 || place_of(tree, tree->parent)->edge != NULL)
        return;
    const struct place *place = place_of(tree, tree->parent);
    if (tree->running && tree->orphan_ns == 0)
        tree->orphan_ns = os_now_ns();
    const bool late =
        tree->orphan_ns != 0 && os_now_ns() - tree->orphan_ns > DIAL_GONE_NS; /* a goodbye would have come by now */
    if (late && is_on_our_host(tree, tree->parent) && edge_process_ended(place->pid)) {
        place_lost(tree, tree->parent, PEER_DEAD, "its process ended");
        return;
    }
    dial_parent(tree);
}

/* --------------------------------------------------------------------------------------------------------------- life */

/* Looks for children of lost processes, which should connect to us now. If they were lost too, only this process can notice it. A living
 * child may be slow. Or it has left, and those that know it cannot reach us; then its door is closed. */
static void look_for_orphans(struct tree *tree) {
    const struct places *places = &tree->places;
    const uint64_t now_ns = os_now_ns();
    for (int number = places->self + 1; number < places->count; number++) {
        struct place *place = place_of(tree, number);
        if (!is_awaited(tree, number)) {
            place->awaited_ns = 0;
            continue;
        }
        if (place->awaited_ns == 0)
            place->awaited_ns = now_ns;
        const bool ended = is_on_our_host(tree, number) && edge_process_ended(place->pid);
        if (ended || patience_over(tree, place->awaited_ns))
            place_lost(tree, number, ended ? PEER_DEAD : PEER_LOST,
                       "it was lost together with the process it was connected to");
        else if (now_ns - place->awaited_ns > JUDGEMENT_NS)
            inquire(tree, number, NEVER_NS);
    }
}

/* The parent has become silent, or is heard again. */
static void seek_silent_parent(struct tree *tree, bool is_silent) {
    if (!is_silent)
        dial_stop(&tree->dial);
    else if (!tree->dial.active)
        dial_parent(tree);
}

/* A process that is silent for half of the timeout may soon be lost. Until then it will be known whether its whole host is lost. */
static void look_for_silence(struct tree *tree) {
    const uint64_t now_ns = os_now_ns();
    int silent_rank = -1;
    for (const struct edge *edge = tree->edges; edge != NULL; edge = edge->next) {
        const uint64_t silence_ns = edge->place >= 0 ? edge_silence_ns(edge) : 0;
        if (silence_ns > BEATS_MISSED * tree->beat_ns && !is_on_our_host(tree, edge->place))
            silent_rank = place_of(tree, edge->place)->lowest_rank;
        const bool may_be_lost = tree->silence_ns != 0 && silence_ns > tree->silence_ns / 2;
        if (edge->place == tree->parent)
            seek_silent_parent(tree, may_be_lost);
        if (!may_be_lost)
            continue;
        const uint64_t left_ns = silence_ns < tree->silence_ns ? tree->silence_ns - silence_ns : 0;
        suspect_host_of(tree, edge->place, now_ns + (left_ns > INQUIRY_MIN_NS ? left_ns : INQUIRY_MIN_NS));
    }
    __atomic_store_n(&tree->hub->silent_rank, silent_rank, __ATOMIC_RELAXED); /* only for texts */
}

/* If this process slept too long, the others have lost it. It must count itself as lost: neighbours that were silent too cannot tell it. */
static void look_whether_we_slept(struct tree *tree) {
    const uint64_t now_ns = os_now_ns(), soon_ns = 4 * tree->beat_ns, half_ns = tree->silence_ns / 2;
    const uint64_t awake_ns = tree->beaten_ns + (half_ns > soon_ns ? half_ns : soon_ns);
    if (tree->running && tree->silence_ns != 0 && now_ns - tree->beaten_ns > tree->silence_ns)
        lose_self(tree);
    tree->beaten_ns = now_ns;
    __atomic_store_n(&tree->hub->awake_until_ns, tree->silence_ns == 0 ? 0 : awake_ns, __ATOMIC_RELAXED);
}

static void beat(struct watch_timer *timer) {
    struct tree *tree = WATCH_OWNER(timer, struct tree, beat);
    watch_timer_set(timer, os_now_ns() + tree->beat_ns);
    look_whether_we_slept(tree);
    for (int place = 0; place < tree->places.count; place++) /* by place: a beat may remove any edge */
        if (place_of(tree, place)->edge != NULL)
            edge_beat(place_of(tree, place)->edge, tree->running ? tree->silence_ns : 0);
    if (!tree->running)
        return;
    judge_accusations(tree);
    look_for_silence(tree);
    look_for_orphans(tree);
    shortcuts_tidy(&tree->shortcuts, BEATS_MISSED * tree->beat_ns);
}

static void begin_beating(struct tree *tree) {
    const struct config *agreed = &tree->hub->agreed;
    tree->beat_ns = (uint64_t)(agreed->heartbeat > 10 ? agreed->heartbeat : 10) * 1000000u;
    tree->silence_ns = (uint64_t)(agreed->heartbeat_timeout > 0 ? agreed->heartbeat_timeout : 0) * 1000000u;
    tree->beaten_ns = os_now_ns();
    watch_timer_set(&tree->beat, tree->beaten_ns + tree->beat_ns);
}

enum collet_result tree_open(struct tree *tree, struct hub *hub, int family, const char *ifname) {
    *tree = (struct tree){.hub = hub, .parent = -1};
    tree->courier.carry = carry;
    tree->courier.deliver = deliver;
    tree->beat.fire = beat;
    tree->lost_early.fire = on_lost_early;
    tree->shortcuts = (struct shortcuts){
        .places = &tree->places,
        .courier = &tree->courier,
        .like = {.frame = on_shortcut_frame, .lost = on_shortcut_lost, .owner = tree, .max_bytes = longest_frame(tree)},
        .greet = greet,
    };
    return door_open(&tree->door, family, 0, ifname);
}

enum collet_result tree_link(struct tree *tree, const struct seat *seat) {
    COLLET_TRY(places_create_seat(&tree->places, seat, tree->hub->nranks));
    COLLET_TRY(table_create(&tree->table, tree->hub->nranks));
    if (tree->places.count == 1) {
        door_close(&tree->door);
        return COLLET_SUCCESS;
    }
    COLLET_TRY(courier_init(&tree->courier, tree->places.self, tree->places.count));
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    id_key(tree->hub->id.secret, "tree", process_identity(), 2 * sizeof(uint64_t), key);
    COLLET_TRY(door_serve(&tree->door, key, on_child, on_door_exhausted));
    find_parent(tree);
    return COLLET_SUCCESS;
}

bool tree_is_heard(const struct tree *tree) { return tree->parent < 0 || place_of(tree, tree->parent)->edge != NULL; }

bool tree_linked(const struct tree *tree) {
    return tree->known && tree_is_heard(tree) && places_children_connected(&tree->places);
}

int tree_parent_rank(const struct tree *tree) { return place_of(tree, tree->parent)->lowest_rank; }

void tree_close(struct tree *tree) {
    door_close(&tree->door);
    dial_stop(&tree->dial);
    watch_timer_stop(&tree->beat);
    watch_timer_stop(&tree->lost_early);
    while (tree->edges != NULL)
        edge_finish(tree->edges);
    shortcuts_close(&tree->shortcuts);
    for (int place = 0; place < tree->places.count; place++)
        inquiry_stop(place_of(tree, place)->inquiry);
    courier_fini(&tree->courier);
    table_free(&tree->table);
    places_destroy(&tree->places);
}
