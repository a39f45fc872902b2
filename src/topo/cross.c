/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for rings, one host at a time. Each ring needs a NIC by which it comes in, an order of all GPUs, and a NIC by
 * which it goes out.
 *
 *                 ┌─ 1. ends ──┐   ┌──────── 2. order ────────┐   ┌─ 1. ends ──┐
 *      NET ═▶ NIC in ─▶ nearest GPU ─▶ … all others once … ─▶ nearest GPU ─▶ NIC out ═▶ NET
 *
 * 1. Ends. Ring i comes in by NIC i mod k and goes out by the NIC that is `shift` further. The first and the last GPU are
 *    the GPUs nearest to these NICs. If several are equally near, the search takes the GPU that was an end least often.
 *    Every NIC is used once in each direction before any NIC is used twice. Three shifts are tried:
 *      0      out by the same NIC: good for hosts with two GPUs per NIC
 *      1      out by the next NIC: good for hosts with one GPU per NIC
 *      k/2    good if a ring should end on the other CPU
 * 2. Order. tour_find() gives the best order between the two ends: the fewest hops between CPUs, then the fewest hops over
 *    a host bridge, and so on. So a ring takes GPU links wherever that is possible. Of equal orders it takes the one whose
 *    links have the most bandwidth left after the earlier rings.
 * 3. How many. One ring per NIC is added at a time, while the sum of what the rings carry grows by WORTH. Then the shifts
 *    are compared: first by how few ends are not nearest, then by bandwidth, then by how few hops cross between CPUs.
 * 4. Again. The rings found so far may leave links that form no ring: for the last of the seven rings of a full mesh of 8
 *    GPUs, for example. So on small hosts the search runs again with other choices among equal orders, and the best result
 *    counts.
 *
 * Guaranteed: every NIC that is used carries a ring. An end is nearest to its NIC, unless all of the nearest GPUs are the
 * ring's other end. An order is the best for its ends and the earlier rings (up to 16 places).
 * Not guaranteed: another choice for earlier rings might leave more to later ones.
 * Cost: at most 3 shifts × max(16, NICs) rings are looked at, and AGAIN times as many on hosts with few places.
 */
#include "topo/cross.h"

#include "base/memory.h"
#include "topo/load.h"
#include "topo/tour.h"

#include <stdlib.h>
#include <string.h>

enum { RINGS_TRIED = 16, SETS_WITHOUT_GAIN = 3, AGAIN = 32, AGAIN_STOPS_MAX = 8 };

/* More rings cost memory and instructions. Each must add this part of what the earlier rings carry on average. */
#define WORTH 0.5

/* Sums of the same numbers in another order are equal. */
#define ROUNDING 1.001

/* What a number of rings is worth. */
struct score {
    int nrings; /* 0: there are none yet */
    int far_ends, sys_hops;
    struct topo_bound bound;
};

struct trial {
    struct load *load;
    int shift;
    uint32_t variant;      /* of choices among equal orders */
    int *used;             /* [stop]: how often it was an end */
    struct tour_hop *hops; /* [stop · nstops + stop] */
    int *stops;            /* [nstops] order of the ring in the making */
    struct topo_route *routes;
    int nroutes;            /* so far */
    int far_ends, sys_hops; /* of these: how many ends are not at a nearest stop; hops between CPUs */
    struct score best;      /* of the best number of rings */
};

/* ------------------------------------------------------------------------------------------------------ 1. the ends */

static const struct topo_path *nic_path(const struct load *load, int nic, int stop) {
    return topo_path_to(load->to_nic[nic], load->stop_node[stop]);
}

/* The stop nearest to a NIC. It is not `other`, unless there is no choice. */
static int pick_end(struct trial *t, int nic, int other) {
    int best = -1, nearest = 0;
    for (int s = 0; s < t->load->nstops; s++) {
        const struct topo_path *path = nic_path(t->load, nic, s);
        if (topo_path_is_nearer(path, nic_path(t->load, nic, nearest)))
            nearest = s;
        if (s == other && t->load->nstops > 1)
            continue;
        const struct topo_path *best_path = best < 0 ? NULL : nic_path(t->load, nic, best);
        if (best < 0 || topo_path_is_nearer(path, best_path) ||
            (!topo_path_is_nearer(best_path, path) && t->used[s] < t->used[best]))
            best = s;
    }
    t->used[best]++;
    t->far_ends += topo_path_is_nearer(nic_path(t->load, nic, nearest), nic_path(t->load, nic, best));
    return best;
}

/* ----------------------------------------------------------------------------------------------------- 2. the order */

/* Far below any difference that counts; 0 for variant 0. */
static double preference(uint32_t variant, int a, int b) {
    uint32_t x = variant * 0x9e3779b1u ^ (uint32_t)a * 0x85ebca6bu ^ (uint32_t)b * 0xc2b2ae35u;
    x ^= x >> 15;
    x *= 0x2c1b3c6du;
    x ^= x >> 13;
    return variant == 0 ? 0 : 1e-9 * x / UINT32_MAX;
}

static void measure_hops(struct trial *t) {
    const struct load *load = t->load;
    for (int a = 0; a < load->nstops; a++)
        for (int b = 0; b < load->nstops; b++) {
            t->hops[a * load->nstops + b].class = topo_path_to(load->to_stop[a], load->stop_node[b])->class;
            t->hops[a * load->nstops + b].strain =
                load_strain(load, load->to_stop[a], load->stop_node[b]) + preference(t->variant, a, b);
        }
}

/* Ranks in the order of their stops; those of one stop together. */
static void write_order(const struct load *load, const int *stops, int *order) {
    for (int s = 0; s < load->nstops; s++)
        for (int r = 0; r < load->nlocal; r++)
            if (load->stop_of[r] == stops[s])
                *order++ = r;
}

static void take_hop(struct trial *t, int from, int to) {
    const struct topo_paths *paths = t->load->to_stop[from];
    load_path(t->load, paths, t->load->stop_node[to], 1);
    t->sys_hops += topo_path_to(paths, t->load->stop_node[to])->class >= PATH_SYS;
}

static void take_hops(struct trial *t, bool cycle) {
    for (int s = 0; s + 1 < t->load->nstops; s++)
        take_hop(t, t->stops[s], t->stops[s + 1]);
    if (cycle)
        take_hop(t, t->stops[t->load->nstops - 1], t->stops[0]);
}

/* The order between these ends becomes the next route. last = −1: the order is a cycle. */
static enum collet_result add_order(struct trial *t, int first, int last) {
    measure_hops(t);
    COLLET_TRY(tour_find(t->load->nstops, t->hops, first, last, t->stops));
    take_hops(t, last < 0);
    write_order(t->load, t->stops, t->routes[t->nroutes++].order);
    return COLLET_SUCCESS;
}

/* One ring per NIC. All ends are chosen first, so the orders can avoid the links that the ends use. */
static enum collet_result add_crossings(struct trial *t) {
    struct load *load = t->load;
    int host_start = load->topo->hosts[load->topo->nodes[load->nic_node[0]].host].first_node;
    int first[SEARCH_RINGS_MAX], last[SEARCH_RINGS_MAX];
    for (int in = 0; in < load->nnics; in++) {
        int out = (in + t->shift) % load->nnics;
        first[in] = pick_end(t, in, -1);
        last[in] = pick_end(t, out, first[in]);
        load_net(load, load->nic_node[in], 0, 1);
        load_path(load, load->to_nic[in], load->stop_node[first[in]], 1);
        load_path(load, load->to_stop[last[in]], load->nic_node[out], 1);
        load_net(load, load->nic_node[out], 1, 0);
        t->routes[t->nroutes + in].nic_in = load->nic_node[in] - host_start;
        t->routes[t->nroutes + in].nic_out = load->nic_node[out] - host_start;
    }
    for (int in = 0; in < load->nnics; in++)
        COLLET_TRY(add_order(t, first[in], last[in]));
    return COLLET_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------------ 3. how many */

static double total(const struct score *score) { return score->nrings * score->bound.gbps; }

/* If no link limits the rings (infinite bandwidth), more rings are never worth it. */
static bool is_worth_more(const struct score *more, const struct score *than) {
    double each = total(than) / than->nrings;
    return than->nrings == 0 || total(more) - total(than) > WORTH * each * (more->nrings - than->nrings);
}

static enum collet_result add_rings(struct trial *t) {
    int set = t->load->nnics > 0 ? t->load->nnics : 1;
    int most = set > RINGS_TRIED ? set : RINGS_TRIED;
    for (int without_gain = 0; t->nroutes + set <= most && without_gain < SETS_WITHOUT_GAIN; without_gain++) {
        COLLET_TRY(t->load->nnics > 0 ? add_crossings(t) : add_order(t, 0, -1));
        struct score score = {t->nroutes, t->far_ends, t->sys_hops, load_bound(t->load)};
        if (is_worth_more(&score, &t->best)) {
            t->best = score;
            without_gain = -1;
        }
    }
    return COLLET_SUCCESS;
}

static enum collet_result create_routes(int nroutes, int nlocal, struct topo_route **routes_p) {
    size_t order_bytes = (size_t)nlocal * sizeof(int);
    struct topo_route *routes; /* and behind them their orders and homes */
    COLLET_TRY(memory_get(&routes, (size_t)nroutes, sizeof *routes + 2 * order_bytes,
                          "no memory for %d rings of %d ranks of a host", nroutes, nlocal));
    int *numbers = (int *)(void *)(routes + nroutes);
    for (int i = 0; i < nroutes; i++, numbers += 2 * nlocal)
        routes[i] = (struct topo_route){-1, -1, numbers, numbers + nlocal};
    *routes_p = routes;
    return COLLET_SUCCESS;
}

static enum collet_result run_trial(struct trial *t) {
    size_t n = (size_t)t->load->nstops;
    COLLET_TRY(create_routes(SEARCH_RINGS_MAX, t->load->nlocal, &t->routes));
    struct arena arena SCOPED_ARENA = {0};
    t->used = arena_get(&arena, n, sizeof *t->used);
    t->hops = arena_get(&arena, n * n, sizeof *t->hops);
    t->stops = arena_get(&arena, n, sizeof *t->stops);
    COLLET_TRY(arena_check(&arena, "no memory to order %zu places of a host", n));
    load_clear(t->load);
    return add_rings(t);
}

/* Compares ends and hops per ring, because the scores may belong to different numbers of rings. */
static bool beats(const struct score *a, const struct score *b) {
    long a_ends = (long)a->far_ends * b->nrings, b_ends = (long)b->far_ends * a->nrings;
    long a_hops = (long)a->sys_hops * b->nrings, b_hops = (long)b->sys_hops * a->nrings;
    if (b->nrings == 0 || a_ends != b_ends)
        return b->nrings == 0 || a_ends < b_ends;
    if (total(a) > ROUNDING * total(b) || total(b) > ROUNDING * total(a))
        return total(a) > total(b);
    return a_hops < b_hops;
}

/* Runs a trial. Its routes replace those of the crossing if they are better; *best is the score of the better ones. */
static enum collet_result try_once(struct load *load, int shift, uint32_t variant, struct topo_crossing *crossing,
                                   struct score *best) {
    struct trial trial = {.load = load, .shift = shift, .variant = variant};
    enum collet_result status = run_trial(&trial);
    bool take = status == COLLET_SUCCESS && beats(&trial.best, best);
    free(take ? crossing->routes : trial.routes);
    if (take) {
        crossing->routes = trial.routes;
        *best = trial.best;
    }
    return status;
}

static enum collet_result try_all(struct load *load, struct topo_crossing *crossing) {
    int shifts[] = {0, 1, load->nnics / 2};
    uint32_t nvariants = load->nstops <= AGAIN_STOPS_MAX ? AGAIN : 1;
    struct score best = {0};
    for (int i = 0; i < 3; i++) {
        if (i > 0 && (shifts[i] <= shifts[i - 1] || shifts[i] >= load->nnics))
            continue;
        for (uint32_t variant = 0; variant < nvariants; variant++)
            COLLET_TRY(try_once(load, shifts[i], variant, crossing, &best));
    }
    crossing->nroutes = best.nrings;
    crossing->ring_bound = best.bound;
    return COLLET_SUCCESS;
}

/* Of NICs that are equally near, the home is the one that fewest ranks have. */
static int find_home(const struct load *load, int stop, int *used) {
    int best = 0;
    for (int nic = 1; nic < load->nnics; nic++) {
        const struct topo_path *path = nic_path(load, nic, stop), *best_path = nic_path(load, best, stop);
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

/* Along a chain the data goes up once and down once, both trees together. */
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
    COLLET_TRY(try_all(&load, crossing));
    find_homes(&load, crossing);
    load_clear(&load);
    for (int i = 0; i < crossing->nroutes; i++)
        load_tree(&load, crossing, &crossing->routes[i], nic_weight);
    crossing->tree_bound = load_bound(&load);
    return COLLET_SUCCESS;
}

void topo_crossing_fini(struct topo_crossing *crossing) { free(crossing->routes); }
