/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for rings, one host at a time. It makes attempts (attempt.c) and takes the best:
 *
 *      with k NICs ─┬─ out by the same NIC ─────────┬─ with other choices ─▶ rings, and what they carry
 *                   ├─ out by the next NIC          │  among equal ends and orders
 *                   └─ out by the NIC k/2 further ──┘
 *
 * - The same NIC is good for hosts with two GPUs per NIC. The next NIC is good for hosts with one GPU per NIC. k/2 is good if
 *   a ring should end on the other CPU. These shifts are compared: first by how few ends are not nearest, then by bandwidth,
 *   then by how few hops cross between CPUs, then by how few rings there are.
 * - It is not always best to use all NICs: one more NIC may get in the way of the others. The number of NICs that could carry most comes
 *   first, and the search ends when no other number could carry more than the rings that were found.
 *
 * Guaranteed: every NIC that is used carries a ring. An end is nearest to its NIC, unless all of the nearest GPUs are the
 * ring's other end.
 * Not guaranteed: another choice for earlier rings might leave more to later ones.
 * Cost: an attempt adds max(16, NICs) rings at most, and moves a few others aside for each. Attempts end after STEPS_MAX small
 * steps: one to four seconds. On hosts of eight GPUs they take some ten milliseconds.
 */
#include "topo/probe/cross.h"

#include "base/memory.h"
#include "topo/probe/canon.h"
#include "topo/probe/tour.h"

#include <stdlib.h>

/* AGAIN: how often the search runs again with other choices. STEPS_MAX: steps of all attempts together. STEPS_FOR_FEWER:
 * steps when everything is in use, because then only fewer rings would be better. STEPS_FOR_SLOW_LINKS: steps without GPU
 * links. Rings then share the few links between CPUs, and there is little to find. */
enum { AGAIN = 32, STEPS_MAX = 1 << 29, STEPS_FOR_SLOW_LINKS = 1 << 27, STEPS_FOR_FEWER = 1 << 22 };

static int64_t steps_max(const struct load *load) {
    for (int s = 0; s < load->nstops; s++)
        for (int l = load->topo->nodes[load->stop_node[s]].first_link; l >= 0; l = load->topo->links[l].next)
            if (load->topo->links[l].medium == MEDIUM_NVLINK)
                return STEPS_MAX;
    return STEPS_FOR_SLOW_LINKS;
}

/* Is score `a` better? Far ends and hops are compared per ring, because the scores may belong to different numbers of rings.
 * If nothing else decides, fewer rings are better. */
static bool beats(const struct score *a, const struct score *b) {
    long a_ends = (long)a->far_ends * b->nrings, b_ends = (long)b->far_ends * a->nrings;
    long a_hops = (long)a->sys_hops * b->nrings, b_hops = (long)b->sys_hops * a->nrings;
    if (b->nrings == 0 || a_ends != b_ends)
        return b->nrings == 0 || a_ends < b_ends;
    if (score_total(a) > SCORE_ROUNDING * score_total(b) || score_total(b) > SCORE_ROUNDING * score_total(a))
        return score_total(a) > score_total(b);
    return a_hops < b_hops || (a_hops == b_hops && a->nrings < b->nrings);
}

/* Makes an attempt. If its routes are better than those of the crossing, they replace them, and *best becomes their score. */
static enum collet_result try_once(struct load *load, int shift, uint32_t variant, struct topo_crossing *crossing,
                                   struct score *best, int64_t *steps) {
    struct attempt_result attempt;
    COLLET_TRY(attempt_run(load, shift, variant, steps_max(load) - *steps, &attempt));
    bool take = beats(&attempt.score, best);
    *steps += attempt.steps;
    free(take ? crossing->routes : attempt.routes);
    if (take) {
        crossing->routes = attempt.routes;
        *best = attempt.score;
    }
    return COLLET_SUCCESS;
}

/* Tries rings over the NICs that the load uses: first each shift once, then again with other choices. */
static enum collet_result try_shifts(struct load *load, struct topo_crossing *crossing, struct score *best,
                                     int64_t *steps) {
    int shifts[] = {0, 1, load->nnics / 2};
    for (uint32_t variant = 0;
         variant < AGAIN &&
         (variant == 0 || *steps < (attempt_uses_everything(load, best) ? STEPS_FOR_FEWER : steps_max(load)));
         variant++)
        for (int i = 0; i < 3; i++) {
            if (i > 0 && (shifts[i] <= shifts[i - 1] || shifts[i] >= load->nnics))
                continue;
            COLLET_TRY(try_once(load, shifts[i], variant, crossing, best, steps));
        }
    return COLLET_SUCCESS;
}

/* The number of NICs to try next: of the numbers not tried yet, the one that could carry most. −1: none of them could carry
 * more than `best`. */
static int next_count(const struct load *load, const bool *tried, const struct score *best) {
    int next = -1, most = load->nfound < SEARCH_RINGS_MAX ? load->nfound : SEARCH_RINGS_MAX;
    for (int count = load->nfound > 0; count <= most; count++)
        if (!tried[count] && (next < 0 || load_nics_gbps(load, count) >= load_nics_gbps(load, next)))
            next = count;
    bool more =
        next >= 0 && (best->nrings == 0 || attempt_most_possible(load, next) > SCORE_ROUNDING * score_total(best));
    return more ? next : -1;
}

/* Tries each number of NICs that could be best. More NICs are not always better, because one more NIC may get in the way of
 * the others. */
static enum collet_result try_all(struct load *load, struct topo_crossing *crossing) {
    bool tried[SEARCH_RINGS_MAX + 1] = {false};
    struct score best = {0};
    int64_t steps = 0;
    int best_count = 0;
    for (int count = next_count(load, tried, &best); count >= 0 && steps < steps_max(load);
         count = next_count(load, tried, &best)) {
        struct topo_crossing other = {0};
        struct score score = {0};
        tried[count] = true;
        load_use_nics(load, count);
        enum collet_result status = try_shifts(load, &other, &score, &steps);
        bool take =
            status == COLLET_SUCCESS && (best.nrings == 0 || score_total(&score) > SCORE_ROUNDING * score_total(&best));
        free(take ? crossing->routes : other.routes);
        COLLET_TRY(status);
        if (take) {
            crossing->routes = other.routes;
            best = score;
            best_count = count;
        }
    }
    load_use_nics(load, best_count);
    crossing->nroutes = best.nrings;
    crossing->ring_bound = best.bound;
    return COLLET_SUCCESS;
}

/* The home of a stop is the nearest NIC. Of equally near NICs, it is the one that is home to the fewest ranks. */
static int find_home(const struct load *load, int stop, int *used) {
    int best = 0;
    for (int nic = 1; nic < load->nnics; nic++) {
        const struct topo_path *path = load_nic_path(load, nic, stop), *best_path = load_nic_path(load, best, stop);
        if (topo_path_is_nearer(path, best_path) || (!topo_path_is_nearer(best_path, path) && used[nic] < used[best]))
            best = nic;
    }
    used[best]++;
    return best;
}

static void find_homes(const struct load *load, struct topo_crossing *crossing) {
    int used[SEARCH_RINGS_MAX] = {0}, host_start = load->topo->hosts[crossing->host].first_node;
    for (int i = 0; i < crossing->nroutes && load->nnics > 0; i++)
        for (int r = 0; r < load->nlocal; r++)
            crossing->routes[i].home[r] = load->nic_node[find_home(load, load->stop_of[r], used)] - host_start;
    crossing->has_homes = load->nnics > 0;
    for (int nic = 0; nic < load->nnics; nic++)
        crossing->has_homes = crossing->has_homes && used[nic] == used[0];
}

/* ------------------------------------------------------------------------------------------------------------ trees */

/* Adds the load of a double tree. Along its chain the data goes up once and down once, in both trees together. */
static void load_tree(struct load *load, const struct topo_crossing *crossing, const struct topo_route *route,
                      double nic_weight) {
    for (int i = 0; i + 1 < load->nlocal; i++) {
        int a = load->stop_of[route->order[i]], b = load->stop_of[route->order[i + 1]];
        load_path(load, load->to_stop[a], load->stop_node[b], 1);
        load_path(load, load->to_stop[b], load->stop_node[a], 1);
    }
    if (route->nic_in < 0)
        return;
    int nic_node = load->topo->hosts[crossing->host].first_node + route->nic_in, nic = 0;
    int head = load->stop_of[route->order[0]];
    while (load->nic_node[nic] != nic_node)
        nic++;
    load_path(load, load->to_nic[nic], load->stop_node[head], nic_weight);
    load_path(load, load->to_stop[head], nic_node, nic_weight);
    load_net(load, nic_node, nic_weight, nic_weight);
}

/* ----------------------------------------------------------------------------------------------------------- a host */

enum collet_result topo_cross_host(const struct topo *topo, int host, int nlocal, const int *place, bool with_nics,
                                   double nic_weight, struct topo_crossing *crossing) {
    struct load load SCOPED_LOAD = {0};
    *crossing = (struct topo_crossing){.host = host, .nlocal = nlocal};
    COLLET_TRY(load_init(&load, topo, host, nlocal, place, with_nics));
    if (load.nstops > TOUR_STOPS_MAX)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "a host has ranks in %d places: at most %d are possible",
                       load.nstops, TOUR_STOPS_MAX);
    COLLET_TRY(canon_number(&load));
    COLLET_TRY(try_all(&load, crossing));
    find_homes(&load, crossing);
    load_clear(&load);
    for (int i = 0; i < crossing->nroutes; i++)
        load_tree(&load, crossing, &crossing->routes[i], nic_weight);
    crossing->tree_bound = load_bound(&load);
    return COLLET_SUCCESS;
}

void topo_crossing_fini(struct topo_crossing *crossing) { free(crossing->routes); }
