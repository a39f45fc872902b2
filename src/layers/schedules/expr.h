/* SPDX-License-Identifier: Apache-2.0
 *
 * The content of a block as an expression: its contributions, and the order in which they were reduced.
 *
 *      ((r0 + r1) + r2) ÷        a leaf is an IN block of a member, ÷ is the finish
 *
 * An expression is stored only once, so equal expressions have equal numbers; a + b is the same as b + a. So two integers are compared to
 * find out whether all ranks get the same bits. A sum inside one step is kept in the accumulator's precision, and is rounded at the end of
 * the step: (a + b + c) in one step is another expression than (a + b) + c in two steps.
 */
#ifndef COLLET_LAYERS_SCHEDULES_EXPR_H
#define COLLET_LAYERS_SCHEDULES_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPR_NONE (-1) /* There is no value. */
#define EXPR_NO_MEMORY (-2)

struct expr_node {
    int32_t left, right; /* Numbers of the two operands. right EXPR_NONE: this node is the finish of `left`. */
    int32_t nleaves;     /* Number of leaves, each counted as often as it occurs; at most INT32_MAX. */
    bool rounded;
};

/* Stores expressions, each under its number. Leaf (member, block) has the number member · nblocks + block. Nodes have the
 * numbers that follow those of the leaves. */
struct expr_store {
    int32_t nleaves, nblocks;
    struct expr_node *nodes;
    int32_t nnodes, room;
    int32_t *index; /* Hash table of node numbers. */
    uint32_t index_size;
};

void expr_init(struct expr_store *store, int nmembers, int nblocks);
void expr_fini(struct expr_store *store);

static inline int32_t expr_leaf(const struct expr_store *store, int member, int block) {
    return member * store->nblocks + block;
}

/* The number of a + b. rounded: this is the last addition of a step, whose result is stored or sent. EXPR_NO_MEMORY: there
 * is no memory. */
int32_t expr_add(struct expr_store *store, int32_t a, int32_t b, bool rounded);
int32_t expr_finish(struct expr_store *store, int32_t a);

bool expr_is_finish(const struct expr_store *store, int32_t e);
/* Is a finished expression the sum of all members' contributions in the order of their numbers, made in one step? */
bool expr_is_in_order(const struct expr_store *store, int32_t e);
int32_t expr_nleaves(const struct expr_store *store, int32_t e);

/* Writes the leaves of an expression to `leaves`, but at most `room` of them. Returns how many were written. */
int expr_list_leaves(const struct expr_store *store, int32_t e, int32_t *leaves, int room);

/* Writes an expression as text of at most `bytes` bytes (at least 4). A longer text ends with "...". A leaf is the number of
 * its member; parentheses enclose one step. */
void expr_print(const struct expr_store *store, int32_t e, char *text, size_t bytes);

#endif
