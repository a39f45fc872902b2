/* SPDX-License-Identifier: Apache-2.0
 *
 * The two tables of collet: all collectives, and all algorithms. Other code generates its lists from them.
 *
 *      a new algorithm     its file src/algo/<collective>_<name>.c (or in src/algo/many), and one line of ALGORITHMS
 *      a new collective    one line of PROG_COLLECTIVES, its prototype in collet.h, and an algorithm
 *
 * Read next: program.h, ../algo/registry.c.
 */
#ifndef COLLET_PROGRAM_REGISTRY_H
#define COLLET_PROGRAM_REGISTRY_H

/* X(UPPER, lower, IN, OUT, REDUCES or COPIES, root, in place). For each of the last five columns program.h has an enum that explains the
 * words of the column. Send and receive stand behind all collectives. */
#define PROG_COLLECTIVES(X)                                                                                            \
    X(ALLREDUCE, allreduce, WHOLE, WHOLE, REDUCES, NO_ROOT, SAME_PLACE)                                                \
    X(ALLGATHER, allgather, SINGLE, PER_RANK, COPIES, NO_ROOT, IN_IS_OWN_BLOCK)                                        \
    X(REDUCESCATTER, reducescatter, PER_RANK, SINGLE, REDUCES, NO_ROOT, OUT_IS_OWN_BLOCK)                              \
    X(ALLTOALL, alltoall, PER_RANK, PER_RANK, COPIES, NO_ROOT, APART)                                                  \
    X(BROADCAST, broadcast, WHOLE, WHOLE, COPIES, FROM_ROOT, SAME_PLACE)                                               \
    X(REDUCE, reduce, WHOLE, WHOLE, REDUCES, TO_ROOT, SAME_PLACE)                                                      \
    X(GATHER, gather, SINGLE, PER_RANK, COPIES, TO_ROOT, IN_IS_OWN_BLOCK)                                              \
    X(SCATTER, scatter, PER_RANK, SINGLE, COPIES, FROM_ROOT, OUT_IS_OWN_BLOCK)                                         \
    X(BARRIER, barrier, NONE, NONE, REDUCES, NO_ROOT, APART)                                                           \
    X(ALLGATHERV, allgatherv, SINGLE, COUNTS, COPIES, NO_ROOT, IN_IS_OWN_BLOCK)                                        \
    X(REDUCESCATTERV, reducescatterv, COUNTS, SINGLE, REDUCES, NO_ROOT, OUT_IS_OWN_BLOCK)                              \
    X(ALLTOALLV, alltoallv, COUNTS, COUNTS, COPIES, NO_ROOT, APART)                                                    \
    X(SEND, send, WHOLE, NONE, COPIES, PEER, APART)                                                                    \
    X(RECV, recv, NONE, WHOLE, COPIES, PEER, APART)

/* X(COLLECTIVE, collective, name in COLLET_ALGO, where it works, connections, order of sums, description). algo/registry.c defines
 * the words for `where it works`. enum prog_connects defines the words for `connections`, and enum prog_order those for the order. */
#define ALGORITHMS(X)                                                                                                  \
    X(ALLREDUCE, allreduce, ring, ANYWHERE, TO_FEW, ANY_ORDER,                                                         \
      "one slice per rank goes round the ring twice: to be reduced, then known")                                       \
    X(ALLREDUCE, allreduce, tree, ANYWHERE, TO_FEW, ANY_ORDER,                                                         \
      "two complementary binary trees, each reduces and broadcasts one half")                                          \
    X(ALLREDUCE, allreduce, oneshot, UP_TO_64, TO_ALL, IN_RANK_ORDER,                                                  \
      "everyone sends everything to everyone and reduces by itself")                                                   \
    X(ALLREDUCE, allreduce, twoshot, UP_TO_256, TO_ALL_TWICE, IN_RANK_ORDER,                                           \
      "direct reduce-scatter, then direct all-gather")                                                                 \
    X(ALLREDUCE, allreduce, nvls, MANY_UP_TO_256, TO_ALL_TWICE, SWITCH_ORDER,                                          \
      "two-shot whose slices NVSwitches sum and store, in windows of GPUs")                                            \
    X(ALLREDUCE, allreduce, halving, MANY, TO_MANY, ANY_ORDER,                                                         \
      "recursive halving, then doubling: a binomial tree for each slice")                                              \
    X(ALLREDUCE, allreduce, doubling, ANYWHERE, TO_FEW, ANY_ORDER,                                                     \
      "at each of log2 n levels two ranks swap sums of all below")                                                     \
    X(ALLREDUCE, allreduce, hier, ON_RAILS, TO_MATES, ANY_ORDER,                                                       \
      "directly inside nodes, a ring for each rail between nodes")                                                     \
    X(ALLREDUCE, allreduce, hiertree, ON_RAILS, TO_MATES, ANY_ORDER,                                                   \
      "directly inside nodes, a double tree for each rail between nodes")                                              \
    X(REDUCE, reduce, chain, ANYWHERE, TO_FEW, ANY_ORDER, "a pipeline that ends at the root")                          \
    X(REDUCE, reduce, tree, ANYWHERE, TO_FEW, ANY_ORDER,                                                               \
      "two complementary binary trees below the root, each reduces one half")                                          \
    X(REDUCE, reduce, direct, UP_TO_256, TO_ALL, IN_RANK_ORDER, "every rank sends to the root, and the root reduces")  \
    X(BROADCAST, broadcast, chain, ANYWHERE, TO_FEW, ANY_ORDER, "a pipeline that starts at the root")                  \
    X(BROADCAST, broadcast, tree, ANYWHERE, TO_FEW, ANY_ORDER,                                                         \
      "two complementary binary trees below the root, each carries one half")                                          \
    X(BROADCAST, broadcast, direct, UP_TO_256, TO_ALL, ANY_ORDER, "the root sends to every rank")                      \
    X(ALLGATHER, allgather, ring, ANYWHERE, TO_FEW, ANY_ORDER, "every block travels round the ring once")              \
    X(ALLGATHER, allgather, direct, UP_TO_256, TO_ALL, ANY_ORDER, "everyone sends its block to everyone")              \
    X(ALLGATHER, allgather, pat, MANY, TO_MANY, ANY_ORDER,                                                             \
      "every block goes down a binomial tree of its own, far first")                                                   \
    X(ALLGATHER, allgather, bruck, ANYWHERE, TO_FEW, ANY_ORDER,                                                        \
      "log2 n messages, each doubles the blocks that a rank knows")                                                    \
    X(REDUCESCATTER, reducescatter, ring, ANYWHERE, TO_FEW, ANY_ORDER,                                                 \
      "every block goes round, is reduced on its way, comes home")                                                     \
    X(REDUCESCATTER, reducescatter, direct, UP_TO_256, TO_ALL, IN_RANK_ORDER,                                          \
      "every rank sends each block to its owner, and the owner reduces them")                                          \
    X(REDUCESCATTER, reducescatter, pat, MANY, TO_MANY, ANY_ORDER,                                                     \
      "every block is reduced up a binomial tree of its own, near first")                                              \
    X(ALLTOALL, alltoall, direct, ANYWHERE, TO_ALL, ANY_ORDER,                                                         \
      "a worker for each distance: one block to rank+d, one from rank-d")                                              \
    X(ALLTOALL, alltoall, hier, ON_RAILS, TO_MANY, ANY_ORDER,                                                          \
      "blocks change rails inside the node, then nodes inside the rail")                                               \
    X(ALLTOALL, alltoall, bruck, ANYWHERE, TO_FEW, ANY_ORDER,                                                          \
      "log2 n messages: a block travels by the bits of its distance")                                                  \
    X(GATHER, gather, direct, ANYWHERE, TO_ALL, ANY_ORDER, "every rank sends its block to the root")                   \
    X(GATHER, gather, tree, MANY, TO_FEW, ANY_ORDER,                                                                   \
      "blocks go up a binomial tree, those of a subtree in one message")                                               \
    X(SCATTER, scatter, direct, ANYWHERE, TO_ALL, ANY_ORDER, "the root sends every rank its block")                    \
    X(SCATTER, scatter, tree, MANY, TO_FEW, ANY_ORDER,                                                                 \
      "blocks go down a binomial tree, those of a subtree in one message")                                             \
    X(BARRIER, barrier, doubling, ANYWHERE, TO_FEW, ANY_ORDER, "an allreduce by recursive doubling, of nothing")       \
    X(BARRIER, barrier, oneshot, UP_TO_64, TO_ALL, ANY_ORDER, "everyone tells everyone")                               \
    X(BARRIER, barrier, direct, UP_TO_64, TO_MANY, IN_RANK_ORDER, "all tell rank 0, and rank 0 tells all")             \
    X(ALLGATHERV, allgatherv, ring, ANYWHERE, TO_FEW, ANY_ORDER, "allgather ring, of blocks of any lengths")           \
    X(ALLGATHERV, allgatherv, direct, UP_TO_256, TO_ALL, ANY_ORDER, "allgather direct, of blocks of any lengths")      \
    X(ALLGATHERV, allgatherv, bruck, ANYWHERE, TO_FEW, ANY_ORDER, "allgather bruck, of blocks of any lengths")         \
    X(REDUCESCATTERV, reducescatterv, ring, ANYWHERE, TO_FEW, ANY_ORDER,                                               \
      "reducescatter ring, of blocks of any lengths")                                                                  \
    X(REDUCESCATTERV, reducescatterv, direct, UP_TO_256, TO_ALL, IN_RANK_ORDER,                                        \
      "reducescatter direct, of blocks of any lengths")                                                                \
    X(ALLTOALLV, alltoallv, direct, ANYWHERE, TO_ALL, ANY_ORDER,                                                       \
      "a worker per peer and direction, with as many rounds as it needs")                                              \
    X(SEND, send, direct, ANYWHERE, TO_ALL, ANY_ORDER, "one step: into the connection to the peer")                    \
    X(RECV, recv, direct, ANYWHERE, TO_ALL, ANY_ORDER, "one step: out of the connection from the peer")

#endif
