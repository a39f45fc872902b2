/* SPDX-License-Identifier: Apache-2.0
 *
 * Which links a message crosses: a job of equal hosts over the topology graph, as simulations see it.
 *
 *      rank 1 of host 3 ▶ PCI ▶ NIC 0 ▶ NET │ NET ▶ NIC 0 ▶ PCI ▶ GPU of rank 0 of host 7
 *      └──────── links of the sender's host ┘└──── links of the receiver's, as numbers within any host
 *
 * Inside a host a message takes the best path (topo/paths.h); between hosts, from its rank to a NIC and from a NIC to the
 * rank: the ends of a channel's ring by the ring's own NICs (topo/search.h), other ranks by the nearest one, of equally
 * near ones another in each channel. NET carries what the NICs send.
 */
#ifndef COLLET_FORECAST_NET_H
#define COLLET_FORECAST_NET_H

#include "plan/sim.h"
#include "topo/search.h"

struct net {
    const struct topo *topo; /* borrowed: one host like the others, or two where there are several */
    const struct topo_rings *rings;
    int nhosts, nlocal, nrings;
    bool gpu;
    int nlinks;
    int *link_of;              /* [number]: link of the graph */
    double *link_gbps;         /* [number] */
    struct net_path *inside;   /* [from local · nlocal + to local] */
    struct net_path *out, *in; /* [channel modulo nrings][local]: to and from the network */
    int *links, nlinks_listed, room;
};

struct net_path {
    enum link_class class;
    int first, nlinks; /* in links */
};

/* topo is finished and has as many hosts as the job, at most two, all alike; rings are those of it. Both outlive the
 * result, which net_destroy() frees. */
enum collet_result net_create(const struct topo_rings *rings, int nhosts, struct net **net_p);
void net_destroy(struct net *net);

/* As sim_machine.route; context is a net. Ranks are numbered host by host. */
void net_route(const void *context, int channel, int from, int to, struct sim_route *route);

/* Are all ranks on GPUs that GPU links join, which keep stores of 128 bytes whole? */
bool net_keeps_lines(const struct net *net);

/* The order of ranks in which a channel's rings run, every host crossed forwards: shape->order and position are filled.
 * prog_shape_fini() frees them. */
enum collet_result net_shape(const struct net *net, int channel, struct prog_shape *shape);

/* "PCI GPU 0 ▶ PCI 0000:10:00.0". */
const char *net_link_name(const struct net *net, int link, char *text, size_t bytes);
enum topo_wire net_link_wire(const struct net *net, int link);

#endif
