/* SPDX-License-Identifier: Apache-2.0
 *
 * What a block holds, as an expression: which contributions, reduced in which order.
 *
 *      ((r0 + r1) + r2) ÷        a leaf is an IN block of a member, ÷ is the finish
 *
 * Equal expressions have equal numbers (they are stored once), and a + b is b + a; so "all ranks get the same bits" is
 * a comparison of two integers. Sums inside one step are kept in the accumulator's precision and rounded at its end:
 * (a + b + c) in one step is another expression than (a + b) + c in two.
 */
#ifndef COLLET_LAYERS_SCHEDULES_EXPR_H
#define COLLET_LAYERS_SCHEDULES_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPR_NONE (-1) /* no value */
#define EXPR_NO_MEMORY (-2)

struct expr_node {
    int32_t left, right; /* right == EXPR_NONE: this is the finish of left */
    int32_t nleaves;     /* with repetitions; stops counting at INT32_MAX */
    bool rounded;
};

/* Leaf (member, block) has the number member · nblocks + block; nodes have the numbers behind the leaves. */
struct expr_store {
    int32_t nleaves, nblocks;
    struct expr_node *nodes;
    int32_t nnodes, room;
    int32_t *index; /* hash table of node numbers */
    uint32_t index_size;
};

void expr_init(struct expr_store *store, int nmembers, int nblocks);
void expr_fini(struct expr_store *store);

static inline int32_t expr_leaf(const struct expr_store *store, int member, int block) {
    return member * store->nblocks + block;
}

/* a + b; rounded: the last addition of a step, whose result is put into places. EXPR_NO_MEMORY on failure. */
int32_t expr_add(struct expr_store *store, int32_t a, int32_t b, bool rounded);
int32_t expr_finish(struct expr_store *store, int32_t a);

bool expr_is_finish(const struct expr_store *store, int32_t e);
/* Whether a finished e is the sum of the members' contributions in the order of their numbers, made in one step. */
bool expr_is_in_order(const struct expr_store *store, int32_t e);
int32_t expr_nleaves(const struct expr_store *store, int32_t e);

/* Writes the leaves of e, or `room` of them if there are more, to leaves; returns how many. */
int expr_list_leaves(const struct expr_store *store, int32_t e, int32_t *leaves, int room);

/* Writes e as text, cut off at bytes (at least 4). A leaf is the number of its member; parentheses hold one step. */
void expr_print(const struct expr_store *store, int32_t e, char *text, size_t bytes);

#endif
