/* SPDX-License-Identifier: Apache-2.0
 *
 * The best paths from one node to all others.
 *
 * Which path is the best? Between GPUs, a path over GPU links alone comes first. Then the path whose narrowest link is
 * widest, and of several such paths the one with the fewest links. GPUs, and NICs within a host, only end paths: nothing is
 * forwarded through them.
 */
#ifndef COLLET_TOPO_PROBE_PATHS_H
#define COLLET_TOPO_PROBE_PATHS_H

#include "topo/probe/topo.h"

/* PATHS_IN_HOST: to the nodes of this host. PATHS_ANYWHERE: to the nodes of all hosts, and to the NET node. */
enum paths_scope { PATHS_IN_HOST, PATHS_ANYWHERE };

struct topo_path {
    enum topo_class class; /* PATH_NONE: there is no path, and the other fields mean nothing. */
    double gbps;           /* Bandwidth of the narrowest link. Infinite for the path from a node to itself. */
    int nlinks;
    int last_link; /* −1 for the path from a node to itself. Walk back with topo_path_before(). */
};

struct topo_paths {
    int from, first_node, nnodes;
    struct topo_path to[]; /* [n]: the path to node first_node + n. */
};

/* Finds the paths from a node to all nodes in the scope. The caller frees *paths_p with free(). */
enum collet_result topo_paths_from(const struct topo *topo, int from, enum paths_scope scope,
                                   struct topo_paths **paths_p);

/* The path to a node. The node must be in the scope of `paths`. */
static inline const struct topo_path *topo_path_to(const struct topo_paths *paths, int node) {
    return &paths->to[node - paths->first_node];
}

/* Has path `a` a nearer class than `b`, or the same class and more bandwidth? */
static inline bool topo_path_is_nearer(const struct topo_path *a, const struct topo_path *b) {
    return a->class < b->class || (a->class == b->class && a->gbps > b->gbps);
}

/* The link in front of `link` on the same path. −1: `link` is the first one.
 * To visit all links of a path:  for (int l = path->last_link; l >= 0; l = topo_path_before(topo, paths, l)) */
static inline int topo_path_before(const struct topo *topo, const struct topo_paths *paths, int link) {
    return topo_path_to(paths, topo->links[link].from)->last_link;
}

#endif
