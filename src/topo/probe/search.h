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
 *      the trees of ring 0: a chain along each route; the first ranks of the chains, the heads, form double trees
 *
 *                4                     tree 0 of the heads; tree 1 has another shape
 *              ╱ │ ╲
 *            0   6   8                 children: two heads, and the next rank of this head's chain
 */
#ifndef COLLET_TOPO_PROBE_SEARCH_H
#define COLLET_TOPO_PROBE_SEARCH_H

#include "base/memory.h"
#include "topo/probe/cross.h"

struct topo_rings {
    const struct topo *topo; /* The caller's graph. It must outlive the rings. */
    struct arena arena;      /* The arena that owns the arrays. */
    int nranks, nhosts, nrings;
    int *place;              /* [nranks]: the node where the rank is. */
    int *host_of, *local_of; /* [nranks]: the rank's host, and its number among the ranks of this host. */
    int *first; /* [nhosts + 1]: ranks of host h are ranks_by_host[first[h] … first[h + 1] − 1], by local number. */
    int *ranks_by_host;
    struct topo_crossing *crossings;
    int ncrossings;
    int *crossing_of; /* [nhosts]: index of the host's crossing. Equal hosts share one. */
    /* Routes of odd hosts run backwards. True if a ring comes in by one NIC of a host and goes out by another. */
    bool zigzag;
    double ring_gbps; /* Bandwidth of each ring in its direction. The sum of all rings is the bus bandwidth. */
    /* Bandwidth of each ring's double tree. The sum of all rings is the bandwidth of an allreduce. */
    double tree_gbps;
};

/* The default places of ranks. Ranks are on the GPUs of a host: in the order of the ranks that a file gives to all GPUs, or
 * else by dev. On a host without GPUs, `per_host` ranks are spread in blocks over its CPUs; 0 means one rank per CPU. The
 * caller frees *place_p. Errors: INVALID_ARGUMENT if per_host is not a multiple of a host's number of GPUs. */
enum collet_result topo_place_ranks(const struct topo *topo, int per_host, int *nranks_p, int **place_p);

/* place[r] is the node of rank r, a GPU or CPU. Every host must have at least one rank. The graph must outlive the result.
 * topo_rings_destroy() frees the result. If graph and places are equal on all ranks, their results are equal. */
enum collet_result topo_search(const struct topo *topo, int nranks, const int *place, struct topo_rings **rings_p);
void topo_rings_destroy(struct topo_rings *rings);

/* The route of a ring through a host. *backwards: read the route backwards, and swap nic_in and nic_out. This happens on odd
 * hosts if rings come in by one NIC and go out by another, so that rings stay on their rails. */
const struct topo_route *topo_route_of(const struct topo_rings *rings, int ring, int host, bool *backwards);

/* The rank with this local number on a host. */
static inline int topo_rank_of(const struct topo_rings *rings, int host, int local) {
    return rings->ranks_by_host[rings->first[host] + local];
}
static inline int topo_nlocal(const struct topo_rings *rings, int host) {
    return rings->first[host + 1] - rings->first[host];
}

/* The NIC that a rank uses with a peer of another host along a ring, in both directions:
 *
 *      both are the first ranks of their routes       nic_in     neighbours of the ring and heads of trees use the NICs that
 *      both are the last ones                         nic_out    the ring passes between them
 *      ranks with one local number on equal hosts     home       no rank's data crosses between CPUs, all NICs are in use
 *      other pairs                                    nic_out
 *
 * Both ends use NICs of one number, so they stay on one rail. The result is a node of the rank's host; −1: none. */
int topo_nic_towards(const struct topo_rings *rings, int ring, int rank, int peer);

/* The NIC that a rank uses for a message on one channel. The peer is on another host, and `receiver` is the rank or the
 * peer. The result is the home of the receiver; both ends use the NIC of this number. The result is a node of the rank's
 * host. −1: the hosts are not equal, or are one host, or have no NIC, or the ranks are on CPUs and not all NICs are homes:
 * each message should then use several NICs. A GPU always has its own NIC, because a NIC farther away cannot write into the
 * GPU's memory. */
int topo_nic_of_message(const struct topo_rings *rings, int channel, int rank, int peer, int receiver);

#endif
