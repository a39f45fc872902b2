/* SPDX-License-Identifier: Apache-2.0 */
#include "forecast/net.h"

#include "base/err.h"
#include "topo/paths.h"

#include <stdlib.h>

/* ---- links of a host, numbered ---- */

static bool is_of_host(const struct topo *topo, const struct topo_link *link) {
    return topo->nodes[link->from].host == 0 && link->from != topo->net
               ? topo->nodes[link->to].host == 0 || link->to == topo->net
               : link->from == topo->net && topo->nodes[link->to].host == 0;
}

static enum collet_result number_links(struct net *net) {
    const struct topo *topo = net->topo;
    size_t most = (size_t)topo->nlinks + 1;
    net->link_of = malloc(most * sizeof *net->link_of);
    net->link_gbps = malloc(most * sizeof *net->link_gbps);
    if (net->link_of == NULL || net->link_gbps == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for %d links", topo->nlinks);
    for (int l = 0; l < topo->nlinks; l++)
        if (is_of_host(topo, &topo->links[l])) {
            net->link_of[net->nlinks] = l;
            net->link_gbps[net->nlinks++] = topo->links[l].gbps;
        }
    return COLLET_SUCCESS;
}

static int number_of(const struct net *net, int link) {
    for (int k = 0; k < net->nlinks; k++)
        if (net->link_of[k] == link)
            return k;
    return -1;
}

static enum collet_result list_link(struct net *net, int link) {
    if (net->nlinks_listed == net->room) {
        int room = 2 * net->room + 64;
        int *links = realloc(net->links, (size_t)room * sizeof *links);
        if (links == NULL)
            return err_set(COLLET_ERR_NO_MEMORY, "no memory for paths of %d links", room);
        net->links = links;
        net->room = room;
    }
    net->links[net->nlinks_listed++] = number_of(net, link);
    return COLLET_SUCCESS;
}

/* ---- paths ---- */

static bool is_bound(const struct topo *topo, int link) { return topo->links[link].wire != WIRE_LOCAL; }

/* The links of the path in their order; those that never bind are left out. */
static enum collet_result add_path(struct net *net, const struct topo_paths *paths, int to, struct net_path *path) {
    path->first = net->nlinks_listed;
    for (int l = topo_path_to(paths, to)->last_link; l >= 0; l = topo_path_before(net->topo, paths, l))
        if (is_bound(net->topo, l))
            COLLET_TRY(list_link(net, l));
    path->nlinks = net->nlinks_listed - path->first;
    for (int a = path->first, b = net->nlinks_listed - 1; a < b; a++, b--) {
        int swap = net->links[a];
        net->links[a] = net->links[b];
        net->links[b] = swap;
    }
    return COLLET_SUCCESS;
}

static enum link_class class_between(const struct net *net, enum topo_class class) {
    return net->gpu ? costs_class_of_gpus(class) : LINK_MEMORY;
}

static enum collet_result find_inside(struct net *net, int from) {
    struct topo_paths *paths;
    COLLET_TRY(topo_paths_from(net->topo, net->rings->place[from], PATHS_IN_HOST, &paths));
    enum collet_result result = COLLET_SUCCESS;
    for (int to = 0; to < net->nlocal && result == COLLET_SUCCESS; to++) {
        struct net_path *path = &net->inside[from * net->nlocal + to];
        path->class = class_between(net, topo_path_to(paths, net->rings->place[to])->class);
        result = add_path(net, paths, net->rings->place[to], path);
    }
    free(paths);
    return result;
}

/* Of the link between a NIC and the network, in one direction. */
static int net_link(const struct topo *topo, int from, int to) {
    int l = topo->nodes[from].first_link;
    while (l >= 0 && topo->links[l].to != to)
        l = topo->links[l].next;
    return l;
}

/* Nearer, then wider; an equal one is not better. */
static bool is_better(const struct topo_path *a, const struct topo_path *b) {
    return a->class < b->class || (a->class == b->class && a->gbps > b->gbps);
}

/* The nearest NIC; of several the turn-th, modulo their number. */
static int nearest_nic(const struct topo *topo, const struct topo_paths *paths, int turn) {
    int near[TOPO_HOST_NODES_MAX + 1], n = 0;
    for (int node = topo->hosts[0].first_node; node < topo->hosts[0].end_node; node++) {
        if (topo->nodes[node].kind != TOPO_NIC)
            continue;
        if (n > 0 && is_better(topo_path_to(paths, node), topo_path_to(paths, near[0])))
            n = 0;
        if (n == 0 || !is_better(topo_path_to(paths, near[0]), topo_path_to(paths, node)))
            near[n++] = node;
    }
    return n > 0 ? near[turn % n] : -1;
}

/* Ends of a ring have the ring's own NICs. */
static int nic_of(const struct net *net, const struct topo_paths *paths, int ring, int local, bool out) {
    bool backwards;
    const struct topo_route *route = topo_route_of(net->rings, ring, 0, &backwards);
    int end = out ? route->order[net->nlocal - 1] : route->order[0], nic = out ? route->nic_out : route->nic_in;
    if (local == end && nic >= 0)
        return net->topo->hosts[0].first_node + nic;
    return nearest_nic(net->topo, paths, ring);
}

static enum collet_result find_out(struct net *net, const struct topo_paths *paths, int ring, int local) {
    struct net_path *path = &net->out[ring * net->nlocal + local];
    int nic = nic_of(net, paths, ring, local, true);
    COLLET_TRY(add_path(net, paths, nic, path));
    path->nlinks++;
    return list_link(net, net_link(net->topo, nic, net->topo->net));
}

static enum collet_result find_in(struct net *net, const struct topo_paths *paths, int ring, int local) {
    struct net_path tail, *path = &net->in[ring * net->nlocal + local];
    struct topo_paths *back;
    int nic = nic_of(net, paths, ring, local, false);
    COLLET_TRY(topo_paths_from(net->topo, nic, PATHS_IN_HOST, &back));
    path->first = net->nlinks_listed;
    enum collet_result result = list_link(net, net_link(net->topo, net->topo->net, nic));
    if (result == COLLET_SUCCESS)
        result = add_path(net, back, net->rings->place[local], &tail);
    path->nlinks = net->nlinks_listed - path->first;
    free(back);
    return result;
}

static enum collet_result find_paths(struct net *net) {
    for (int local = 0; local < net->nlocal; local++)
        COLLET_TRY(find_inside(net, local));
    for (int local = 0; local < net->nlocal && net->nhosts > 1; local++) {
        struct topo_paths *paths;
        COLLET_TRY(topo_paths_from(net->topo, net->rings->place[local], PATHS_IN_HOST, &paths));
        enum collet_result result = COLLET_SUCCESS;
        for (int ring = 0; ring < net->nrings && result == COLLET_SUCCESS; ring++) {
            result = find_out(net, paths, ring, local);
            if (result == COLLET_SUCCESS)
                result = find_in(net, paths, ring, local);
        }
        free(paths);
        COLLET_TRY(result);
    }
    return COLLET_SUCCESS;
}

/* ---- life ---- */

enum collet_result net_create(const struct topo_rings *rings, int nhosts, struct net **net_p) {
    struct net *net = calloc(1, sizeof *net);
    if (net == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the paths of a job");
    *net = (struct net){.topo = rings->topo, .rings = rings, .nhosts = nhosts, .nrings = rings->nrings};
    net->nlocal = rings->first[1] - rings->first[0];
    net->gpu = rings->topo->nodes[rings->place[0]].kind == TOPO_GPU;
    size_t n = (size_t)net->nlocal;
    net->inside = calloc(n * n, sizeof *net->inside);
    net->out = calloc(n * (size_t)net->nrings, sizeof *net->out);
    net->in = calloc(n * (size_t)net->nrings, sizeof *net->in);
    enum collet_result result = COLLET_SUCCESS;
    if (net->inside == NULL || net->out == NULL || net->in == NULL)
        result = err_set(COLLET_ERR_NO_MEMORY, "no memory for the paths of %d ranks", net->nlocal);
    if (result == COLLET_SUCCESS)
        result = number_links(net);
    if (result == COLLET_SUCCESS)
        result = find_paths(net);
    if (result == COLLET_SUCCESS)
        *net_p = net;
    else
        net_destroy(net);
    return result;
}

void net_destroy(struct net *net) {
    if (net == NULL)
        return;
    free(net->link_of);
    free(net->link_gbps);
    free(net->inside);
    free(net->out);
    free(net->in);
    free(net->links);
    free(net);
}

/* ---- asking ---- */

static struct sim_links links_of(const struct net *net, const struct net_path *path) {
    return (struct sim_links){net->links + path->first, path->nlinks};
}

void net_route(const void *context, int channel, int from, int to, struct sim_route *route) {
    const struct net *net = context;
    int a = from % net->nlocal, b = to % net->nlocal, ring = channel % net->nrings;
    if (from / net->nlocal == to / net->nlocal) {
        const struct net_path *path = &net->inside[a * net->nlocal + b];
        *route = (struct sim_route){.class = path->class, .out = links_of(net, path)};
        return;
    }
    *route = (struct sim_route){.class = net->gpu ? LINK_GPU_NET : LINK_NET,
                                .out = links_of(net, &net->out[ring * net->nlocal + a]),
                                .in = links_of(net, &net->in[ring * net->nlocal + b])};
}

bool net_keeps_lines(const struct net *net) {
    for (int pair = 0; pair < net->nlocal * net->nlocal; pair++)
        if (net->inside[pair].class != LINK_GPU && net->inside[pair].class != LINK_GPU_NVLINK)
            return false;
    return net->nhosts == 1;
}

enum collet_result net_shape(const struct net *net, int channel, struct prog_shape *shape) {
    bool backwards;
    const struct topo_route *route = topo_route_of(net->rings, channel % net->nrings, 0, &backwards);
    int nranks = net->nhosts * net->nlocal;
    *shape = (struct prog_shape){.nranks = nranks,
                                 .nnodes = net->nhosts,
                                 .node_ranks = net->nlocal,
                                 .order = malloc((size_t)nranks * sizeof(int)),
                                 .position = malloc((size_t)nranks * sizeof(int))};
    if (shape->order == NULL || shape->position == NULL) {
        prog_shape_fini(shape);
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the order of %d ranks", nranks);
    }
    for (int position = 0; position < nranks; position++) {
        int rank = position / net->nlocal * net->nlocal + route->order[position % net->nlocal];
        shape->order[position] = rank;
        shape->position[rank] = position;
    }
    return COLLET_SUCCESS;
}

const char *net_link_name(const struct net *net, int link, char *text, size_t bytes) {
    const struct topo_link *l = &net->topo->links[net->link_of[link]];
    char from[TOPO_NAME_BYTES + 16], to[TOPO_NAME_BYTES + 16];
    snprintf(text, bytes, "%s %s ▶ %s", topo_wire_name(l->wire), topo_node_name(net->topo, l->from, from),
             topo_node_name(net->topo, l->to, to));
    return text;
}

enum topo_wire net_link_wire(const struct net *net, int link) { return net->topo->links[net->link_of[link]].wire; }
