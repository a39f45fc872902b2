/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/places.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

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
