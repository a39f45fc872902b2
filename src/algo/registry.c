/* SPDX-License-Identifier: Apache-2.0
 *
 * The algorithms collet knows: one line each. Printers, tests and the tuner walk this list.
 * To add one: write <collective>_<name>.c with a function <collective>_<name>_build(), and add its line.
 */
#include "program/program.h"

#include <string.h>

/* X(COLLECTIVE, collective, name as in COLLET_ALGO, largest nranks or 0, one line about it) */
#define ALGORITHMS(X)                                                                                                  \
    X(ALLREDUCE, allreduce, ring, 0, "a slice a rank goes round the ring twice: to be reduced, then to be known")      \
    X(ALLREDUCE, allreduce, tree, 0, "two complementary binary trees, each reduces and broadcasts one half")           \
    X(ALLREDUCE, allreduce, oneshot, 64, "everyone sends everything to everyone and reduces by itself")                \
    X(ALLREDUCE, allreduce, twoshot, 256, "direct reduce-scatter, then direct all-gather")                             \
    X(REDUCE, reduce, chain, 0, "a pipeline that ends at the root")                                                    \
    X(REDUCE, reduce, tree, 0, "two complementary binary trees below the root, each reduces one half")                 \
    X(BROADCAST, broadcast, chain, 0, "a pipeline that starts at the root")                                            \
    X(BROADCAST, broadcast, tree, 0, "two complementary binary trees below the root, each carries one half")           \
    X(ALLGATHER, allgather, ring, 0, "every block travels round the ring once")                                        \
    X(ALLGATHER, allgather, direct, 256, "everyone sends its block to everyone")                                       \
    X(REDUCESCATTER, reducescatter, ring, 0, "every block goes round the ring, is reduced on its way, comes home")     \
    X(REDUCESCATTER, reducescatter, direct, 256, "everyone sends each block to its owner, who reduces them all")       \
    X(ALLTOALL, alltoall, direct, 0, "a worker for each distance: one block to rank+d, one from rank-d")               \
    X(SEND, send, direct, 0, "one step: into the connection to the peer")                                              \
    X(RECV, recv, direct, 0, "one step: out of the connection from the peer")

#define X(COLLECTIVE, collective, name, max_ranks, about) void collective##_##name##_build(struct prog *prog);
ALGORITHMS(X)
#undef X

const struct algorithm algorithms[] = {
#define X(COLLECTIVE, collective, name, max_ranks, about)                                                              \
    {#name, PROG_##COLLECTIVE, collective##_##name##_build, max_ranks, about},
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
