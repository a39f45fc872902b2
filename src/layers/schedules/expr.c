/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions, each stored once: an array of nodes and a hash table over it.
 */
#include "layers/schedules/expr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void expr_init(struct expr_store *store, int nmembers, int nblocks) {
    *store = (struct expr_store){.nleaves = nmembers * nblocks, .nblocks = nblocks};
}

void expr_fini(struct expr_store *store) {
    free(store->nodes);
    free(store->index);
}

static const struct expr_node *node_of(const struct expr_store *store, int32_t e) {
    return e < store->nleaves ? NULL : &store->nodes[e - store->nleaves];
}

static uint32_t hash_of(const struct expr_node *node) {
    uint64_t h = (uint64_t)(uint32_t)node->left << 32 | (uint32_t)node->right;
    h = (h + node->rounded) * 0x9e3779b97f4a7c15u; /* 2^64 divided by the golden ratio */
    return (uint32_t)(h >> 32);
}

/* Finds the entry of a node in the table, or the free entry where the node belongs. */
static int32_t *place_of(const struct expr_store *store, const struct expr_node *node) {
    for (uint32_t i = hash_of(node);; i++) {
        int32_t *place = &store->index[i & (store->index_size - 1)];
        if (*place < 0)
            return place;
        const struct expr_node *other = &store->nodes[*place];
        if (other->left == node->left && other->right == node->right && other->rounded == node->rounded)
            return place;
    }
}

/* Doubles the room for nodes. The table has twice as many entries, so it is never more than half full. */
static bool store_double(struct expr_store *store) {
    int32_t room = store->room > 0 ? 2 * store->room : 256;
    struct expr_node *nodes = realloc(store->nodes, (size_t)room * sizeof(*nodes));
    if (nodes == NULL)
        return false;
    store->nodes = nodes;
    int32_t *index = malloc(2 * (size_t)room * sizeof(*index));
    if (index == NULL)
        return false;
    free(store->index);
    store->index = index;
    store->index_size = 2 * (uint32_t)room;
    store->room = room;
    memset(index, 0xff, store->index_size * sizeof(*index)); /* All bytes 0xff make every entry −1: free. */
    for (int32_t i = 0; i < store->nnodes; i++)
        *place_of(store, &nodes[i]) = i;
    return true;
}

static int32_t find_or_add(struct expr_store *store, struct expr_node node) {
    if (store->nnodes == store->room && !store_double(store))
        return EXPR_NO_MEMORY;
    int32_t *place = place_of(store, &node);
    if (*place < 0) {
        store->nodes[store->nnodes] = node;
        *place = store->nnodes++;
    }
    return store->nleaves + *place;
}

int32_t expr_add(struct expr_store *store, int32_t a, int32_t b, bool rounded) {
    int64_t nleaves = (int64_t)expr_nleaves(store, a) + expr_nleaves(store, b);
    struct expr_node node = {a < b ? a : b, a < b ? b : a, nleaves < INT32_MAX ? (int32_t)nleaves : INT32_MAX, rounded};
    return find_or_add(store, node);
}

int32_t expr_finish(struct expr_store *store, int32_t a) {
    return find_or_add(store, (struct expr_node){a, EXPR_NONE, expr_nleaves(store, a), true});
}

bool expr_is_finish(const struct expr_store *store, int32_t e) {
    const struct expr_node *node = node_of(store, e);
    return node != NULL && node->right == EXPR_NONE;
}

/* The member whose contribution a leaf is. −1: the expression is no leaf. */
static int member_of(const struct expr_store *store, int32_t e) { return e < store->nleaves ? e / store->nblocks : -1; }

/* Looks at the additions, from the last one to the first. Each addition must add the contribution of the member with the next lower
 * number. */
bool expr_is_in_order(const struct expr_store *store, int32_t e) {
    e = node_of(store, e)->left; /* The sum that is finished. */
    for (int member = expr_nleaves(store, e) - 1; member > 0; member--) {
        const struct expr_node *sum = node_of(store, e);
        bool swapped = sum != NULL && member_of(store, sum->left) != member;
        int32_t added = sum == NULL ? e : swapped ? sum->right : sum->left;
        if (sum == NULL || sum->rounded || member_of(store, added) != member)
            return false;
        e = swapped ? sum->left : sum->right;
    }
    return member_of(store, e) == 0;
}

int32_t expr_nleaves(const struct expr_store *store, int32_t e) {
    const struct expr_node *node = node_of(store, e);
    return node == NULL ? 1 : node->nleaves;
}

int expr_list_leaves(const struct expr_store *store, int32_t e, int32_t *leaves, int room) {
    /* Walks down the tree. The end of the array serves as the stack of nodes that are still to be visited. */
    int nleaves = 0, top = room;
    if (room > 0)
        leaves[--top] = e;
    while (top < room) {
        const struct expr_node *node = node_of(store, e = leaves[top++]);
        if (node == NULL)
            leaves[nleaves++] = e;
        if (node != NULL && node->right != EXPR_NONE && top > nleaves)
            leaves[--top] = node->right;
        if (node != NULL && top > nleaves)
            leaves[--top] = node->left;
    }
    return nleaves;
}

/* Appends to the text. Returns whether there is room for more. */
static bool append(char **text, size_t *bytes, const char *piece) {
    int length = snprintf(*text, *bytes, "%s", piece);
    size_t used = (size_t)length < *bytes ? (size_t)length : *bytes - 1;
    *text += used;
    *bytes -= used;
    return *bytes > 1;
}

/* Prints an expression. For the reader, sums stand in front of single contributions. */
static bool print_into(const struct expr_store *store, int32_t e, char **text, size_t *bytes) {
    const struct expr_node *node = node_of(store, e);
    if (node == NULL) {
        char number[16];
        snprintf(number, sizeof(number), "%d", e / store->nblocks);
        return append(text, bytes, number);
    }
    bool swap = node->left < store->nleaves && node->right >= store->nleaves;
    int32_t first = swap ? node->right : node->left, second = swap ? node->left : node->right;
    return append(text, bytes, node->rounded ? "(" : "") && print_into(store, first, text, bytes) &&
           (second == EXPR_NONE || (append(text, bytes, "+") && print_into(store, second, text, bytes))) &&
           append(text, bytes, node->rounded ? ")" : "");
}

void expr_print(const struct expr_store *store, int32_t e, char *text, size_t bytes) {
    if (!print_into(store, e, &text, &bytes))
        memcpy(text - 3, "...", 3);
}
