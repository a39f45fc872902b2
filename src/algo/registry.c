/* SPDX-License-Identifier: Apache-2.0
 *
 * The algorithms collet knows: one line each. Printers, tests and the tuner walk this list.
 * To add one: write <collective>_<name>.c with a function <collective>_<name>_build(), and add its line.
 */
#include "algo/rails.h"

#include <string.h>

/* Which shapes an algorithm takes, and the words for it. A limit of ranks stands where steps or connections grow with
 * their number. */
static bool up_to_64(const struct prog_shape *shape) { return shape->nranks <= 64; }
static bool up_to_256(const struct prog_shape *shape) { return shape->nranks <= 256; }

#define ANYWHERE NULL, "any number of ranks"
#define UP_TO_64 up_to_64, "up to 64 ranks"
#define UP_TO_256 up_to_256, "up to 256 ranks"
#define ON_RAILS rails_apply, "2 or more nodes of equally many ranks, 2 to 64"

/* X(COLLECTIVE, collective, name as in COLLET_ALGO, where, one line about it) */
#define ALGORITHMS(X)                                                                                                  \
    X(ALLREDUCE, allreduce, ring, ANYWHERE, "a slice a rank goes round the ring twice: to be reduced, then known")     \
    X(ALLREDUCE, allreduce, tree, ANYWHERE, "two complementary binary trees, each reduces and broadcasts one half")    \
    X(ALLREDUCE, allreduce, oneshot, UP_TO_64, "everyone sends everything to everyone and reduces by itself")          \
    X(ALLREDUCE, allreduce, twoshot, UP_TO_256, "direct reduce-scatter, then direct all-gather")                       \
    X(ALLREDUCE, allreduce, halving, ANYWHERE, "recursive halving, then doubling: a binomial tree for each slice")     \
    X(ALLREDUCE, allreduce, hier, ON_RAILS, "directly inside nodes, a ring for each rail between nodes")               \
    X(ALLREDUCE, allreduce, hiertree, ON_RAILS, "directly inside nodes, a double tree for each rail between nodes")    \
    X(REDUCE, reduce, chain, ANYWHERE, "a pipeline that ends at the root")                                             \
    X(REDUCE, reduce, tree, ANYWHERE, "two complementary binary trees below the root, each reduces one half")          \
    X(BROADCAST, broadcast, chain, ANYWHERE, "a pipeline that starts at the root")                                     \
    X(BROADCAST, broadcast, tree, ANYWHERE, "two complementary binary trees below the root, each carries one half")    \
    X(ALLGATHER, allgather, ring, ANYWHERE, "every block travels round the ring once")                                 \
    X(ALLGATHER, allgather, direct, UP_TO_256, "everyone sends its block to everyone")                                 \
    X(ALLGATHER, allgather, pat, ANYWHERE, "every block goes down a binomial tree of its own, far first")              \
    X(REDUCESCATTER, reducescatter, ring, ANYWHERE, "every block goes round, is reduced on its way, comes home")       \
    X(REDUCESCATTER, reducescatter, direct, UP_TO_256, "everyone sends each block to its owner, who reduces them all") \
    X(REDUCESCATTER, reducescatter, pat, ANYWHERE, "every block is reduced up a binomial tree of its own, near first") \
    X(ALLTOALL, alltoall, direct, ANYWHERE, "a worker for each distance: one block to rank+d, one from rank-d")        \
    X(ALLTOALL, alltoall, hier, ON_RAILS, "blocks change rails inside the node, then nodes inside the rail")           \
    X(SEND, send, direct, ANYWHERE, "one step: into the connection to the peer")                                       \
    X(RECV, recv, direct, ANYWHERE, "one step: out of the connection from the peer")

#define X(COLLECTIVE, collective, name, where, about) void collective##_##name##_build(struct prog *prog);
ALGORITHMS(X)
#undef X

const struct algorithm algorithms[] = {
#define X(COLLECTIVE, collective, name, where, about)                                                                  \
    {#name, PROG_##COLLECTIVE, collective##_##name##_build, where, about},
    ALGORITHMS(X)
#undef X
        {.name = NULL},
};

const struct algorithm *algorithm_find(enum prog_collective collective, const char *name) {
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        if (a->collective == collective && strcmp(a->name, name) == 0)
            return a;
    return NULL;
}
