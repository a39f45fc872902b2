/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/shortcut.h"

#include "base/os.h"
#include "boot/inquiry.h"
#include "boot/process.h"

#include <sys/resource.h>

#define SHORTCUTS_MAX 4096
#define SEEK_NS 3000000000ull
#define NEAR_HOPS 2 /* a neighbour, or a neighbour's neighbour */

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

static void add(struct shortcuts *all, int more) {
    all->count += more;
    *count_of_process() += more;
}

/* May there be one more? All communicators' shortcuts together get a share of this process's descriptors. */
static bool has_room(void) {
    struct rlimit limit;
    const bool plenty = getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max / 4 >= SHORTCUTS_MAX;
    return *count_of_process() < (plenty ? SHORTCUTS_MAX : (int)(limit.rlim_max / 4));
}

bool shortcut_pays(const struct shortcuts *all, int place) {
    return !all->places->list[place].unreachable && !is_near(place, all->places->self) && has_room();
}

/* If both ends dialled at once, letters are sent on the first of the two shortcuts; the other one only receives. */
static void stand(struct shortcuts *all, struct edge *edge) {
    struct place *place = &all->places->list[edge->place];
    if (place->shortcut == NULL) {
        place->shortcut = edge;
        place->answered = false;
    }
    courier_again(all->courier, edge->place);
}

static void on_sought(void *owner, int number, enum peer_state state, struct wire *wire, const char *why) {
    struct shortcuts *all = owner;
    struct place *place = &all->places->list[number];
    (void)state, (void)why;
    place->sought = NULL;
    all->like.place = number;
    struct edge *edge = wire != NULL ? edge_create(wire, &all->like, &all->edges) : NULL;
    if (edge == NULL) {
        add(all, -1);
        place->unreachable = true;
        courier_again(all->courier, number);
        return;
    }
    all->greet(edge);
    stand(all, edge);
    edge_read(edge);
}

void shortcut_seek(struct shortcuts *all, int place, const uint8_t key[SECRET_BYTES]) {
    struct place *other = &all->places->list[place];
    other->sought = inquiry_start(&other->listener, key, 0, os_now_ns() + SEEK_NS, on_sought, all, place);
    add(all, other->sought != NULL);
}

bool shortcut_take(struct shortcuts *all, struct edge *edge, int number) {
    struct place *place = &all->places->list[number];
    if (!has_room())
        return false;
    all->like.place = number;
    edge_become(edge, &all->like, &all->edges);
    add(all, place->sought == NULL);
    inquiry_stop(place->sought);
    place->sought = NULL;
    stand(all, edge);
    return true;
}

/* Removes a shortcut. Returns its place, whose letters now use the tree or another shortcut. If nothing ever came by it, the other end did
 * not accept it, or the network drops everything; then no new attempt is made. */
static int leave(struct shortcuts *all, const struct edge *edge) {
    struct place *place = &all->places->list[edge->place];
    if (place->shortcut == edge) {
        place->shortcut = NULL;
        place->unreachable |= !place->answered;
    }
    add(all, -1);
    return edge->place;
}

void shortcut_lost(struct shortcuts *all, struct edge *edge) {
    int place = leave(all, edge);
    edge_destroy(edge);
    courier_again(all->courier, place);
}

void shortcuts_tidy(struct shortcuts *all, uint64_t idle_ns) {
    for (struct edge *edge = all->edges, *next; edge != NULL; edge = next) {
        next = edge->next;
        const bool answered = all->places->list[edge->place].answered; /* if not, the other end may be busy */
        if (os_now_ns() - edge->heard_ns < (answered || idle_ns > SEEK_NS ? idle_ns : SEEK_NS))
            continue;
        int place = leave(all, edge);
        edge_finish(edge);
        courier_again(all->courier, place); /* the network drops everything */
    }
}

void shortcuts_close(struct shortcuts *all) {
    while (all->edges != NULL)
        edge_finish(all->edges);
    for (int place = 0; place < all->places->count; place++)
        inquiry_stop(all->places->list[place].sought);
    add(all, -all->count);
}
