/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/places.h"

#include "base/memory.h"

#include <string.h>

static int parent_place(int place) { return (place - 1) / TREE_ARITY; }

static int find_place(const struct places *places, const struct card *card) {
    int place = 0;
    while (place < places->count && memcmp(places->list[place].process, card->process, sizeof card->process) != 0)
        place++;
    return place;
}

enum collet_result places_create(struct places *places, const struct card *cards, int nranks) {
    *places = (struct places){0};
    places->list = arena_get(&places->arena, (size_t)nranks, sizeof *places->list);
    places->of_rank = arena_get(&places->arena, (size_t)nranks, sizeof *places->of_rank);
    COLLET_TRY(arena_check(&places->arena, "no memory for a tree of %d ranks", nranks));
    for (int rank = 0; rank < nranks; rank++) {
        const struct card *card = &cards[rank];
        int number = places->of_rank[rank] = find_place(places, card);
        if (number < places->count)
            continue;
        struct place *place = &places->list[places->count++];
        *place = (struct place){.lowest_rank = rank, .pid = card->pid, .listener = card->listener};
        memcpy(place->process, card->process, sizeof place->process);
        if (process_is_here(card->process))
            places->self = number;
    }
    return COLLET_SUCCESS;
}

void places_destroy(struct places *places) {
    arena_free(&places->arena);
    *places = (struct places){0};
}

int places_choose_parent(const struct places *places, int of) {
    for (int place = of; place > 0;) {
        place = parent_place(place);
        if (!places->list[place].gone)
            return place;
    }
    for (int place = 0; place < of; place++)
        if (!places->list[place].gone)
            return place;
    return -1;
}

/* Up from the target until one of our neighbours. Who comes to the top without having met one, or us, is in another part
 * of the tree. */
int places_next_hop(const struct places *places, int parent, int target) {
    for (int place = target; place != places->self; place = parent_place(place)) {
        if (places->list[place].edge != NULL)
            return place;
        if (place == 0)
            return parent >= 0 && places->list[parent].edge != NULL ? parent : -1;
    }
    return -1; /* below us, where an edge is missing at the moment */
}

bool places_children_connected(const struct places *places) {
    int first = TREE_ARITY * places->self + 1;
    for (int child = first; child < first + TREE_ARITY && child < places->count; child++)
        if (places->list[child].edge == NULL && !places->list[child].gone)
            return false;
    return true;
}
