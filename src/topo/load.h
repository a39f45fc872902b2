/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a host that routes use: the stops that they visit, their NICs, the paths between stops and NICs, and how much
 * data every link carries.
 */
#ifndef COLLET_TOPO_LOAD_H
#define COLLET_TOPO_LOAD_H

#include "topo/paths.h"
#include "topo/search.h"

struct load {
    const struct topo *topo;
    struct arena arena;          /* has the arrays */
    int nstops, *stop_node;      /* different places of ranks */
    int nlocal, *stop_of;        /* [local rank] */
    int nnics, *nic_node;        /* those that carry rings; none in a job of one host */
    struct topo_paths **to_stop; /* [stop]: from that stop … */
    struct topo_paths **to_nic;  /* [nic]: … and from that NIC, to anywhere in the host */
    double *on;                  /* [link]: data, in units of what one ring carries */
};

enum collet_result load_init(struct load *load, const struct topo *topo, int host, int nlocal, const int *place,
                             bool with_nics);
void load_fini(struct load *load);
#define SCOPED_LOAD __attribute__((cleanup(load_fini)))

void load_clear(struct load *load);
/* Data along the path to a node of the host. */
void load_path(struct load *load, const struct topo_paths *paths, int to, double amount);
/* Data from a NIC out to the network, and back in. */
void load_net(struct load *load, int nic, double out, double in);
/* The same as topo_bound: the link that leaves the least to each unit. */
struct topo_bound load_bound(const struct load *load);
/* The strain of the path if one more ring ran over it: the largest load per GB/s of its links. */
double load_strain(const struct load *load, const struct topo_paths *paths, int to);

#endif
