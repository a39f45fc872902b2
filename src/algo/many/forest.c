/* SPDX-License-Identifier: Apache-2.0
 *
 * Places in a tree over nodes and rails, and the ranks there; forest.h has the picture.
 */
#include "algo/many/forest.h"

struct forest forest_of(const struct prog *prog) {
    struct forest forest = {.rails = rails_of(prog)};
    forest.rail_levels = binomial_levels(forest.rails.nrails);
    forest.levels = forest.rail_levels + binomial_levels(forest.rails.nnodes);
    return forest;
}

int forest_count(const struct forest *forest, int level) {
    const struct rails *rails = &forest->rails;
    if (level < forest->rail_levels)
        return rails->nnodes * binomial_count(rails->nrails, level);
    return binomial_count(rails->nnodes, level - forest->rail_levels);
}

/* A place in a tree: its distance from the root, in nodes and in rails. */
struct offset {
    int nodes, rails;
};

static int level_of(const struct forest *forest, struct offset at) {
    return at.rails > 0 ? binomial_level(forest->rails.nrails, at.rails)
                        : forest->rail_levels + binomial_level(forest->rails.nnodes, at.nodes);
}

static struct offset offset_of(const struct forest *forest, int level, int i) {
    if (level >= forest->rail_levels)
        return (struct offset){binomial_place(forest->rails.nnodes, level - forest->rail_levels, i), 0};
    int count = binomial_count(forest->rails.nrails, level);
    return (struct offset){i / count, binomial_place(forest->rails.nrails, level, i % count)};
}

static struct offset parent_of(struct offset at) {
    return at.rails > 0 ? (struct offset){at.nodes, binomial_parent(at.rails)}
                        : (struct offset){binomial_parent(at.nodes), 0};
}

/* The rank that stands at place `there` of the tree in which this rank stands at place `here`. */
static int rank_at(const struct prog *prog, const struct rails *rails, struct offset here, struct offset there) {
    return rails_rank(prog, rails, rails->node + there.nodes - here.nodes, rails->rail + there.rails - here.rails);
}

struct forest_place forest_place(const struct prog *prog, const struct forest *forest, int level, int i) {
    const struct rails *rails = &forest->rails;
    struct offset at = offset_of(forest, level, i), up = parent_of(at);
    struct forest_place place = {.root = rank_at(prog, rails, at, (struct offset){0, 0}), .parent = -1};
    int child[BINOMIAL_MAX_CHILDREN];
    if (level < forest->levels) {
        place.parent = rank_at(prog, rails, at, up);
        place.parent_level = level_of(forest, up);
    }
    int nchildren = binomial_children(rails->nrails, at.rails, child);
    for (int c = 0; c < nchildren; c++)
        place.below[place.nbelow++] = rank_at(prog, rails, at, (struct offset){at.nodes, child[c]});
    nchildren = at.rails == 0 ? binomial_children(rails->nnodes, at.nodes, child) : 0;
    for (int c = 0; c < nchildren; c++)
        place.below[place.nbelow++] = rank_at(prog, rails, at, (struct offset){child[c], 0});
    return place;
}
