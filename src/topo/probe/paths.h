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

enum paths_scope { PATHS_IN_HOST, PATHS_ANYWHERE }; /* IN_HOST: the host's own nodes, not the NET node */

struct topo_path {
    enum topo_class class; /* PATH_NONE: there is no path, and the rest means nothing */
    double gbps;           /* bandwidth of the narrowest link; infinite to the node itself */
    int nlinks;
    int last_link; /* −1 to the node itself. Walk back with topo_path_before() */
};

struct topo_paths {
    int from, first_node, nnodes;
    struct topo_path to[]; /* [n]: to node first_node + n */
};

/* The caller frees *paths_p with free(). */
enum collet_result topo_paths_from(const struct topo *topo, int from, enum paths_scope scope,
                                   struct topo_paths **paths_p);

/* The path to a node. The node must be in the scope of paths. */
static inline const struct topo_path *topo_path_to(const struct topo_paths *paths, int node) {
    return &paths->to[node - paths->first_node];
}

/* Is a path of a better class, or of the same class and wider? */
static inline bool topo_path_is_nearer(const struct topo_path *a, const struct topo_path *b) {
    return a->class < b->class || (a->class == b->class && a->gbps > b->gbps);
}

/* The link in front of `link` on the same path; −1: link is the first.
 * All links of a path:  for (int l = path->last_link; l >= 0; l = topo_path_before(topo, paths, l)) */
static inline int topo_path_before(const struct topo *topo, const struct topo_paths *paths, int link) {
    return topo_path_to(paths, topo->links[link].from)->last_link;
}

#endif
