/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings and trees of a job over the graph of its hosts. See search.c for how they are found.
 *
 *      ring 0, three hosts of four GPUs, NIC 0 next to GPUs 0 and 1:
 *
 *      host 0                       host 1                       host 2
 *      0 ▶ 2 ▶ 3 ▶ 1 ▶ NIC 0 ═════▶ 4 ▶ 6 ▶ 7 ▶ 5 ▶ NIC 0 ═════▶ 8 ▶ 10 ▶ 11 ▶ 9 ▶ NIC 0 ═════▶ host 0
 *      └────────────── a route: how a ring crosses a host
 *
 *      the trees of ring 0: along each route a chain; the ranks at the beginning of the chains, heads, are double trees
 *
 *                4                     tree 0 of the heads; tree 1 has another shape
 *              ╱ │ ╲
 *            0   6   8                 children: two heads, and the next of the own chain
 */
#ifndef COLLET_TOPO_SEARCH_H
#define COLLET_TOPO_SEARCH_H

#include "topo/topo.h"

#define SEARCH_RINGS_MAX 64

/* How one ring crosses one host. */
struct topo_route {
    int nic_in, nic_out; /* as numbers behind the host's first node; −1 in a job of one host */
    int *order;          /* [nlocal] ranks of the host, as local numbers */
};

/* What binds: the link of which the least is left for one of the rings (or trees) that share it. */
struct topo_bound {
    int link;    /* −1: nothing does: all ranks are in one place */
    double load; /* how many rings' data it carries */
    double gbps; /* of each of them */
};

/* The routes through a host, shared by all hosts that are equal to it. */
struct topo_crossing {
    int host, nlocal, nroutes;
    struct topo_route *routes;
    struct topo_bound ring_bound, tree_bound;
};

struct topo_rings {
    const struct topo *topo; /* borrowed */
    int nranks, nhosts, nrings;
    int *place;              /* [nranks] node of each rank */
    int *host_of, *local_of; /* [nranks] */
    int *first; /* [nhosts + 1]: ranks of host h are ranks_by_host[first[h] … first[h + 1] − 1], by local number */
    int *ranks_by_host;
    struct topo_crossing *crossings;
    int ncrossings;
    int *crossing_of; /* [nhosts] */
    bool zigzag; /* routes of odd hosts are run backwards: there are several hosts, and rings that pass through NICs */
    double ring_gbps; /* what each ring carries in its direction: their sum is the bus bandwidth */
    double tree_gbps; /* what each ring's double tree carries: their sum is the bandwidth of an allreduce */
};

/* Where ranks are if nothing else is said: on the GPUs (by their rank if they all have one, else by dev), or on a host
 * without GPUs `per_host` ranks in blocks over its CPUs; 0: one a CPU. *place_p is the caller's to free(). */
enum collet_result topo_place_ranks(const struct topo *topo, int per_host, int *nranks_p, int **place_p);

/* place[r]: the node of rank r, a GPU or CPU; every host has at least one rank. The graph must outlive the result,
 * which topo_rings_destroy() frees. Equal on all ranks if graph and places are. */
enum collet_result topo_search(const struct topo *topo, int nranks, const int *place, struct topo_rings **rings_p);
void topo_rings_destroy(struct topo_rings *rings);

/* The route of a ring through a host. Where rings come in by one NIC and go out by another, routes of odd hosts are to
 * be read backwards (nic_in and nic_out swapped too), so that they stay on their rails. */
const struct topo_route *topo_route_of(const struct topo_rings *rings, int ring, int host, bool *backwards);

/* All ranks in the order of the ring, host by host. */
void topo_ring_order(const struct topo_rings *rings, int ring, int *order);

/* The NIC that a rank uses with a peer of another host along a ring, in both directions: nic_in if both are first on their
 * routes, else nic_out. So neighbours of the ring use the NICs that it passes between them, and whoever else talks stays on
 * one rail, as does the last hop of an odd number of hosts. A node of the rank's host; −1: there is none. */
int topo_nic_towards(const struct topo_rings *rings, int ring, int rank, int peer);

struct topo_tree_place {
    int parent;   /* −1: the root */
    int child[3]; /* other heads first, then the next of the chain */
    int nchildren;
};

/* The place of a rank in tree 0 or 1 of a ring. */
struct topo_tree_place topo_tree_of(const struct topo_rings *rings, int ring, int which, int rank);

#endif
