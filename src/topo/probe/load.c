/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/probe/load.h"

#include "base/memory.h"
#include "topo/probe/speeds.h"

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

/* ------------------------------------------------------------------------------------------------------------ NICs */

/* Sorts the better NICs to the front. Among equally good NICs the CPUs take turns: first comes the first NIC of each CPU,
 * then the second NIC of each CPU. */
static int better_first(const void *a, const void *b) {
    const struct load_nic *x = a, *y = b;
    if (x->gbps != y->gbps)
        return x->gbps > y->gbps ? -1 : 1;
    if (x->nearest.class != y->nearest.class)
        return x->nearest.class < y->nearest.class ? -1 : 1;
    return x->turn != y->turn ? x->turn - y->turn : x->node - y->node;
}

static int cpu_of(const struct topo *topo, int node) {
    while (topo->nodes[node].parent >= 0)
        node = topo->nodes[node].parent;
    return node;
}

static int by_number(const void *a, const void *b) {
    return ((const struct load_nic *)a)->node - ((const struct load_nic *)b)->node;
}

/* Adds a NIC of the host. A fast port behind a narrow PCI link counts as a slow NIC. */
static enum collet_result find_nic(struct load *load, int node) {
    struct load_nic *nic = &load->found[load->nfound];
    *nic = (struct load_nic){.node = node};
    COLLET_TRY(topo_paths_from(load->topo, node, PATHS_IN_HOST, &nic->paths));
    load->nfound++;
    nic->nearest = *topo_path_to(nic->paths, load->stop_node[0]);
    for (int s = 1; s < load->nstops; s++)
        if (topo_path_is_nearer(topo_path_to(nic->paths, load->stop_node[s]), &nic->nearest))
            nic->nearest = *topo_path_to(nic->paths, load->stop_node[s]);
    nic->gbps = fmin(speed_of_nic(&load->topo->nodes[node]), nic->nearest.gbps);
    nic->cpu = cpu_of(load->topo, node);
    for (const struct load_nic *other = load->found; other < nic; other++)
        nic->turn += other->cpu == nic->cpu && other->gbps == nic->gbps && other->nearest.class == nic->nearest.class;
    return COLLET_SUCCESS;
}

static enum collet_result find_nics(struct load *load, int host) {
    int nnics = topo_count(load->topo, host, TOPO_NIC), room = nnics < SEARCH_RINGS_MAX ? nnics : SEARCH_RINGS_MAX;
    load->found = arena_get(&load->arena, (size_t)nnics + 1, sizeof *load->found);
    load->nic_node = arena_get(&load->arena, (size_t)room + 1, sizeof *load->nic_node);
    load->to_nic = arena_get(&load->arena, (size_t)room + 1, sizeof *load->to_nic);
    COLLET_TRY(arena_check(&load->arena, "no memory for the NICs of a host"));
    for (int n = load->topo->hosts[host].first_node; n < load->topo->hosts[host].end_node; n++)
        if (load->topo->nodes[n].kind == TOPO_NIC)
            COLLET_TRY(find_nic(load, n));
    qsort(load->found, (size_t)load->nfound, sizeof *load->found, better_first);
    return COLLET_SUCCESS;
}

void load_use_nics(struct load *load, int count) {
    struct load_nic used[SEARCH_RINGS_MAX];
    for (int i = 0; i < count; i++)
        used[i] = load->found[i];
    qsort(used, (size_t)count, sizeof *used, by_number);
    load->nnics = count;
    for (int i = 0; i < count; i++) {
        load->nic_node[i] = used[i].node;
        load->to_nic[i] = used[i].paths;
    }
}

double load_nics_gbps(const struct load *load, int count) {
    return count == 0 ? INFINITY : count * load->found[count - 1].gbps;
}

enum collet_result load_init(struct load *load, const struct topo *topo, int host, int nlocal, const int *place,
                             bool with_nics) {
    size_t n = (size_t)nlocal;
    *load = (struct load){.topo = topo, .nlocal = nlocal};
    load->stop_node = arena_get(&load->arena, n, sizeof *load->stop_node);
    load->stop_of = arena_get(&load->arena, n, sizeof *load->stop_of);
    load->to_stop = arena_get(&load->arena, n, sizeof *load->to_stop);
    load->on = arena_get(&load->arena, (size_t)topo->nlinks + 1, sizeof *load->on);
    load->links = arena_get(&load->arena, (size_t)topo->nlinks + 1, sizeof *load->links);
    COLLET_TRY(arena_check(&load->arena, "no memory to search rings for %d ranks of a host", nlocal));
    find_stops(load, place);
    for (int s = 0; s < load->nstops; s++)
        COLLET_TRY(topo_paths_from(topo, load->stop_node[s], PATHS_IN_HOST, &load->to_stop[s]));
    return with_nics ? find_nics(load, host) : COLLET_SUCCESS;
}

void load_fini(struct load *load) {
    for (int s = 0; load->to_stop != NULL && s < load->nstops; s++)
        free(load->to_stop[s]);
    for (int k = 0; k < load->nfound; k++)
        free(load->found[k].paths);
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
        if (topo->links[l].medium == MEDIUM_NET) {
            load->on[l] += out;
            load->on[l + 1] += in; /* Link l + 1 is the way in: topo_fuse() makes it right after the way out. */
        }
}

struct topo_bound load_bound(const struct load *load) {
    struct topo_bound bound = {.link = -1, .gbps = INFINITY};
    for (int i = 0; i < load->nlinks; i++) {
        const int l = load->links[i];
        if (load->on[l] > 0 && load->topo->links[l].gbps / load->on[l] < bound.gbps)
            bound = (struct topo_bound){l, load->on[l], load->topo->links[l].gbps / load->on[l]};
    }
    return bound;
}

double load_strain(const struct load *load, const struct topo_paths *paths, int to) {
    double strain = 0;
    for (int l = topo_path_to(paths, to)->last_link; l >= 0; l = topo_path_before(load->topo, paths, l))
        strain = fmax(strain, (load->on[l] + 1) / load->topo->links[l].gbps);
    return strain;
}
