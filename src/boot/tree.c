/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/tree.h"

#include <string.h>

int tree_parent_rank(const struct tree *tree) { return place_of(tree, tree->parent)->lowest_rank; }

/* -------------------------------------------------------------------------------------------------------------- news */

void tree_spread(struct tree *tree, enum tree_frame type, const void *news, size_t bytes, const struct edge *except) {
    for (struct edge *edge = tree->edges; edge != NULL; edge = edge->next)
        if (edge != except && edge->place >= 0)
            wire_send(edge->wire, type, news, bytes, NULL, 0);
}

static struct state_news news_of(const struct tree *tree, int rank, enum peer_state state) {
    return (struct state_news){.rank = rank, .state = (int32_t)state, .calls = tree->hub->last_calls[rank]};
}

void tree_spread_state(struct tree *tree, int rank, enum peer_state state, const struct edge *except) {
    const struct state_news news = news_of(tree, rank, state);
    tree_spread(tree, TREE_STATE, &news, sizeof news, except);
}

void tree_spread_failure(struct tree *tree) {
    const struct failure failure = hub_failure(tree->hub);
    tree_spread(tree, TREE_FAIL, &failure, sizeof failure, NULL);
}

void tree_say_hello(struct tree *tree, struct edge *edge, enum tree_frame type, int32_t serial) {
    struct hello hello = {.place = tree->places.self, .serial = serial};
    memcpy(hello.process, place_of(tree, tree->places.self)->process, sizeof hello.process);
    wire_send(edge->wire, type, &hello, sizeof hello, NULL, 0);
}

/* ------------------------------------------------------------------------------------------------------------- edges */

struct edge *tree_add_edge(struct tree *tree, struct wire *wire, int place) {
    tree->like.place = place;
    return edge_create(wire, &tree->like, &tree->edges);
}

void tree_edge_up(struct tree *tree, struct edge *edge) {
    struct place *place = place_of(tree, edge->place);
    const int self = tree->places.self;
    const struct failure failure = hub_failure(tree->hub);
    place->edge = edge;
    for (int rank = 0; rank < tree->hub->nranks; rank++) {
        const enum peer_state state = hub_state(tree->hub, rank, NULL);
        if (state == PEER_ALIVE || (place_of(tree, self)->gone && tree->places.of_rank[rank] != self))
            continue; /* a rank that lives counts its calls */
        const struct state_news news = news_of(tree, rank, state);
        wire_send(edge->wire, TREE_STATE, &news, sizeof news, NULL, 0);
    }
    if (failure.code != COLLET_SUCCESS)
        wire_send(edge->wire, TREE_FAIL, &failure, sizeof failure, NULL, 0);
    tree_changed(tree);
}

void tree_watch_neighbour(struct tree *tree, struct edge *edge) {
    edge->heard_ns = os_now_ns();
    if (is_on_our_host(tree, edge->place))
        edge_watch_process(edge, place_of(tree, edge->place)->pid);
}

static bool ignore_frame(struct edge *edge, const struct frame *frame) {
    (void)edge, (void)frame;
    return true;
}

void tree_forsake(struct edge *edge) {
    edge->place = -1;
    edge->frame = ignore_frame;
}
