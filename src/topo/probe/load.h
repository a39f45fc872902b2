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

/* The link that limits rings (or trees): the one that leaves the least to each ring that uses it. */
struct topo_bound {
    int link;    /* −1: no link, because all ranks are in one place */
    double load; /* load of the link, in units of one ring's data */
    double gbps; /* bandwidth that the link leaves to each ring */
};

struct load_nic {
    int node;
    struct topo_path nearest; /* path to the nearest place of a rank */
    double gbps;              /* bandwidth of its port and of this path */
    int cpu, turn;            /* turn: number of equally good NICs of the same CPU before it */
    struct topo_paths *paths; /* paths to all nodes of the host */
};

struct load {
    const struct topo *topo;
    struct arena arena;          /* has the arrays */
    int nstops, *stop_node;      /* different places of ranks */
    int nlocal, *stop_of;        /* [local rank] */
    int nfound;                  /* NICs of the host, none in a job of one host … */
    struct load_nic *found;      /* … the best one first */
    int nnics, *nic_node;        /* those of them that carry rings, in the order of nodes */
    struct topo_paths **to_stop; /* [stop]: from that stop … */
    struct topo_paths **to_nic;  /* [nic]: … and from that NIC, to anywhere in the host; those of found */
    int nlinks, *links;          /* all links that paths pass, in the order of canon.h */
    double *on;                  /* [link]: load, in units of one ring's data */
};

enum collet_result load_init(struct load *load, const struct topo *topo, int host, int nlocal, const int *place,
                             bool with_nics);
void load_fini(struct load *load);
#define SCOPED_LOAD __attribute__((cleanup(load_fini)))

/* From now on the best `count` NICs carry rings. */
void load_use_nics(struct load *load, int count);
/* The most that rings through so many NICs can carry: they have equal shares, so the worst NIC counts. Infinite without NICs. */
double load_nics_gbps(const struct load *load, int count);

void load_clear(struct load *load);
/* Adds load along the path to a node of the host. */
void load_path(struct load *load, const struct topo_paths *paths, int to, double amount);
/* Adds load from a NIC out to the network, and back in. */
void load_net(struct load *load, int nic, double out, double in);
static inline const struct topo_path *load_nic_path(const struct load *load, int nic, int stop) {
    return topo_path_to(load->to_nic[nic], load->stop_node[stop]);
}
/* The same as topo_bound: the link that leaves the least to each unit. */
struct topo_bound load_bound(const struct load *load);
/* The strain of the path if one more ring ran over it: the largest load per GB/s of its links. */
double load_strain(const struct load *load, const struct topo_paths *paths, int to);

#endif
