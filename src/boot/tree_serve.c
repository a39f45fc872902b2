/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/tree_serve.h"

#include "base/log.h"
#include "boot/edge.h"
#include "boot/link.h"
#include "boot/losses.h"
#include "boot/process.h"

#include <errno.h>
#include <string.h>

_Static_assert(2 * BOOT_MESSAGE_BYTES <= TABLE_PART_BYTES, "an edge's longest frame is a part of the table");

/* --------------------------------------------------------------------------------------------------------- the table */

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
        hub_give_up(tree->hub, result, err_last());
        return true;
    }
    hub->agreed = tree->table.agreed;
    tree->known = true;
    if (tree->places.count > 1)
        losses_begin(tree);
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
            tree_watch_neighbour(tree, edge);
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
    tree_changed(tree);
    return true;
}

/* ------------------------------------------------------------------------------------------------------------- edges */

static bool on_hello(struct tree *tree, struct edge *edge, const struct frame *frame) {
    struct hello hello;
    if (!tree_read_hello(tree, frame, &hello) || hello.place < tree->places.self)
        return false;
    struct place *place = place_of(tree, hello.place);
    if (!tree->known) /* places_fill() compares it with the table later */
        memcpy(place->process, hello.process, sizeof hello.process);
    if (place->edge != NULL) /* the process has given up that edge, or it would not come again */
        edge_destroy(place->edge);
    edge->place = hello.place;
    tree_edge_up(tree, edge);
    if (tree->running)
        tree_watch_neighbour(tree, edge);
    else if (tree->known)
        table_send_cards(&tree->table, edge->wire);
    return true;
}

static bool on_edge_frame(struct edge *edge, const struct frame *frame) {
    struct tree *tree = edge->owner;
    struct failure failure;
    if (edge->place < 0 && frame->type == TREE_LINK)
        return link_take(tree, edge, frame);
    if (edge->place < 0)
        return frame->type == TREE_HELLO && on_hello(tree, edge, frame);
    switch (frame->type) {
    case TREE_STATE: return losses_take_news(tree, edge, frame);
    case TREE_FAIL:
        if (!failure_read(frame->data, frame->bytes, &failure))
            return false;
        hub_fail(tree->hub, (enum collet_result)failure.code, failure.rank, failure.text);
        tree_changed(tree); /* the work task tells the others */
        return true;
    case TABLE_KNOBS:
    case TABLE_CARDS:
    case TABLE_NODES: return edge->place == tree->parent && tree_take_table(tree, frame);
    default: return false;
    }
}

/* The time for the meeting point's reason is over. (The parent may have ended because init failed; the meeting point would say why.) */
static void on_lost_early(struct watch_timer *timer) {
    struct tree *tree = WATCH_OWNER(timer, struct tree, lost_early);
    hub_give_up(tree->hub, COLLET_ERR_REMOTE, tree->why_lost_early);
}

static void on_lost(struct edge *edge, enum peer_state state, const char *why) {
    struct tree *tree = edge->owner;
    int place = edge->place;
    if (edge->wire->error == ENOMEM) /* this process itself has no memory for the connection */
        hub_give_up(tree->hub, COLLET_ERR_NO_MEMORY, "no memory for the connections of the control plane");
    if (place >= 0)
        place_of(tree, place)->edge = NULL;
    if (place >= 0 && (tree->known || place == tree->parent))
        losses_add(tree, place, state, why); /* tells the process too, which may be alive */
    edge_finish(edge);
}

static void on_child(struct door *door, struct wire *wire) {
    struct edge *edge = tree_add_edge(WATCH_OWNER(door, struct tree, door), wire, -1);
    if (edge != NULL)
        edge_read(edge);
}

/* A connection waits, but there is no descriptor. If no edge of the tree is missing, it is a link, which tries again. */
static void on_door_exhausted(struct door *door, const char *text) {
    struct tree *tree = WATCH_OWNER(door, struct tree, door);
    bool needed = !tree->running;
    if (links_make_room())
        return;
    for (int number = tree->places.self + 1; number < tree->places.count && !needed; number++)
        needed = losses_awaits(tree, number);
    if (needed)
        hub_give_up(tree->hub, COLLET_ERR_SYSTEM, text);
    else
        log_trace(BOOT, "no link: %s", text);
}

/* -------------------------------------------------------------------------------------------------------------- life */

static void tree_init(struct tree *tree, struct hub *hub) {
    *tree = (struct tree){.hub = hub, .parent = -1, .door.listener.fd = -1};
    tree->lost_early.fire = on_lost_early;
    tree->like = (struct edge){
        .max_bytes = TABLE_PART_BYTES + (size_t)hub->nranks, /* a decision has one byte per rank (agreement.h) */
        .frame = on_edge_frame,
        .lost = on_lost,
        .owner = tree,
    };
}

enum collet_result tree_open(struct tree *tree, struct hub *hub, int family, const char *ifname) {
    tree_init(tree, hub);
    return door_open(&tree->door, family, 0, ifname);
}

enum collet_result tree_link(struct tree *tree, const struct seat *seat) {
    COLLET_TRY(places_create_seat(&tree->places, seat, tree->hub->nranks));
    COLLET_TRY(table_create(&tree->table, tree->hub->nranks));
    if (tree->places.count == 1) {
        door_close(&tree->door);
        return COLLET_SUCCESS;
    }
    links_open();
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    place_key(tree, place_of(tree, tree->places.self), key);
    COLLET_TRY(door_serve(&tree->door, key, on_child, on_door_exhausted));
    losses_find_parent(tree);
    return COLLET_SUCCESS;
}

bool tree_is_heard(const struct tree *tree) { return tree->parent < 0 || place_of(tree, tree->parent)->edge != NULL; }

bool tree_linked(const struct tree *tree) {
    return tree->known && tree_is_heard(tree) && places_children_connected(&tree->places);
}

void tree_close(struct tree *tree) {
    door_close(&tree->door);
    dial_stop(&tree->dial);
    watch_timer_stop(&tree->beat);
    watch_timer_stop(&tree->lost_early);
    while (tree->edges != NULL)
        edge_finish(tree->edges);
    links_close(tree);
    table_free(&tree->table);
    places_destroy(&tree->places);
}
