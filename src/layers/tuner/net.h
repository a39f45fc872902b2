/* SPDX-License-Identifier: Apache-2.0
 *
 * Routes: which links of the topology graph a message crosses, from one rank to another. Communicators and forecasts use this code.
 *
 *      GPU 0 ═▶ NVSwitch ═▶ GPU 3                                  in a host: the best path (topo/probe/paths.h)
 *      GPU 1 ─▶ PCI ─▶ NIC 0 ─▶ NET │ NET ─▶ NIC 0 ─▶ PCI ─▶ GPU 8  between hosts: out of the one, into the other
 *
 * Between hosts a message takes the NICs to which its channel's ring ties the connection (topo_nic_towards()); without rings, it takes
 * the nearest ones. Between host ranks of one host a route has no links: the class of the route says what they share. A link of unknown
 * speed limits nothing, and is left out. Ranks of one GPU share its memory, which counts as a link, though no graph has it.
 *
 * The ranks are those of a communicator. Or, if all hosts are alike, they are those of one host, which stands for all.
 */
#ifndef COLLET_LAYERS_TUNER_NET_H
#define COLLET_LAYERS_TUNER_NET_H

#include "base/config.h"
#include "base/memory.h"
#include "layers/tuner/sim.h"
#include "topo/probe/search.h"

/* The way in which two ranks of one host reach each other. */
enum net_reach {
    NET_SAME,     /* Both are on one GPU, or are one rank. */
    NET_NEAR,     /* Both reach the same memory. */
    NET_FAR,      /* Both reach the same memory, but their CPUs are far from each other. */
    NET_MEASURED, /* Both reach the same memory, on a host whose speed was measured. */
    NET_REMOTE,   /* Both reach each other only by messages over a wire. */
};

/* The facts from which routes are made. */
struct net_source {
    const struct topo *topo;
    const struct topo_rings *rings; /* NULL: there are no rings. */
    int nranks;                     /* Number of ranks whose routes are wanted. */
    /* Number of equal hosts. 1: `nranks` counts all ranks. Above 1: `nranks` counts the ranks of host 0, which stands for all. */
    int nhosts;
    /* [nranks]: the rank's number in the rings. With several equal hosts, the ranks of host 1 follow. */
    const int *rank_of;
    const int *place; /* [nranks]: the node of the graph where the rank is. */
    bool gpu;         /* Ranks are on GPUs. The graph need not have these GPUs. */
    enum net_reach (*reach)(const void *context, int from, int to);
    /* Returns which payloads one host rank lends another. NULL: none. */
    struct sim_loan (*loan)(const void *context, int from, int to);
    const void *context;
};

struct net_path {
    enum link_class class;
    struct sim_loan loan;
    int first, nlinks; /* The links of the path are net.links[first … first + nlinks − 1]. */
};

struct net {
    const struct topo *topo;
    const struct topo_rings *rings;
    int nranks, nhosts, nrings, nnics;
    bool gpu;
    struct arena arena; /* The arena that owns the arrays, except `links`. */
    /* rank_of: as in struct net_source. host_of[nranks]: number of the rank's host in the graph. */
    int *rank_of, *host_of;
    int *place; /* As in struct net_source. */
    /* [from · nranks + to]: path inside a host. If the two ranks are on different hosts, only its class is set. */
    struct net_path *inside;
    /* [rank · nnics + number of the NIC on its host]: `out` is the path from the rank to the network, `in` the path from the network to
     * the rank. */
    struct net_path *out, *in;
    int *nearest;         /* [rank]: number of its nearest NIC on its host. −1: there is none. */
    int *nics;            /* [node of the graph]: number of the NIC on its host. −1: the node is no NIC. */
    int *number_of;       /* [link of the graph]: its number in this net. −1: no route crosses it. */
    int *link_of, nlinks; /* [number]: the link of the graph. Below 0: the memory of the GPU of rank −1 − link. */
    double *link_gbps;    /* [number]: bandwidth. 0: memory of a GPU, see sim_link_gbps(). */
    /* [rank]: the number of its GPU's memory. −1: no route crosses this memory, or it belongs to a lower rank. */
    int *memory_of;
    int *links, nlinks_listed, room;
};

/* Makes the routes of a source. The graph and the rings must outlive the result. net_destroy() frees the result. */
enum collet_result net_create(const struct net_source *source, struct net **net_p);
void net_destroy(struct net *net); /* `net` may be NULL. */

/* The route of a message, as sim_machine.route. `context` is a struct net. Where several hosts are equal, ranks are numbered
 * host by host. */
void net_route(const void *context, int channel, int from, int to, struct sim_route *route);

/* Returns which payloads processes of one host lend each other, if all ranks are configured like this. */
struct sim_loan net_loan_of_processes(const struct config *config);

/* Changes the routes as if all buffers were in memory of collet_mem_alloc(), which processes of a host read by address.
 * Ranks on GPUs have another rule: net_lent_from(). */
void net_lend_by_address(struct net *net);

/* GPUs: the minimum bytes of a payload in a window that is lent, if all ranks are configured like this. 0: none is lent. */
uint32_t net_lent_from(const struct config *config);

/* Has the way between any two ranks this class? */
bool net_has_class(const struct net *net, enum link_class class);

/* Writes the name of a link, such as "PCI GPU 0 ▶ PCI 0000:10:00.0" or "memory of GPU 0". Returns `text`. */
const char *net_link_name(const struct net *net, int link, char *text, size_t bytes);
enum topo_medium net_link_medium(const struct net *net, int link);

#endif
