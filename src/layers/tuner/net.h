/* SPDX-License-Identifier: Apache-2.0
 *
 * Routes: which links of the topology graph a message crosses, from one rank to another. Communicators and forecasts ask
 * the same one.
 *
 *      GPU 0 ═▶ NVSwitch ═▶ GPU 3                                  in a host: the best path (topo/probe/paths.h)
 *      GPU 1 ─▶ PCI ─▶ NIC 0 ─▶ NET │ NET ─▶ NIC 0 ─▶ PCI ─▶ GPU 8  between hosts: out of the one, into the other
 *
 * Between hosts a message takes the NICs that its channel's ring ties the connection to (topo_nic_towards()); without rings,
 * the nearest ones. What host ranks of one host share is in the class of the link, not in links. A link whose speed is not
 * known binds nothing, and is left out. Ranks of one GPU share its memory: that is a link too, though no graph has it.
 *
 * The ranks are those of a communicator. Or hosts are alike: then the ranks are those of one host, and it stands for all.
 */
#ifndef COLLET_LAYERS_TUNER_NET_H
#define COLLET_LAYERS_TUNER_NET_H

#include "base/config.h"
#include "base/memory.h"
#include "layers/tuner/sim.h"
#include "topo/probe/search.h"

/* How two ranks of one host reach each other. */
enum net_reach {
    NET_SAME,   /* one GPU */
    NET_NEAR,   /* memory that both reach */
    NET_FAR,    /* by memory, but from CPUs that are far from each other */
    NET_REMOTE, /* only by messages */
};

/* The facts from which routes are made. */
struct net_source {
    const struct topo *topo;
    const struct topo_rings *rings; /* NULL: none */
    int nranks;                     /* whose routes are wanted */
    int nhosts;         /* number of equal hosts; the ranks are those of host 0. 1: the ranks are all ranks */
    const int *rank_of; /* [nranks]: as the rings number it; alike: then those of host 1 */
    const int *place;   /* [nranks]: the node of the graph on which the rank is */
    bool gpu;           /* ranks are on GPUs (which the graph may not have) */
    enum net_reach (*reach)(const void *context, int from, int to);
    struct sim_loan (*loan)(const void *context, int from, int to); /* loans of host ranks; NULL: they do not lend */
    const void *context;
};

struct net_path {
    enum link_class class;
    struct sim_loan loan;
    int first, nlinks; /* in net.links */
};

struct net {
    const struct topo *topo;
    const struct topo_rings *rings;
    int nranks, nhosts, nrings, nnics;
    bool gpu;
    struct arena arena;        /* owns the arrays, except those of links */
    int *rank_of, *host_of;    /* as in the source; [nranks]: host of the graph */
    int *place;                /* as in the source */
    struct net_path *inside;   /* [from · nranks + to]; between hosts the class alone */
    struct net_path *out, *in; /* [rank · nnics + NIC of its host]: to and from the network */
    int *nearest;              /* [rank]: number of its nearest NIC on its host; −1: there is none */
    int *nics;                 /* [node of the graph]: number of the NIC on its host */
    int *number_of;            /* [link of the graph]: its number; −1: no route crosses it */
    int *link_of, nlinks;      /* [number]: link of the graph; below 0: memory of the GPU of rank −1 − link */
    double *link_gbps;         /* [number]; 0: memory of a GPU, see sim_link_gbps() */
    int *memory_of; /* [rank]: the number of its GPU's memory; −1: no route crosses it, or a lower rank has it */
    int *links, nlinks_listed, room;
};

/* Graph and rings must outlive the result, which net_destroy() frees. */
enum collet_result net_create(const struct net_source *source, struct net **net_p);
void net_destroy(struct net *net); /* NULL is fine */

/* As sim_machine.route; context is a net. Where hosts are alike, ranks are numbered host by host. */
void net_route(const void *context, int channel, int from, int to, struct sim_route *route);

/* What processes of one host lend each other, if all are configured like this. */
struct sim_loan net_loan_of_processes(const struct config *config);

/* GPUs: of how many bytes on are payloads lent that lie in windows, if all are configured like this? 0: none is. */
uint32_t net_lent_from(const struct config *config);

/* Is there a link of this class between any two ranks? */
bool net_has_class(const struct net *net, enum link_class class);

/* Writes the name of a link: "PCI GPU 0 ▶ PCI 0000:10:00.0", "memory of GPU 0". */
const char *net_link_name(const struct net *net, int link, char *text, size_t bytes);
enum topo_medium net_link_medium(const struct net *net, int link);

#endif
