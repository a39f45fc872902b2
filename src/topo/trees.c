/* SPDX-License-Identifier: Apache-2.0
 *
 * Double binary trees.
 *
 * Number positions 1 … n in order along a binary tree. A position with k trailing zero bits is k levels above leaves:
 *
 *                    8                        n = 11: positions beyond n are missing; where a right child would be
 *              ╱          ╲                   beyond, the next lower one takes its place (10 instead of 12)
 *          4                  10
 *        ╱   ╲              ╱    ╲            odd positions are leaves, even ones are interior
 *      2       6           9      11
 *     ╱ ╲     ╱ ╲
 *    1   3   5   7
 *
 * In tree 0 rank r stands at position r + 1; in tree 1 everyone moves one position down, and the first goes to the end.
 * An even position becomes odd: a rank that is interior in one tree is a leaf in the other. So each tree can carry half of the
 * data, and every rank sends and receives about as much as any other.
 *
 * Depth: floor(log2 n) + 1 positions from the root to the deepest leaf.
 *
 * Over several nodes, a tree has two storeys, so that only one edge of a tree leads to each node from above:
 *
 *      between nodes    head 2           the heads, one of each node, are ranks of a double tree
 *                      ╱      ╲
 *                  head 0    head 1 ─ a ─ b ─ c       on a node: the other ranks below the head, in a chain where each
 *                    │                                has a link of its own to the next, else in a double tree
 *                    a …
 * After: P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
 * Parallel Computing 35 (2009).
 */
#include "topo/trees.h"

static int position_of(int n, int which, int rank) { return which == 0 || rank > 0 ? rank + 1 - which : n; }
static int rank_at(int n, int which, int position) { return (position - 1 + which) % n; }

/* The lowest set bit of a position. It is half of the distance between neighbours on the level of this position. */
static int level_of(int position) { return position & -position; }

static int parent_of(int n, int position) {
    int level = level_of(position);
    int regular = (position - level) | (2 * level);
    if (regular <= n)
        return regular;
    /* The regular parent does not exist: this subtree is the right child of the position just below it. */
    return position - level;
}

static int right_child_of(int n, int position) {
    for (int step = level_of(position) / 2; step > 0; step /= 2)
        if (position + step <= n)
            return position + step;
    return 0;
}

struct tree_place tree_place(int n, int which, int rank) {
    struct tree_place place = {.parent = -1, .child = {-1, -1, -1}, .nchildren = 0};
    int position = position_of(n, which, rank);
    int parent = parent_of(n, position);
    int left = position - level_of(position) / 2;
    int right = right_child_of(n, position);
    if (parent > 0)
        place.parent = rank_at(n, which, parent);
    if (left < position)
        place.child[place.nchildren++] = rank_at(n, which, left);
    if (right > 0)
        place.child[place.nchildren++] = rank_at(n, which, right);
    return place;
}

/* The place of a rank in a double tree with a given root. The root is above the double tree of all other ranks. The top of
 * that tree is the root's only child, in both trees. If n is 1, the root has no child. */
static struct tree_place tree_place_below(int n, int which, int rank, int root) {
    struct tree_place place = {.parent = -1, .child = {-1, -1, -1}, .nchildren = 0};
    int others = n - 1;
    if (rank == root) {
        /* The top of a tree is the largest power of two that is at most n: the position with only one bit. */
        int top = 1;
        while (2 * top <= others)
            top *= 2;
        if (others > 0)
            place.child[place.nchildren++] = (root + 1 + rank_at(others, which, top)) % n;
        return place;
    }
    /* The other ranks are numbered from 0, beginning with the rank after the root. */
    place = tree_place(others, which, (rank - root - 1 + n) % n);
    place.parent = place.parent < 0 ? root : (root + 1 + place.parent) % n;
    for (int i = 0; i < place.nchildren; i++)
        place.child[i] = (root + 1 + place.child[i]) % n;
    return place;
}

/* ---- over a shape ---- */

/* A rank's node, and how far behind the node's head the rank stands. The ranks of a node are counted in a circle. */
struct spot {
    struct prog_span span;
    int behind;
};

/* The position of a node's head: the root on the root's node, otherwise the first rank of the node. */
static int head_of(const struct prog_shape *shape, struct prog_span span, int root) {
    int position = root < 0 ? -1 : prog_shape_position(shape, root);
    return position >= span.first && position < span.first + span.count ? position : span.first;
}

static int rank_behind(const struct prog_shape *shape, struct prog_span span, int root, int behind) {
    int from_start = head_of(shape, span, root) - span.first + behind;
    return prog_shape_rank(shape, span.first + from_start % span.count);
}

static struct spot spot_of(const struct prog_shape *shape, int rank, int root) {
    int position = prog_shape_position(shape, rank);
    struct prog_span span = prog_shape_span(shape, position);
    return (struct spot){span, (position - head_of(shape, span, root) + span.count) % span.count};
}

static struct tree_place chain_place(int n, int at) {
    struct tree_place place = {.parent = at - 1, .child = {at + 1, -1, -1}, .nchildren = at + 1 < n ? 1 : 0};
    return place;
}

/* The place of a rank in the tree inside its node, whose root is the head. */
static struct tree_place place_on_node(const struct prog_shape *shape, int which, struct spot spot, int root) {
    int n = spot.span.count;
    struct tree_place place = shape->chains ? chain_place(n, spot.behind) : tree_place_below(n, which, spot.behind, 0);
    if (place.parent >= 0)
        place.parent = rank_behind(shape, spot.span, root, place.parent);
    for (int i = 0; i < place.nchildren; i++)
        place.child[i] = rank_behind(shape, spot.span, root, place.child[i]);
    return place;
}

/* The place of a head in the tree over heads. */
static struct tree_place place_among_heads(const struct prog_shape *shape, int which, int node, int root) {
    struct tree_place place = tree_place(shape->nnodes, which, node);
    if (root >= 0) {
        int root_node = prog_shape_span(shape, prog_shape_position(shape, root)).node;
        place = tree_place_below(shape->nnodes, which, node, root_node);
    }
    if (place.parent >= 0)
        place.parent = rank_behind(shape, prog_shape_node(shape, place.parent), root, 0);
    for (int i = 0; i < place.nchildren; i++)
        place.child[i] = rank_behind(shape, prog_shape_node(shape, place.child[i]), root, 0);
    return place;
}

/* The place of a rank in the two-storey tree of the file's head. root −1: the caller names no root. */
static struct tree_place place_over_nodes(const struct prog_shape *shape, int which, int rank, int root) {
    struct spot spot = spot_of(shape, rank, root);
    struct tree_place inner = place_on_node(shape, which, spot, root);
    if (spot.behind > 0)
        return inner;
    struct tree_place place = place_among_heads(shape, which, spot.span.node, root);
    for (int i = 0; i < inner.nchildren; i++)
        place.child[place.nchildren++] = inner.child[i];
    return place;
}

static bool is_flat(const struct prog_shape *shape) { return shape->nnodes == 1 && !shape->chains; }

/* Replaces positions by ranks. */
static struct tree_place with_ranks(const struct prog_shape *shape, struct tree_place place) {
    if (place.parent >= 0)
        place.parent = prog_shape_rank(shape, place.parent);
    for (int i = 0; i < place.nchildren; i++)
        place.child[i] = prog_shape_rank(shape, place.child[i]);
    return place;
}

struct tree_place tree_of(const struct prog_shape *shape, int which, int rank) {
    if (!is_flat(shape))
        return place_over_nodes(shape, which, rank, -1);
    return with_ranks(shape, tree_place(shape->nranks, which, prog_shape_position(shape, rank)));
}

struct tree_place tree_below(const struct prog_shape *shape, int which, int rank, int root) {
    int position = prog_shape_position(shape, rank), root_position = prog_shape_position(shape, root);
    if (!is_flat(shape))
        return place_over_nodes(shape, which, rank, root);
    return with_ranks(shape, tree_place_below(shape->nranks, which, position, root_position));
}
