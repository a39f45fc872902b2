/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/losses.h"

#include "base/log.h"
#include "boot/edge.h"
#include "boot/link.h"

#include <stdio.h>
#include <string.h>

#define DIAL_PATIENCE_NS 5000000000ull
#define BEATS_IDLE 2
/* A dead process's kernel has ended all its edges by this time, if it can be reached. */
#define JUDGEMENT_NS 1000000000ull
#define ANSWER_MIN_NS 2500000000ull /* minimum time for the answer of a busy process */
#define NEVER_NS (UINT64_MAX / 2)
#define WORD_NS 1000000000ull /* maximum time in which the meeting point says why init has failed */

/* --------------------------------------------------------------------------------------------------------- questions */

/* COLLET_HEARTBEAT_TIMEOUT, but at least the time that a connection needs; without that timeout, centuries. */
static uint64_t patience_ns(const struct tree *tree) {
    if (tree->silence_ns == 0)
        return NEVER_NS;
    return tree->silence_ns > DIAL_PATIENCE_NS ? tree->silence_ns : DIAL_PATIENCE_NS;
}

/* A process on another host is lost, or silent. Is its host lost? Asks all other processes there at once, except those to which this
 * process is connected. */
static void suspect_host_of(struct tree *tree, int suspect, uint64_t deadline_ns) {
    if (!tree->running || is_on_our_host(tree, suspect))
        return;
    for (int number = 0; number < tree->places.count; number++)
        if (node_of(tree, number) == node_of(tree, suspect) && !place_of(tree, number)->gone &&
            place_of(tree, number)->edge == NULL)
            link_ask(tree, number, deadline_ns);
}

/* ------------------------------------------------------------------------------------------------------------ losses */

static bool anyone_alive(const struct tree *tree, int place) {
    for (int rank = place_of(tree, place)->lowest_rank; rank < tree->hub->nranks; rank++)
        if (tree->places.of_rank[rank] == place && hub_state(tree->hub, rank, NULL) == PEER_ALIVE)
            return true;
    return false;
}

void losses_add(struct tree *tree, int number, enum peer_state state, const char *why) {
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
    link_read(tree, number);
    place->gone = true;
    for (int rank = place->lowest_rank; rank < hub->nranks; rank++) {
        if (tree->places.of_rank[rank] != number || !hub_set_state(hub, rank, state, 0))
            continue;
        hub_name_rank(hub, rank, name);
        log_info(BOOT, "%s is %s: %s", name, state == PEER_DEAD ? "dead" : "out of reach", why);
        tree_spread_state(tree, rank, state, NULL);
        death = true;
    }
    if (death && !tree->running) {
        hub_name_rank(hub, place->lowest_rank, name);
        snprintf(text, sizeof text, "%s %s while the communicator was created: %s", name,
                 state == PEER_DEAD ? "died" : "was lost", why);
        hub_give_up(tree->hub, COLLET_ERR_REMOTE, text);
    }
    link_forget(tree, number);
    suspect_host_of(tree, number, os_now_ns() + patience_ns(tree));
    if (number == tree->parent)
        losses_find_parent(tree);
    tree_changed(tree);
}

/* The other processes say that this one is lost. Makes that true everywhere. */
static void lose_self(struct tree *tree) {
    static const char why[] =
        "the other ranks count this process as lost: its connection broke, or it was silent for COLLET_HEARTBEAT_TIMEOUT";
    if (hub_fail(tree->hub, COLLET_ERR_REMOTE, place_of(tree, tree->places.self)->lowest_rank, why))
        log_warn(BOOT, "%s", why);
    losses_add(tree, tree->places.self, PEER_LOST, why);
}

/* ------------------------------------------------------------------------------------------------------- accusations */

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
            losses_add(tree, number, PEER_LOST, "it has lost a process that is heard here");
    }
}

/* ---------------------------------------------------------------------------------------------------- news of others */

/* Others say that this process is lost, so it is lost here too. Its children choose another parent. */
static void leave(struct tree *tree, struct place *place) {
    if (place->edge != NULL)
        tree_forsake(place->edge);
    place->edge = NULL;
    if (tree->parent >= 0 && place == place_of(tree, tree->parent))
        losses_find_parent(tree);
}

bool losses_take_news(struct tree *tree, const struct edge *from, const struct frame *frame) {
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
        tree_spread_state(tree, news.rank, (enum peer_state)news.state, from);
        place_of(tree, place)->gone |= news.state != PEER_LEFT; /* ranks die with their process */
        if (!anyone_alive(tree, place))
            link_forget(tree, place);
        if (news.state == PEER_LOST)
            leave(tree, place_of(tree, place));
        else if (tree->dial.active && place_of(tree, tree->parent)->gone)
            losses_find_parent(tree);
    }
    tree_changed(tree);
    return true;
}

/* -------------------------------------------------------------------------------------------------------- the parent */

static void on_parent(struct dial *dial, struct wire *wire) {
    struct tree *tree = WATCH_OWNER(dial, struct tree, dial);
    struct edge *silent = place_of(tree, tree->parent)->edge, *edge = tree_add_edge(tree, wire, tree->parent);
    if (edge == NULL) {
        losses_find_parent(tree);
        return;
    }
    if (silent != NULL) {
        log_info(BOOT, "the process of rank %d was silent, and answers by a new connection", tree_parent_rank(tree));
        tree_forsake(silent);
    }
    tree_say_hello(tree, edge, TREE_HELLO, 0);
    tree->orphan_ns = 0;
    tree_edge_up(tree, edge);
    if (tree->running)
        tree_watch_neighbour(tree, edge);
    edge_read(edge);
}

/* The parent does not answer. During init it may be slow. After init it was there before, so now it is gone. */
static void on_parent_round_failed(struct dial *dial) {
    struct tree *tree = WATCH_OWNER(dial, struct tree, dial);
    if (!tree->running && dial->exhausted)
        hub_give_up(tree->hub, COLLET_ERR_SYSTEM, dial->trouble);
    if (place_of(tree, tree->parent)->edge == NULL && tree->running && dial_refused_ns(dial) > DIAL_GONE_NS)
        losses_add(tree, tree->parent, PEER_DEAD, dial->trouble);
}

static void dial_parent(struct tree *tree) {
    const struct place *place = place_of(tree, tree->parent);
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    place_key(tree, place, key);
    dial_start(&tree->dial, &place->listener, key, 0, on_parent, on_parent_round_failed);
}

void losses_find_parent(struct tree *tree) {
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
        losses_add(tree, tree->parent, PEER_DEAD, "its process ended");
        return;
    }
    dial_parent(tree);
}

/* ---------------------------------------------------------------------------------------------------------- heartbeat */

static bool patience_over(const struct tree *tree, uint64_t since_ns) {
    return os_now_ns() - since_ns > patience_ns(tree);
}

bool losses_awaits(const struct tree *tree, int number) {
    const struct place *place = &tree->places.list[number];
    return !place->gone && place->edge == NULL && places_choose_parent(&tree->places, number) == tree->places.self;
}

/* Looks for children of lost processes, which should connect to us now. If they were lost too, only this process can notice it. A living
 * child may be slow. Or it has left, and those that know it cannot reach us; then its door is closed. */
static void look_for_orphans(struct tree *tree) {
    const struct places *places = &tree->places;
    const uint64_t now_ns = os_now_ns();
    for (int number = places->self + 1; number < places->count; number++) {
        struct place *place = place_of(tree, number);
        if (!losses_awaits(tree, number)) {
            place->awaited_ns = 0;
            continue;
        }
        if (place->awaited_ns == 0)
            place->awaited_ns = now_ns;
        const bool ended = is_on_our_host(tree, number) && edge_process_ended(place->pid);
        if (ended || patience_over(tree, place->awaited_ns))
            losses_add(tree, number, ended ? PEER_DEAD : PEER_LOST,
                       "it was lost together with the process it was connected to");
        else if (now_ns - place->awaited_ns > JUDGEMENT_NS)
            link_ask(tree, number, NEVER_NS);
    }
}

/* Processes to which this one has no edge may have been asked whether they live. */
static void hear_answers(struct tree *tree) {
    for (int number = 0; number < tree->places.count; number++) {
        const char *why;
        const enum peer_state state = link_verdict(tree, number, &why);
        if (state != PEER_ALIVE && place_of(tree, number)->edge == NULL && !place_of(tree, number)->gone)
            losses_add(tree, number, state, why);
    }
}

/* The parent has become silent, or is heard again. */
static void seek_silent_parent(struct tree *tree, bool is_silent) {
    if (!is_silent)
        dial_stop(&tree->dial);
    else if (!tree->dial.active)
        dial_parent(tree);
}

/* A parent that does not answer is lost when its time is up, and not only when an attempt to dial it ends. That may last for seconds more,
 * in which this process has no parent, and the others come to count it as lost. */
static void look_for_parent(struct tree *tree) {
    if (tree->parent >= 0 && tree->dial.active && place_of(tree, tree->parent)->edge == NULL &&
        patience_over(tree, tree->dial.started_ns))
        losses_add(tree, tree->parent, PEER_LOST, tree->dial.trouble);
}

/* A process that is silent for half of the timeout may soon be lost. Until then it will be known whether its whole host is lost. */
static void look_for_silence(struct tree *tree) {
    const uint64_t now_ns = os_now_ns();
    for (const struct edge *edge = tree->edges; edge != NULL; edge = edge->next) {
        const uint64_t silence_ns = edge->place >= 0 ? edge_silence_ns(edge) : 0;
        const bool may_be_lost = tree->silence_ns != 0 && silence_ns > tree->silence_ns / 2;
        if (edge->place == tree->parent)
            seek_silent_parent(tree, may_be_lost);
        if (!may_be_lost)
            continue;
        const uint64_t left_ns = silence_ns < tree->silence_ns ? tree->silence_ns - silence_ns : 0;
        suspect_host_of(tree, edge->place, now_ns + (left_ns > ANSWER_MIN_NS ? left_ns : ANSWER_MIN_NS));
    }
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
    look_for_parent(tree);
    look_for_orphans(tree);
    hear_answers(tree);
    links_tidy(tree, BEATS_IDLE * tree->beat_ns, tree->silence_ns != 0 ? tree->silence_ns / 2 : DIAL_PATIENCE_NS);
}

void losses_begin(struct tree *tree) {
    const struct config *agreed = &tree->hub->agreed;
    tree->beat_ns = (uint64_t)(agreed->heartbeat > 10 ? agreed->heartbeat : 10) * 1000000u;
    tree->silence_ns = (uint64_t)(agreed->heartbeat_timeout > 0 ? agreed->heartbeat_timeout : 0) * 1000000u;
    tree->beaten_ns = os_now_ns();
    tree->beat.fire = beat;
    watch_timer_set(&tree->beat, tree->beaten_ns + tree->beat_ns);
}
