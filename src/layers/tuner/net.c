/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tuner/net.h"

#include "base/grow.h"
#include "base/memory.h"
#include "topo/probe/paths.h"
#include "transport/conn.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- links, numbered as routes come to cross them ---- */

static int number_of(struct net *net, int link) {
    if (net->number_of[link] < 0) {
        net->number_of[link] = net->nlinks;
        net->link_of[net->nlinks] = link;
        net->link_gbps[net->nlinks++] = net->topo->links[link].gbps;
    }
    return net->number_of[link];
}

/* Can this link limit anything? A link of medium LOCAL cannot. A link of unknown speed does not count. */
static bool link_is_bound(const struct topo *topo, const struct topo_link *link) {
    const struct topo_node *from = &topo->nodes[link->from], *to = &topo->nodes[link->to];
    bool unknown = (from->kind == TOPO_NIC && from->nic.mbits == 0) || (to->kind == TOPO_NIC && to->nic.mbits == 0);
    return link->medium != MEDIUM_LOCAL && link->gbps > 0 && !(link->medium == MEDIUM_NET && unknown);
}

/* Appends a link to the path that is being made, if the link can limit anything. */
static enum collet_result add_net_link(struct net *net, int link, struct net_path *path) {
    if (!link_is_bound(net->topo, &net->topo->links[link]))
        return COLLET_SUCCESS;
    if (!grow(&net->links, (size_t)net->nlinks_listed, 1, &net->room, sizeof(*net->links)))
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for routes of %d links", net->nlinks_listed + 1);
    net->links[net->nlinks_listed++] = number_of(net, link);
    path->nlinks++;
    return COLLET_SUCCESS;
}

/* Appends the links of the best path to a node, in their order. */
static enum collet_result add_path(struct net *net, const struct topo_paths *paths, int to, struct net_path *path) {
    int begin = net->nlinks_listed;
    for (int l = topo_path_to(paths, to)->last_link; l >= 0; l = topo_path_before(net->topo, paths, l))
        COLLET_TRY(add_net_link(net, l, path));
    for (int a = begin, b = net->nlinks_listed - 1; a < b; a++, b--) {
        int swap = net->links[a];
        net->links[a] = net->links[b];
        net->links[b] = swap;
    }
    return COLLET_SUCCESS;
}

/* Appends the link between a NIC and the network, in one direction. */
static enum collet_result add_hop(struct net *net, int from, int to, struct net_path *path) {
    int l = net->topo->nodes[from].first_link;
    while (l >= 0 && net->topo->links[l].to != to)
        l = net->topo->links[l].next;
    return l < 0 ? COLLET_SUCCESS : add_net_link(net, l, path);
}

/* Appends the memory of the GPU of rank `from` to the path, as a link. This link is recorded for the lowest rank on the GPU. The paths
 * from lower ranks to `from` are known already. */
static enum collet_result add_memory(struct net *net, int from, struct net_path *path) {
    int owner = 0;
    while (owner < from && net->inside[owner * net->nranks + from].class != LINK_GPU)
        owner++;
    if (net->memory_of[owner] < 0) {
        net->memory_of[owner] = net->nlinks;
        net->link_of[net->nlinks] = -1 - owner;
        net->link_gbps[net->nlinks++] = 0;
    }
    if (!grow(&net->links, (size_t)net->nlinks_listed, 1, &net->room, sizeof(*net->links)))
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for routes of %d links", net->nlinks_listed + 1);
    net->links[net->nlinks_listed++] = net->memory_of[owner];
    path->nlinks++;
    return COLLET_SUCCESS;
}

/* ---- inside a host ---- */

static bool is_gpu(const struct topo *topo, int place) { return topo->nodes[place].kind == TOPO_GPU; }

static enum link_class class_of_hosts(enum net_reach reach) {
    static const enum link_class classes[] = {[NET_SAME] = LINK_MEMORY,
                                              [NET_NEAR] = LINK_MEMORY,
                                              [NET_FAR] = LINK_MEMORY_FAR,
                                              [NET_MEASURED] = LINK_MEMORY_MEASURED,
                                              [NET_REMOTE] = LINK_NET};
    return classes[reach];
}

/* path: the path between the two GPUs. NULL: the graph does not have these GPUs, and it is only known whether both ranks are on one GPU. */
static enum link_class class_of_gpus(enum net_reach reach, const struct topo_path *path) {
    if (reach == NET_REMOTE)
        return LINK_GPU_NET;
    return costs_class_of_gpus(path != NULL ? path->class : reach == NET_SAME ? PATH_LOC : PATH_PHB);
}

/* Finds the path between two ranks of a host. paths: from the place of `from`. The path never leads through a NIC, whatever
 * carries the messages. */
static enum collet_result find_inside(struct net *net, const struct net_source *source, const struct topo_paths *paths,
                                      int from, int to) {
    struct net_path *path = &net->inside[from * net->nranks + to];
    int a = source->place[from], b = source->place[to];
    enum net_reach reach = from == to ? NET_SAME : source->reach(source->context, from, to);
    bool is_inside = net->host_of[from] == net->host_of[to], on_map = is_gpu(net->topo, a) && is_gpu(net->topo, b);
    path->first = net->nlinks_listed;
    path->class =
        net->gpu ? class_of_gpus(reach, on_map && is_inside ? topo_path_to(paths, b) : NULL) : class_of_hosts(reach);
    if (!net->gpu && from != to && reach != NET_REMOTE && source->loan != NULL)
        path->loan = source->loan(source->context, from, to);
    if (path->class == LINK_GPU && from != to)
        return add_memory(net, from, path);
    if (!is_inside || !net->gpu || !on_map || path->class == LINK_GPU_NET)
        return COLLET_SUCCESS;
    return add_path(net, paths, b, path);
}

/* ---- to the network and from it ---- */

static enum collet_result find_out(struct net *net, const struct topo_paths *paths, int rank, int nic) {
    struct net_path *path = &net->out[rank * net->nnics + net->nics[nic]];
    path->first = net->nlinks_listed;
    COLLET_TRY(add_path(net, paths, nic, path));
    return add_hop(net, nic, net->topo->net, path);
}

/* Makes the paths from a NIC to every rank of its host. */
static enum collet_result find_in(struct net *net, const struct net_source *source, int nic) {
    struct topo_paths *paths;
    COLLET_TRY(topo_paths_from(net->topo, nic, PATHS_IN_HOST, &paths));
    enum collet_result result = COLLET_SUCCESS;
    for (int rank = 0; rank < net->nranks && result == COLLET_SUCCESS; rank++) {
        struct net_path *path = &net->in[rank * net->nnics + net->nics[nic]];
        if (net->host_of[rank] != net->topo->nodes[nic].host)
            continue;
        path->first = net->nlinks_listed;
        result = add_hop(net, net->topo->net, nic, path);
        if (result == COLLET_SUCCESS)
            result = add_path(net, paths, source->place[rank], path);
    }
    free(paths);
    return result;
}

static bool has_ranks(const struct net *net, int host) {
    for (int rank = 0; rank < net->nranks; rank++)
        if (net->host_of[rank] == host)
            return true;
    return false;
}

static enum collet_result find_all_in(struct net *net, const struct net_source *source) {
    for (int node = 0; node < net->topo->nnodes && net->topo->net >= 0; node++)
        if (net->topo->nodes[node].kind == TOPO_NIC && has_ranks(net, net->topo->nodes[node].host))
            COLLET_TRY(find_in(net, source, node));
    return COLLET_SUCCESS;
}

/* Finds the paths from a rank to all NICs of its host, and on to the network. paths: from the rank's place. */
static enum collet_result find_all_out(struct net *net, const struct topo_paths *paths, int rank) {
    const struct topo_host *host = &net->topo->hosts[net->host_of[rank]];
    int nearest = -1;
    for (int node = host->first_node; node < host->end_node; node++) {
        if (net->topo->nodes[node].kind != TOPO_NIC)
            continue;
        if (nearest < 0 || topo_path_is_nearer(topo_path_to(paths, node), topo_path_to(paths, nearest)))
            nearest = node;
        COLLET_TRY(find_out(net, paths, rank, node));
    }
    net->nearest[rank] = nearest < 0 ? -1 : net->nics[nearest];
    return COLLET_SUCCESS;
}

/* ---- all routes ---- */

static enum collet_result find_from(struct net *net, const struct net_source *source, int rank) {
    struct topo_paths *paths;
    COLLET_TRY(topo_paths_from(net->topo, source->place[rank], PATHS_IN_HOST, &paths));
    enum collet_result result = COLLET_SUCCESS;
    for (int to = 0; to < net->nranks && result == COLLET_SUCCESS; to++)
        result = find_inside(net, source, paths, rank, to);
    if (result == COLLET_SUCCESS && net->topo->net >= 0)
        result = find_all_out(net, paths, rank);
    free(paths);
    return result;
}

/* Numbers the NICs of each host. Returns the maximum number on one host. */
static int number_nics(const struct topo *topo, int *nics) {
    int most = 1;
    for (int h = 0; h < topo->nhosts; h++) {
        int n = 0;
        for (int node = topo->hosts[h].first_node; node < topo->hosts[h].end_node; node++)
            nics[node] = topo->nodes[node].kind == TOPO_NIC ? n++ : -1;
        most = n > most ? n : most;
    }
    return most;
}

static enum collet_result make_room(struct net *net, const struct net_source *source) {
    size_t n = (size_t)net->nranks, nranks = n * (source->nhosts > 1 ? 2 : 1);
    size_t nnodes = (size_t)net->topo->nnodes, nlinks = (size_t)net->topo->nlinks + 1, numbers = nlinks + n;
    struct arena *arena = &net->arena;
    net->nics = arena_get(arena, nnodes, sizeof(*net->nics));
    net->nnics = net->nics != NULL ? number_nics(net->topo, net->nics) : 1;
    net->rank_of = arena_get(arena, nranks, sizeof(*net->rank_of));
    net->host_of = arena_get(arena, n, sizeof(*net->host_of));
    net->place = arena_get(arena, n, sizeof(*net->place));
    net->inside = arena_get(arena, n * n, sizeof(*net->inside));
    net->out = arena_get(arena, n * (size_t)net->nnics, sizeof(*net->out));
    net->in = arena_get(arena, n * (size_t)net->nnics, sizeof(*net->in));
    net->nearest = arena_get(arena, n, sizeof(*net->nearest));
    net->number_of = arena_get(arena, nlinks, sizeof(*net->number_of));
    net->link_of = arena_get(arena, numbers, sizeof(*net->link_of));
    net->link_gbps = arena_get(arena, numbers, sizeof(*net->link_gbps));
    net->memory_of = arena_get(arena, n, sizeof(*net->memory_of));
    COLLET_TRY(arena_check(arena, "no memory for the routes of %d ranks", net->nranks));
    memcpy(net->rank_of, source->rank_of, nranks * sizeof(*net->rank_of));
    for (size_t k = 0; k < nlinks; k++)
        net->number_of[k] = -1;
    for (size_t k = 0; k < n; k++) {
        net->place[k] = source->place[k];
        net->host_of[k] = net->topo->nodes[source->place[k]].host;
        net->nearest[k] = net->memory_of[k] = -1;
    }
    return COLLET_SUCCESS;
}

enum collet_result net_create(const struct net_source *source, struct net **net_p) {
    struct net *net;
    COLLET_TRY(memory_get(&net, 1, sizeof *net, "no memory for the routes of %d ranks", source->nranks));
    *net = (struct net){.topo = source->topo,
                        .rings = source->rings,
                        .nranks = source->nranks,
                        .nhosts = source->nhosts,
                        .nrings = source->rings != NULL ? source->rings->nrings : 1,
                        .gpu = source->gpu};
    enum collet_result result = make_room(net, source);
    for (int rank = 0; rank < net->nranks && result == COLLET_SUCCESS; rank++)
        result = find_from(net, source, rank);
    if (result == COLLET_SUCCESS)
        result = find_all_in(net, source);
    if (result == COLLET_SUCCESS)
        *net_p = net;
    else
        net_destroy(net);
    return result;
}

void net_destroy(struct net *net) {
    if (net == NULL)
        return;
    arena_free(&net->arena);
    free(net->links);
    free(net);
}

/* ---- asking ---- */

/* Path between rank `at` and the network, through the NIC that the ring uses from `a` to `peer` (rank numbers of the rings). Without
 * rings, through the NIC that is nearest to rank `at`. */
static const struct net_path *path_by_nic(const struct net *net, const struct net_path *paths, int ring, int at, int a,
                                          int peer) {
    int node = net->rings != NULL ? topo_nic_towards(net->rings, ring, a, peer) : -1;
    int nic = node >= 0 ? net->nics[node] : net->nearest[at];
    static const struct net_path nothing = {0};
    return nic < 0 ? &nothing : &paths[at * net->nnics + nic];
}

static struct sim_links links_of(const struct net *net, const struct net_path *path) {
    return (struct sim_links){path->nlinks > 0 ? net->links + path->first : NULL, path->nlinks};
}

void net_route(const void *context, int channel, int from, int to, struct sim_route *route) {
    const struct net *net = context;
    int n = net->nranks, a = from % n, b = to % n, ring = channel % net->nrings;
    const struct net_path *inside = &net->inside[a * n + b];
    bool alike = net->nhosts > 1;
    if (alike ? from / n == to / n : net->host_of[a] == net->host_of[b]) {
        *route = (struct sim_route){.class = inside->class, .loan = inside->loan, .out = links_of(net, inside)};
        return;
    }
    int rank = net->rank_of[a], peer = net->rank_of[alike ? n + b : b];
    *route = (struct sim_route){.class = net->gpu ? LINK_GPU_NET : LINK_NET,
                                .out = links_of(net, path_by_nic(net, net->out, ring, a, rank, peer)),
                                .in = links_of(net, path_by_nic(net, net->in, ring, b, peer, rank))};
}

struct sim_loan net_loan_of_processes(const struct config *config) {
    const bool pays = strcasecmp(config->kernel_copies, "faster") == 0;
    return (struct sim_loan){.class = LINK_LENT_CMA,
                             .least_bytes = pays ? conn_least_lent(config, "cma", LOAN_CMA_BYTES) : 0};
}

void net_lend_by_address(struct net *net) {
    const struct sim_loan loan = {.class = LINK_LENT, .least_bytes = LOAN_HEAP_BYTES};
    for (int pair = 0; pair < net->nranks * net->nranks && !net->gpu; pair++)
        if (!costs_is_remote(net->inside[pair].class))
            net->inside[pair].loan = loan;
}

uint32_t net_lent_from(const struct config *config) {
    const uint32_t in_process = conn_least_lent(config, "process", LOAN_PROCESS_BYTES);
    const uint32_t in_window = conn_least_lent(config, "shared", LOAN_PROCESS_BYTES);
    return in_process > 0 ? in_window : 0;
}

bool net_has_class(const struct net *net, enum link_class class) {
    if (net->nhosts > 1 && class == (net->gpu ? LINK_GPU_NET : LINK_NET))
        return true;
    for (int pair = 0; pair < net->nranks * net->nranks; pair++)
        if (net->inside[pair].class == class ||
            (net->inside[pair].loan.least_bytes > 0 && net->inside[pair].loan.class == class))
            return true;
    return false;
}

const char *net_link_name(const struct net *net, int link, char *text, size_t bytes) {
    char from[TOPO_NAME_BYTES + 16], to[TOPO_NAME_BYTES + 16];
    if (net->link_of[link] < 0) {
        const int place = net->place[-1 - net->link_of[link]];
        snprintf(text, bytes, "memory of %s", topo_node_name(net->topo, place, from));
        return text;
    }
    const struct topo_link *l = &net->topo->links[net->link_of[link]];
    snprintf(text, bytes, "%s %s ▶ %s", topo_link_name(net->topo, l), topo_node_name(net->topo, l->from, from),
             topo_node_name(net->topo, l->to, to));
    return text;
}

enum topo_medium net_link_medium(const struct net *net, int link) {
    return net->link_of[link] < 0 ? MEDIUM_LOCAL : net->topo->links[net->link_of[link]].medium;
}
