/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes of equally many ranks as a grid: a row is a node, a column is a rail.
 *
 *                  rail 0    rail 1    rail 2
 *      node 0     ┌ rank ──── rank ──── rank ┐       in a row all talk to all, through memory (or a GPU link)
 *      node 1     ├ rank ──── rank ──── rank ┤       in a column all talk to all, over the network; a rank has a
 *      node 2     └ rank ──── rank ──── rank ┘       connection to one rank of every other node, not to all of them
 *
 * Rail i is the i-th rank of each node in the order of the shape. The word is that of clusters in which the i-th
 * network adapters of all hosts share a switch.
 */
#ifndef COLLET_ALGO_MANY_RAILS_H
#define COLLET_ALGO_MANY_RAILS_H

#include "program/program.h"
#include "seams/many.h"

#define RAILS_MAX PROG_NODE_RANKS_MAX

struct rails {
    int nnodes, nrails;
    int node, rail; /* Node and rail of the program's rank */
};

/* If nodes have different numbers of ranks, all ranks count as one node. */
struct rails rails_of(const struct prog *prog);

/* The rank on this node and rail. Both numbers wrap around. */
int rails_rank(const struct prog *prog, const struct rails *rails, int node, int rail);

/* Writes the mates of the program's rank, which are the other ranks of its node, to mate[0 … nrails−2], in the order of rails. nrails must
 * be at most RAILS_MAX. */
void rails_list_mates(const struct prog *prog, const struct rails *rails, int mate[RAILS_MAX]);

#endif
