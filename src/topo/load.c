/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/load.h"

#include "base/memory.h"
#include "topo/speeds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void find_stops(struct load *load, const int *place) {
    for (int r = 0; r < load->nlocal; r++) {
        int stop = 0;
        while (stop < load->nstops && load->stop_node[stop] != place[r])
            stop++;
        if (stop == load->nstops)
            load->stop_node[load->nstops++] = place[r];
        load->stop_of[r] = stop;
    }
}

static int faster_first(const void *a, const void *b) {
    const struct topo_node *const *x = a, *const *y = b;
    double difference = speed_of_nic(*y) - speed_of_nic(*x);
    return difference != 0 ? (difference > 0 ? 1 : -1) : *x < *y ? -1 : *x > *y;
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* Rings have equal shares of the data, so a slow NIC slows down all of them. So take the k fastest NICs, for the k that
 * makes k × the slowest of them largest. */
static void choose_nics(struct load *load, const struct topo_host *host) {
    const struct topo_node *nics[TOPO_HOST_NODES_MAX + 1];
    int nnics = 0;
    double best = 0;
    for (int n = host->first_node; n < host->end_node && nnics < TOPO_HOST_NODES_MAX; n++)
        if (load->topo->nodes[n].kind == TOPO_NIC)
            nics[nnics++] = &load->topo->nodes[n];
    qsort(nics, (size_t)nnics, sizeof *nics, faster_first);
    nnics = nnics < SEARCH_RINGS_MAX ? nnics : SEARCH_RINGS_MAX;
    for (int n = 1; n <= nnics; n++)
        if (n * speed_of_nic(nics[n - 1]) >= best) {
            best = n * speed_of_nic(nics[n - 1]);
            load->nnics = n;
        }
    for (int n = 0; n < load->nnics; n++)
        load->nic_node[n] = (int)(nics[n] - load->topo->nodes);
    qsort(load->nic_node, (size_t)load->nnics, sizeof *load->nic_node, by_number);
}

static enum collet_result find_paths(struct load *load) {
    for (int s = 0; s < load->nstops; s++)
        COLLET_TRY(topo_paths_from(load->topo, load->stop_node[s], PATHS_IN_HOST, &load->to_stop[s]));
    for (int k = 0; k < load->nnics; k++)
        COLLET_TRY(topo_paths_from(load->topo, load->nic_node[k], PATHS_IN_HOST, &load->to_nic[k]));
    return COLLET_SUCCESS;
}

enum collet_result load_init(struct load *load, const struct topo *topo, int host, int nlocal, const int *place,
                             bool with_nics) {
    size_t n = (size_t)nlocal;
    *load = (struct load){.topo = topo, .nlocal = nlocal};
    load->stop_node = arena_get(&load->arena, n, sizeof *load->stop_node);
    load->stop_of = arena_get(&load->arena, n, sizeof *load->stop_of);
    load->nic_node = arena_get(&load->arena, SEARCH_RINGS_MAX, sizeof *load->nic_node);
    load->to_stop = arena_get(&load->arena, n, sizeof *load->to_stop);
    load->to_nic = arena_get(&load->arena, SEARCH_RINGS_MAX, sizeof *load->to_nic);
    load->on = arena_get(&load->arena, (size_t)topo->nlinks + 1, sizeof *load->on);
    COLLET_TRY(arena_check(&load->arena, "no memory to search rings for %d ranks of a host", nlocal));
    find_stops(load, place);
    if (with_nics)
        choose_nics(load, &topo->hosts[host]);
    return find_paths(load);
}

void load_fini(struct load *load) {
    for (int s = 0; load->to_stop != NULL && s < load->nstops; s++)
        free(load->to_stop[s]);
    for (int k = 0; load->to_nic != NULL && k < load->nnics; k++)
        free(load->to_nic[k]);
    arena_free(&load->arena);
}

void load_clear(struct load *load) { memset(load->on, 0, (size_t)load->topo->nlinks * sizeof *load->on); }

void load_path(struct load *load, const struct topo_paths *paths, int to, double amount) {
    for (int l = topo_path_to(paths, to)->last_link; l >= 0; l = topo_path_before(load->topo, paths, l))
        load->on[l] += amount;
}

void load_net(struct load *load, int nic, double out, double in) {
    const struct topo *topo = load->topo;
    for (int l = topo->nodes[nic].first_link; l >= 0; l = topo->links[l].next)
        if (topo->links[l].wire == WIRE_NET) {
            load->on[l] += out;
            load->on[l + 1] += in; /* topo_fuse() makes the way in right after the way out */
        }
}

struct topo_bound load_bound(const struct load *load) {
    struct topo_bound bound = {.link = -1, .gbps = INFINITY};
    for (int l = 0; l < load->topo->nlinks; l++)
        if (load->on[l] > 0 && load->topo->links[l].gbps / load->on[l] < bound.gbps)
            bound = (struct topo_bound){l, load->on[l], load->topo->links[l].gbps / load->on[l]};
    return bound;
}

double load_strain(const struct load *load, const struct topo_paths *paths, int to) {
    double strain = 0;
    for (int l = topo_path_to(paths, to)->last_link; l >= 0; l = topo_path_before(load->topo, paths, l))
        strain = fmax(strain, (load->on[l] + 1) / load->topo->links[l].gbps);
    return strain;
}
