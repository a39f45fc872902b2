/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings and trees of a whole job, put together from the routes through each host.
 *
 * Equal hosts with ranks in equal places share one search (cross.c), so 16,384 of them cost as much as one. Hosts join at a
 * NET node that never limits anything. So a ring can carry what the worst of its hosts lets it carry. A host with fewer
 * routes than others uses them several times.
 *
 * If rings come in and go out by different NICs, routes of odd hosts run backwards. So a ring stays on its rail. (If the
 * number of hosts is odd, the hop from the last host to the first does not.)
 *
 *      host 0                  host 1                  host 2                  host 3
 *   ▶ NIC 0 … NIC 1 ═rail 1═▶ NIC 1 … NIC 0 ═rail 0═▶ NIC 0 … NIC 1 ═rail 1═▶ NIC 1 … NIC 0 ═rail 0═▶ host 0
 */
#include "topo/probe/search.h"

#include "topo/trees.h"
#include "base/grow.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------------------------------------------------- places */

static int by_rank_or_dev(const struct topo *topo, const int *a, const int *b, bool ranked) {
    const struct topo_node *x = &topo->nodes[*a], *y = &topo->nodes[*b];
    if (x->host != y->host)
        return x->host - y->host;
    return ranked ? x->gpu.rank - y->gpu.rank : x->gpu.dev - y->gpu.dev;
}

/* Sorts the GPUs of a host. A host has at most TOPO_HOST_NODES_MAX GPUs, so an insertion sort is quick enough. It is stable. */
static void sort_gpus(const struct topo *topo, int *gpus, int n) {
    bool ranked = true;
    for (int i = 0; i < n; i++)
        ranked = ranked && topo->nodes[gpus[i]].gpu.rank >= 0;
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && by_rank_or_dev(topo, &gpus[j - 1], &gpus[j], ranked) > 0; j--) {
            int swap = gpus[j];
            gpus[j] = gpus[j - 1];
            gpus[j - 1] = swap;
        }
}

/* Writes the nodes of one kind on a host to `nodes`, in order. Returns their number. */
static int list_nodes(const struct topo *topo, int host, enum topo_kind kind, int *nodes) {
    int count = 0;
    for (int n = topo->hosts[host].first_node; n < topo->hosts[host].end_node; n++)
        if (topo->nodes[n].kind == kind)
            nodes[count++] = n;
    return count;
}

/* Appends the places of one host's ranks. */
static enum collet_result place_on_host(const struct topo *topo, int host, int per_host, int *nranks, int **place,
                                        int *room) {
    int nodes[TOPO_HOST_NODES_MAX + 1];
    int n = list_nodes(topo, host, TOPO_GPU, nodes);
    bool on_cpus = n == 0;
    if (on_cpus)
        n = list_nodes(topo, host, TOPO_CPU, nodes);
    else
        sort_gpus(topo, nodes, n);
    if (!on_cpus && per_host > 0 && per_host % n != 0)
        return err_set(
            COLLET_ERR_INVALID_ARGUMENT,
            "%d ranks per host are asked for, but host %d has %d GPUs: give each GPU equally many, or leave --ranks "
            "out",
            per_host, host, n);
    int wanted = per_host > 0 ? per_host : n;
    if (!grow(place, (size_t)*nranks, (size_t)wanted, room, sizeof **place))
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the places of %d ranks", *nranks + wanted);
    for (int i = 0; i < wanted; i++)
        (*place)[(*nranks)++] = nodes[(int64_t)i * n / wanted];
    return COLLET_SUCCESS;
}

enum collet_result topo_place_ranks(const struct topo *topo, int per_host, int *nranks_p, int **place_p) {
    int nranks = 0, room = 0, *place = NULL;
    enum collet_result status = COLLET_SUCCESS;
    for (int h = 0; h < topo->nhosts && status == COLLET_SUCCESS; h++)
        status = place_on_host(topo, h, per_host, &nranks, &place, &room);
    if (status == COLLET_SUCCESS) {
        *nranks_p = nranks;
        *place_p = place;
    } else {
        free(place);
    }
    return status;
}

/* --------------------------------------------------------------------------------------------------- ranks of hosts */

static enum collet_result check_places(const struct topo *topo, int nranks, const int *place) {
    for (int r = 0; r < nranks; r++) {
        int n = place[r];
        if (n < 0 || n >= topo->nnodes || (topo->nodes[n].kind != TOPO_GPU && topo->nodes[n].kind != TOPO_CPU))
            return err_set(COLLET_ERR_INVALID_ARGUMENT, "the place of rank %d is node %d: it must be a GPU or a CPU", r,
                           n);
    }
    return COLLET_SUCCESS;
}

static enum collet_result sort_ranks(struct topo_rings *rings) {
    for (int r = 0; r < rings->nranks; r++) {
        rings->host_of[r] = rings->topo->nodes[rings->place[r]].host;
        rings->first[rings->host_of[r] + 1]++;
    }
    for (int h = 0; h < rings->nhosts; h++) {
        if (rings->first[h + 1] == 0)
            return err_set(COLLET_ERR_INVALID_ARGUMENT, "host %d of the graph has no rank: leave it out", h);
        rings->first[h + 1] += rings->first[h];
    }
    SCOPED_FREE int *met = NULL;
    COLLET_TRY(memory_get(&met, (size_t)rings->nhosts, sizeof *met, "no memory for %d hosts", rings->nhosts));
    for (int r = 0; r < rings->nranks; r++) {
        int h = rings->host_of[r];
        rings->local_of[r] = met[h]++;
        rings->ranks_by_host[rings->first[h] + rings->local_of[r]] = r;
    }
    return COLLET_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------------------ hosts */

static bool are_equal(const struct topo_rings *rings, int a, int b) {
    const struct topo_host *x = &rings->topo->hosts[a], *y = &rings->topo->hosts[b];
    if (x->shape != y->shape || topo_nlocal(rings, a) != topo_nlocal(rings, b))
        return false;
    for (int i = 0; i < topo_nlocal(rings, a); i++)
        if (rings->place[topo_rank_of(rings, a, i)] - x->first_node !=
            rings->place[topo_rank_of(rings, b, i)] - y->first_node)
            return false;
    return true;
}

/* The data that goes into, and out of, the most loaded head in the two trees together, in units of one ring's data. An edge
 * of a tree carries half of the data up, and half of it down. */
static double head_weight(int nhosts) {
    double most = 0;
    for (int h = 0; h < nhosts && nhosts > 1; h++) {
        double edges = 0;
        for (int which = 0; which < TREES; which++) {
            struct tree_place place = tree_place(nhosts, which, h);
            edges += place.nchildren + (place.parent >= 0);
        }
        most = fmax(most, edges / 2);
    }
    return most;
}

static enum collet_result cross_host(struct topo_rings *rings, int host, double weight) {
    int nlocal = topo_nlocal(rings, host);
    SCOPED_FREE int *places = NULL;
    COLLET_TRY(memory_get(&places, (size_t)nlocal, sizeof *places, "no memory for the places of %d ranks", nlocal));
    for (int i = 0; i < nlocal; i++)
        places[i] = rings->place[topo_rank_of(rings, host, i)];
    struct topo_crossing *crossing = &rings->crossings[rings->ncrossings++];
    return topo_cross_host(rings->topo, host, nlocal, places, rings->nhosts > 1, weight, crossing);
}

static enum collet_result cross_hosts(struct topo_rings *rings) {
    double weight = head_weight(rings->nhosts);
    for (int h = 0; h < rings->nhosts; h++) {
        int c = 0;
        while (c < rings->ncrossings && !are_equal(rings, rings->crossings[c].host, h))
            c++;
        rings->crossing_of[h] = c;
        if (c == rings->ncrossings)
            COLLET_TRY(cross_host(rings, h, weight));
    }
    return COLLET_SUCCESS;
}

static bool passes_through(const struct topo_crossing *crossing) {
    for (int i = 0; i < crossing->nroutes; i++)
        if (crossing->routes[i].nic_in != crossing->routes[i].nic_out)
            return true;
    return false;
}

static void take_the_worst(struct topo_rings *rings) {
    for (int c = 0; c < rings->ncrossings; c++) {
        if (rings->crossings[c].nroutes > rings->nrings)
            rings->nrings = rings->crossings[c].nroutes;
        rings->zigzag = rings->zigzag || passes_through(&rings->crossings[c]);
    }
    rings->ring_gbps = rings->tree_gbps = INFINITY;
    for (int c = 0; c < rings->ncrossings; c++) {
        const struct topo_crossing *crossing = &rings->crossings[c];
        int turns = (rings->nrings + crossing->nroutes - 1) / crossing->nroutes;
        rings->ring_gbps = fmin(rings->ring_gbps, crossing->ring_bound.gbps / turns);
        rings->tree_gbps = fmin(rings->tree_gbps, crossing->tree_bound.gbps / turns);
    }
}

static enum collet_result make_rings(struct topo_rings *rings, const struct topo *topo, int nranks, const int *place) {
    size_t n = (size_t)nranks, h = (size_t)topo->nhosts;
    struct arena *arena = &rings->arena;
    *rings = (struct topo_rings){.topo = topo, .nranks = nranks, .nhosts = topo->nhosts};
    rings->place = arena_get(arena, n, sizeof(int));
    rings->host_of = arena_get(arena, n, sizeof(int));
    rings->local_of = arena_get(arena, n, sizeof(int));
    rings->ranks_by_host = arena_get(arena, n, sizeof(int));
    rings->first = arena_get(arena, h + 1, sizeof(int));
    rings->crossing_of = arena_get(arena, h, sizeof(int));
    rings->crossings = arena_get(arena, h, sizeof *rings->crossings);
    COLLET_TRY(arena_check(arena, "no memory for rings of %d ranks", nranks));
    memcpy(rings->place, place, n * sizeof *place);
    COLLET_TRY(sort_ranks(rings));
    return cross_hosts(rings);
}

enum collet_result topo_search(const struct topo *topo, int nranks, const int *place, struct topo_rings **rings_p) {
    if (nranks < 1)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "number of ranks is %d: it must be at least 1", nranks);
    COLLET_TRY(check_places(topo, nranks, place));
    struct topo_rings *rings;
    COLLET_TRY(memory_get(&rings, 1, sizeof *rings, "no memory for rings of %d ranks", nranks));
    enum collet_result status = make_rings(rings, topo, nranks, place);
    if (status != COLLET_SUCCESS) {
        topo_rings_destroy(rings);
        return status;
    }
    take_the_worst(rings);
    *rings_p = rings;
    return COLLET_SUCCESS;
}

void topo_rings_destroy(struct topo_rings *rings) {
    if (rings == NULL)
        return;
    for (int c = 0; c < rings->ncrossings; c++)
        topo_crossing_fini(&rings->crossings[c]);
    arena_free(&rings->arena);
    free(rings);
}

/* ----------------------------------------------------------------------------------------------------------- asking */

const struct topo_route *topo_route_of(const struct topo_rings *rings, int ring, int host, bool *backwards) {
    const struct topo_crossing *crossing = &rings->crossings[rings->crossing_of[host]];
    *backwards = rings->zigzag && host % 2 == 1;
    return &crossing->routes[ring % crossing->nroutes];
}

int topo_nic_towards(const struct topo_rings *rings, int ring, int rank, int peer) {
    int host = rings->host_of[rank], there = rings->host_of[peer], a = rings->local_of[rank], b = rings->local_of[peer];
    bool unused, alike = a == b && rings->crossing_of[host] == rings->crossing_of[there];
    const struct topo_route *route = topo_route_of(rings, ring, host, &unused);
    const struct topo_route *other = topo_route_of(rings, ring, there, &unused);
    bool begin = route->order[0] == a && other->order[0] == b;
    bool end = route->order[topo_nlocal(rings, host) - 1] == a && other->order[topo_nlocal(rings, there) - 1] == b;
    bool at_home = alike && !begin && !end && rings->crossings[rings->crossing_of[host]].has_homes;
    int nic = at_home ? route->home[a] : begin ? route->nic_in : route->nic_out;
    return nic < 0 || host == there ? -1 : rings->topo->hosts[host].first_node + nic;
}

/* Is every NIC by which a ring comes in the home of some rank? */
static bool homes_are_all(const struct topo_crossing *crossing) {
    for (int i = 0; i < crossing->nroutes; i++) {
        int r = 0;
        while (r < crossing->nlocal && crossing->routes[0].home[r] != crossing->routes[i].nic_in)
            r++;
        if (r == crossing->nlocal)
            return false;
    }
    return true;
}

int topo_nic_of_message(const struct topo_rings *rings, int channel, int rank, int peer, int receiver) {
    const int host = rings->host_of[rank], there = rings->host_of[peer];
    const struct topo_crossing *crossing = &rings->crossings[rings->crossing_of[host]];
    const struct topo_route *route = &crossing->routes[channel % crossing->nroutes];
    const bool on_gpu = rings->topo->nodes[rings->place[receiver]].kind == TOPO_GPU;
    if (host == there || rings->crossing_of[there] != rings->crossing_of[host] || route->nic_in < 0 ||
        !(on_gpu || (crossing->has_homes && homes_are_all(crossing))))
        return -1;
    return rings->topo->hosts[host].first_node + route->home[rings->local_of[receiver]];
}
