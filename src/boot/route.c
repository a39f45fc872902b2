/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/route.h"

#include "boot/process.h"

#include <string.h>
#include <sys/resource.h>

#define SHORTCUTS_MAX 4096
#define SEEK_NS 3000000000ull
#define NEAR_HOPS 2 /* a neighbour, or a neighbour's neighbour */
#define HOPS_MAX 64 /* a letter can go in circles while processes disagree about which of them live */

/* A process has a new parent, for the times-th time. */
struct moved {
    int32_t place, times;
};

/* ---------------------------------------------------------------------------------------------------- a changed tree */

void route_say_moved(struct tree *tree) {
    const struct moved moved = {tree->places.self, ++place_of(tree, tree->places.self)->moves};
    courier_hurry(&tree->courier);
    tree_spread(tree, TREE_MOVED, &moved, sizeof moved, NULL);
}

bool route_take_moved(struct tree *tree, const struct edge *from, const struct frame *frame) {
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
    tree_spread(tree, TREE_MOVED, &moved, sizeof moved, from);
    return true;
}

/* --------------------------------------------------------------------------------------------------------- shortcuts */

/* Are two places near in the tree? A child has a higher number than its parent. */
static bool is_near(int a, int b) {
    int hops = 0;
    for (; a != b && hops <= NEAR_HOPS; hops++)
        if (a > b)
            a = places_parent(a);
        else
            b = places_parent(b);
    return hops <= NEAR_HOPS;
}

static int *count_of_process(void) {
    int *count = &process_lock()->shortcuts;
    process_unlock();
    return count;
}

static void count_shortcuts(struct tree *tree, int more) {
    tree->nshortcuts += more;
    *count_of_process() += more;
}

/* May there be one more? All communicators' shortcuts together get a share of this process's descriptors. */
static bool has_room(void) {
    struct rlimit limit;
    const bool plenty = getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max / 4 >= SHORTCUTS_MAX;
    return *count_of_process() < (plenty ? SHORTCUTS_MAX : (int)(limit.rlim_max / 4));
}

/* Would a letter through the tree pass more than one other process, and is one more shortcut allowed? */
static bool shortcut_pays(const struct tree *tree, int place) {
    return !place_of(tree, place)->unreachable && !is_near(place, tree->places.self) && has_room();
}

static bool on_shortcut_frame(struct edge *edge, const struct frame *frame) {
    struct tree *tree = edge->owner;
    place_of(tree, edge->place)->answered = true;
    return frame->type == TREE_PARCEL && route_take(tree, frame);
}

/* Removes a shortcut. Its letters now use the tree or another shortcut. If nothing ever came by it, the other end did not accept it, or the
 * network drops everything; then no new attempt is made. end: how the edge is ended. */
static void remove_shortcut(struct tree *tree, struct edge *edge, void (*end)(struct edge *edge)) {
    const int number = edge->place;
    struct place *place = place_of(tree, number);
    if (place->shortcut == edge) {
        place->shortcut = NULL;
        place->unreachable |= !place->answered;
    }
    count_shortcuts(tree, -1);
    end(edge);
    courier_again(&tree->courier, number);
}

static void on_shortcut_lost(struct edge *edge, enum peer_state state, const char *why) {
    (void)state, (void)why;
    remove_shortcut(edge->owner, edge, edge_destroy);
}

static struct edge shortcut_to(struct tree *tree, int place) {
    return (struct edge){
        .place = place,
        .max_bytes = tree->like.max_bytes,
        .frame = on_shortcut_frame,
        .lost = on_shortcut_lost,
        .owner = tree,
    };
}

/* If both ends dialled at once, letters are sent on the first of the two shortcuts; the other one only receives. */
static void stand(struct tree *tree, struct edge *edge) {
    struct place *place = place_of(tree, edge->place);
    if (place->shortcut == NULL) {
        place->shortcut = edge;
        place->answered = false;
    }
    courier_again(&tree->courier, edge->place);
}

static void on_sought(void *owner, int number, enum peer_state state, struct wire *wire, const char *why) {
    struct tree *tree = owner;
    struct place *place = place_of(tree, number);
    (void)state, (void)why;
    place->sought = NULL;
    const struct edge like = shortcut_to(tree, number);
    struct edge *edge = wire != NULL ? edge_create(wire, &like, &tree->shortcuts) : NULL;
    if (edge == NULL) {
        count_shortcuts(tree, -1);
        place->unreachable = true;
        courier_again(&tree->courier, number);
        return;
    }
    tree_say_hello(tree, edge, TREE_SHORTCUT);
    stand(tree, edge);
    edge_read(edge);
}

static void seek_shortcut(struct tree *tree, int number) {
    struct place *place = place_of(tree, number);
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    place_key(tree, place, key);
    place->sought = inquiry_start(&place->listener, key, 0, os_now_ns() + SEEK_NS, on_sought, tree, number);
    count_shortcuts(tree, place->sought != NULL);
}

bool route_take_shortcut(struct tree *tree, struct edge *edge, const struct frame *frame) {
    struct hello hello;
    if (frame->bytes != sizeof hello || !tree->known)
        return false;
    memcpy(&hello, frame->data, sizeof hello);
    if (hello.place < 0 || hello.place >= tree->places.count || hello.place == tree->places.self)
        return false;
    struct place *place = place_of(tree, hello.place);
    if (memcmp(hello.process, place->process, sizeof hello.process) != 0 || !has_room())
        return false;
    const struct edge like = shortcut_to(tree, hello.place);
    edge_become(edge, &like, &tree->shortcuts);
    count_shortcuts(tree, place->sought == NULL);
    inquiry_stop(place->sought);
    place->sought = NULL;
    stand(tree, edge);
    return true;
}

void route_tidy(struct tree *tree, uint64_t idle_ns) {
    for (struct edge *edge = tree->shortcuts, *next; edge != NULL; edge = next) {
        next = edge->next;
        const bool answered = place_of(tree, edge->place)->answered; /* if not, the other end may be busy */
        if (os_now_ns() - edge->heard_ns >= (answered || idle_ns > SEEK_NS ? idle_ns : SEEK_NS))
            remove_shortcut(tree, edge, edge_finish);
    }
}

/* ----------------------------------------------------------------------------------------------------------- letters */

/* Sends a parcel one hop toward parcel->to_place. If there is no way, drops it: the sender's courier sends it again. */
static void forward(struct tree *tree, struct parcel *parcel, const void *data, size_t bytes) {
    int hop = places_next_hop(&tree->places, tree->parent, parcel->to_place);
    if (hop >= 0 && parcel->hops++ < HOPS_MAX)
        wire_send(place_of(tree, hop)->edge->wire, TREE_PARCEL, parcel, sizeof *parcel, data, bytes);
}

/* Is a shortcut worth its cost? Yes, when a connection is being made: its other letters will use the shortcut. */
static bool is_worth_seeking(const struct tree *tree, const struct parcel *parcel) {
    const struct place *place = place_of(tree, parcel->to_place);
    return parcel->to >= 0 && parcel->key >> 56 == BOOT_OFFER && place->shortcut == NULL && place->sought == NULL &&
           shortcut_pays(tree, parcel->to_place);
}

/* Sends a parcel. If a shortcut is being sought, the letter waits, and the courier is told later. */
static void carry(struct courier *courier, struct parcel *parcel, const void *data, size_t bytes) {
    struct tree *tree = WATCH_OWNER(courier, struct tree, courier);
    const struct place *place = place_of(tree, parcel->to_place);
    if (is_worth_seeking(tree, parcel))
        seek_shortcut(tree, parcel->to_place);
    if (place->shortcut != NULL)
        wire_send(place->shortcut->wire, TREE_PARCEL, parcel, sizeof *parcel, data, bytes);
    else if (parcel->to < 0 || place->sought == NULL)
        forward(tree, parcel, data, bytes);
}

static void deliver(struct courier *courier, struct letter *letter) {
    hub_deliver(WATCH_OWNER(courier, struct tree, courier)->hub, letter);
}

bool route_take(struct tree *tree, const struct frame *frame) {
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

void route_post(struct tree *tree, struct letter *letter) {
    if (letter->to == LETTER_TO_ALL) {
        tree_spread_state(tree, letter->from, (enum peer_state)letter->key, NULL);
        letter_free(letter);
    } else if (hub_state(tree->hub, letter->to, NULL) != PEER_ALIVE) {
        letter_free(letter);
    } else {
        courier_send(&tree->courier, tree->places.of_rank[letter->to], letter);
    }
}

/* --------------------------------------------------------------------------------------------------------------- life */

enum collet_result route_open(struct tree *tree) {
    tree->courier.carry = carry;
    tree->courier.deliver = deliver;
    return courier_init(&tree->courier, tree->places.self, tree->places.count);
}

void route_close(struct tree *tree) {
    while (tree->shortcuts != NULL)
        edge_finish(tree->shortcuts);
    for (int place = 0; place < tree->places.count; place++)
        inquiry_stop(place_of(tree, place)->sought);
    count_shortcuts(tree, -tree->nshortcuts);
    courier_fini(&tree->courier);
}
