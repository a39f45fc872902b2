/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/tree.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------- places */

int places_parent(int place) { return place > 0 ? (place - 1) / TREE_ARITY : -1; }

static enum collet_result make_room(struct places *places, int nranks) {
    *places = (struct places){.self = -1};
    places->list = arena_get(&places->arena, (size_t)nranks, sizeof *places->list);
    places->of_rank = arena_get(&places->arena, (size_t)nranks, sizeof *places->of_rank);
    return arena_check(&places->arena, "no memory for a tree of %d ranks", nranks);
}

static bool same_process(const uint64_t a[2], const uint64_t b[2]) { return memcmp(a, b, 2 * sizeof *a) == 0; }

static void settle(struct place *place, const struct card *card) {
    place->lowest_rank = card->rank;
    place->pid = card->pid;
    place->listener = card->listener;
    memcpy(place->process, card->process, sizeof place->process);
}

/* Finds the number of a process by its identity: an open hash table, twice as large as needed. */
struct numbers {
    int *slots; /* number + 1; 0: free */
    size_t mask;
};

static int *find_slot(const struct numbers *numbers, const struct places *places, const uint64_t process[2]) {
    size_t at = process[0] & numbers->mask;
    while (numbers->slots[at] != 0 && !same_process(places->list[numbers->slots[at] - 1].process, process))
        at = (at + 1) & numbers->mask;
    return &numbers->slots[at];
}

/* Numbers the processes of ranks 0 … nranks−1 again. False: a connected process turns out to be a different one. */
static bool number_all(struct places *places, const struct card *cards, int nranks, const struct numbers *numbers) {
    places->count = 0;
    for (int rank = 0; rank < nranks; rank++) {
        const struct card *card = &cards[rank];
        int *slot = find_slot(numbers, places, card->process);
        if (*slot == 0) {
            struct place *place = &places->list[places->count];
            if (place->edge != NULL && !same_process(place->process, card->process))
                return false;
            settle(place, card);
            if (process_is_here(card->process))
                places->self = places->count;
            *slot = ++places->count;
        }
        places->of_rank[rank] = *slot - 1;
    }
    return true;
}

enum collet_result places_fill(struct places *places, const struct card *cards, int nranks) {
    const int count = places->count, self = places->self;
    struct numbers numbers = {.mask = 1};
    while (numbers.mask < 2 * (size_t)nranks)
        numbers.mask *= 2;
    SCOPED_FREE int *slots = NULL;
    COLLET_TRY(memory_get(&slots, numbers.mask--, sizeof *slots, "no memory for a tree of %d ranks", nranks));
    numbers.slots = slots;
    bool fits = number_all(places, cards, nranks, &numbers) && (count == 0 || count == places->count) &&
                (self < 0 || self == places->self);
    return fits ? COLLET_SUCCESS : COLLET_ERR_REMOTE;
}

enum collet_result places_create(struct places *places, const struct card *cards, int nranks) {
    COLLET_TRY(make_room(places, nranks));
    return places_fill(places, cards, nranks);
}

enum collet_result places_create_seat(struct places *places, const struct seat *seat, int nranks) {
    COLLET_TRY(make_room(places, nranks));
    places->count = seat->nplaces;
    places->self = seat->place;
    memcpy(places->list[seat->place].process, process_identity(), sizeof places->list->process);
    if (seat->place > 0)
        settle(&places->list[places_parent(seat->place)], &seat->parent);
    return COLLET_SUCCESS;
}

void places_destroy(struct places *places) {
    arena_free(&places->arena);
    *places = (struct places){0};
}

int places_choose_parent(const struct places *places, int of) {
    for (int place = of; place > 0;) {
        place = places_parent(place);
        if (!places->list[place].gone)
            return place;
    }
    for (int place = 0; place < of; place++)
        if (!places->list[place].gone)
            return place;
    return -1;
}

bool places_children_connected(const struct places *places) {
    int first = TREE_ARITY * places->self + 1;
    for (int child = first; child < first + TREE_ARITY && child < places->count; child++)
        if (places->list[child].edge == NULL && !places->list[child].gone)
            return false;
    return true;
}

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

bool tree_read_hello(const struct tree *tree, const struct frame *frame, struct hello *hello) {
    if (frame->bytes != sizeof *hello)
        return false;
    memcpy(hello, frame->data, sizeof *hello);
    return hello->place >= 0 && hello->place < tree->places.count && hello->place != tree->places.self &&
           (!tree->known || same_process(hello->process, place_of(tree, hello->place)->process));
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
