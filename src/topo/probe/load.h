/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a host that routes use: the stops that they visit, their NICs, the paths between stops and NICs, and how much
 * data every link carries.
 */
#ifndef COLLET_TOPO_PROBE_LOAD_H
#define COLLET_TOPO_PROBE_LOAD_H

#include "base/memory.h"
#include "topo/probe/paths.h"

#define SEARCH_RINGS_MAX 64

/* The link that limits rings (or trees): of all links, it leaves the least bandwidth to each ring that uses it. */
struct topo_bound {
    int link;    /* Number of the link. −1: no link limits, because all ranks are in one place. */
    double load; /* Load of the link, in units of one ring's data. */
    double gbps; /* Bandwidth that the link leaves to each ring. */
};

struct load_nic {
    int node;
    struct topo_path nearest; /* Path to the nearest place of a rank. */
    double gbps;              /* Bandwidth of the NIC: the smaller one of its port's and of the nearest path's. */
    int cpu, turn;            /* The NIC's CPU; number of equally good NICs of this CPU before this NIC. */
    struct topo_paths *paths; /* Paths to all nodes of the host. */
};

struct load {
    const struct topo *topo;
    struct arena arena;          /* The arena that owns the arrays. */
    int nstops, *stop_node;      /* [stop]: its node. Stops are the different places of ranks. */
    int nlocal, *stop_of;        /* [local rank]: its stop. */
    int nfound;                  /* Number of NICs of the host. 0 in a job of one host. */
    struct load_nic *found;      /* All NICs of the host, the best one first. */
    int nnics, *nic_node;        /* The NICs of `found` that carry rings, in the order of their nodes. */
    struct topo_paths **to_stop; /* [stop]: paths from this stop to all nodes of the host. */
    /* [nic]: paths from this NIC of nic_node to all nodes of the host. They belong to `found`. */
    struct topo_paths **to_nic;
    int nlinks, *links; /* All links that paths pass, in the order of canon.h. */
    double *on;         /* [link]: load of the link, in units of one ring's data. */
};

enum collet_result load_init(struct load *load, const struct topo *topo, int host, int nlocal, const int *place,
                             bool with_nics);
void load_fini(struct load *load);
#define SCOPED_LOAD __attribute__((cleanup(load_fini)))

/* Makes the best `count` NICs of the host carry the rings. */
void load_use_nics(struct load *load, int count);
/* The most that rings through `count` NICs can carry. Rings have equal shares, so the worst NIC limits all. Infinite without
 * NICs. */
double load_nics_gbps(const struct load *load, int count);

void load_clear(struct load *load);
/* Adds load to the links along the path to a node of the host. */
void load_path(struct load *load, const struct topo_paths *paths, int to, double amount);
/* Adds load to the links between a NIC and the network: `out` on the way out, `in` on the way in. */
void load_net(struct load *load, int nic, double out, double in);
static inline const struct topo_path *load_nic_path(const struct load *load, int nic, int stop) {
    return topo_path_to(load->to_nic[nic], load->stop_node[stop]);
}
/* The link that leaves the least bandwidth to each unit of its load. */
struct topo_bound load_bound(const struct load *load);
/* The largest load per GB/s among the links of a path, if one more ring ran over this path. */
double load_strain(const struct load *load, const struct topo_paths *paths, int to);

#endif
