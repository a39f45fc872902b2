/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/shortcut.h"

#include "base/os.h"
#include "boot/inquiry.h"

#include <sys/resource.h>

#define SHORTCUTS_MAX 4096
#define SEEK_NS 3000000000ull
#define NEAR_HOPS 2 /* to a neighbour, or past one */

/* A child has a higher number than its parent. */
static bool is_near(int a, int b) {
    int hops = 0;
    for (; a != b && hops <= NEAR_HOPS; hops++)
        if (a > b)
            a = places_parent(a);
        else
            b = places_parent(b);
    return hops <= NEAR_HOPS;
}

/* A part of the descriptors that this process may have. */
static int most_shortcuts(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max / 4 >= SHORTCUTS_MAX)
        return SHORTCUTS_MAX;
    return (int)(limit.rlim_max / 4);
}

bool shortcut_pays(const struct shortcuts *all, int place) {
    return all->count < most_shortcuts() && !all->places->list[place].unreachable && !is_near(place, all->places->self);
}

/* The first of two that were dialled at the same time is sent by; what comes by the other one is heard. */
static void stand(struct shortcuts *all, struct edge *edge) {
    struct place *place = &all->places->list[edge->place];
    if (place->shortcut == NULL)
        place->shortcut = edge;
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
        all->count--;
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
    all->count += other->sought != NULL;
}

bool shortcut_take(struct shortcuts *all, struct edge *edge, int number) {
    struct place *place = &all->places->list[number];
    if (all->count >= most_shortcuts())
        return false;
    all->like.place = number;
    edge_become(edge, &all->like, &all->edges);
    all->count += place->sought == NULL;
    inquiry_stop(place->sought);
    place->sought = NULL;
    stand(all, edge);
    return true;
}

/* Its place; letters for that go by the tree, or by another shortcut, from now on. */
static int leave(struct shortcuts *all, const struct edge *edge) {
    struct place *place = &all->places->list[edge->place];
    if (place->shortcut == edge)
        place->shortcut = NULL;
    all->count--;
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
        if (os_now_ns() - edge->heard_ns < idle_ns)
            continue;
        int place = leave(all, edge);
        edge_finish(edge);
        courier_again(all->courier, place); /* a path that swallows everything */
    }
}

void shortcuts_close(struct shortcuts *all) {
    while (all->edges != NULL)
        edge_finish(all->edges);
}
