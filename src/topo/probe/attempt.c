/* SPDX-License-Identifier: Apache-2.0
 *
 * One attempt of the search: rings through one host, one after another. Each ring needs a NIC by which it comes in, an order of
 * all GPUs, and a NIC by which it goes out.
 *
 *                 ┌─ 1. ends ──┐   ┌──────── 2. order ────────┐   ┌─ 1. ends ──┐
 *      NET ═▶ NIC in ─▶ nearest GPU ─▶ … all others once … ─▶ nearest GPU ─▶ NIC out ═▶ NET
 *
 * 1. Ends. Ring i comes in by NIC i mod k and goes out by the NIC that is `shift` further. The first and the last GPU are
 *    the GPUs nearest to these NICs. If several are equally near, it takes the GPU that was an end least often.
 *    Every NIC is used once in each direction before any NIC is used twice.
 * 2. Order. tour_find() gives the best order between the two ends: the fewest hops between CPUs, then the fewest hops over
 *    a host bridge, and so on. So a ring takes GPU links wherever that is possible. Of equal orders it takes the one whose
 *    links are strained least by the other rings. A hop costs the square of its strain, so a ring avoids the fullest links
 *    and still uses few of the others.
 * 3. Aside. The earlier rings did not know of the later ones. So the rings that pass the link that binds get new orders, as
 *    long as this leaves more to each ring.
 * 4. How many. One ring per NIC is added at a time, while the sum of what the rings carry grows by WORTH.
 */
#include "topo/probe/attempt.h"

#include "base/memory.h"
#include "topo/probe/tour.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RINGS_TRIED = 16, SETS_WITHOUT_GAIN = 8 };

/* Each further ring must add this share of what the earlier rings carry on average, because more rings cost memory and
 * instructions. The share is small, because narrow rings can use up links that wide rings cannot: on a DGX-1V, 2 × 40 GB/s
 * becomes 6 × 20. */
#define WORTH 0.05

struct attempt {
    struct load *load;
    int shift;
    uint32_t variant;      /* Number of the variant. Variants choose differently among equal ends and orders. */
    int *used;             /* [stop]: how often the stop was an end of a ring. */
    struct tour_hop *hops; /* [stop · nstops + stop]: the hop from the first stop to the second. */
    int *stops;            /* [route · nstops + i]: the orders of the rings so far, as stops. */
    struct topo_route *routes;
    int nroutes; /* Number of rings so far. */
    /* Number of ends that are not at a stop nearest to their NIC; number of hops between CPUs. */
    int far_ends, sys_hops;
    struct score best;        /* Score of the best number of rings so far. */
    int64_t steps, steps_max; /* Steps that finding orders has taken. Above steps_max, no more rings are added. */
};

/* ------------------------------------------------------------------------------------------------------ 1. the ends */

/* Finds the stop nearest to a NIC. It avoids `other` if it can. Each variant begins with another stop. */
static int pick_end(struct attempt *t, int nic, int other) {
    int best = -1, nearest = 0;
    for (int i = 0; i < t->load->nstops; i++) {
        int s = (i + (int)t->variant) % t->load->nstops;
        const struct topo_path *path = load_nic_path(t->load, nic, s);
        if (topo_path_is_nearer(path, load_nic_path(t->load, nic, nearest)))
            nearest = s;
        if (s == other && t->load->nstops > 1)
            continue;
        const struct topo_path *best_path = best < 0 ? NULL : load_nic_path(t->load, nic, best);
        if (best < 0 || topo_path_is_nearer(path, best_path) ||
            (!topo_path_is_nearer(best_path, path) && t->used[s] < t->used[best]))
            best = s;
    }
    t->used[best]++;
    t->far_ends += topo_path_is_nearer(load_nic_path(t->load, nic, nearest), load_nic_path(t->load, nic, best));
    return best;
}

/* ----------------------------------------------------------------------------------------------------- 2. the order */

/* A tie-breaker: adds less than 0.001 to a hop's strain, differently in each variant. Variant 0 adds nothing. */
static double preference(uint32_t variant, int a, int b) {
    uint32_t x = variant * 0x9e3779b1u ^ (uint32_t)a * 0x85ebca6bu ^ (uint32_t)b * 0xc2b2ae35u;
    x ^= x >> 15;
    x *= 0x2c1b3c6du;
    x ^= x >> 13;
    return variant == 0 ? 0 : 1e-3 * x / UINT32_MAX;
}

static void measure_hops(struct attempt *t) {
    const struct load *load = t->load;
    for (int a = 0; a < load->nstops; a++)
        for (int b = 0; b < load->nstops; b++) {
            t->hops[a * load->nstops + b].class = topo_path_to(load->to_stop[a], load->stop_node[b])->class;
            double strain = load_strain(load, load->to_stop[a], load->stop_node[b]);
            t->hops[a * load->nstops + b].strain = strain * strain * (1 + preference(t->variant, a, b));
        }
}

/* Lists ranks in the order of their stops. Ranks of one stop stand together. */
static void write_order(const struct load *load, const int *stops, int *order) {
    for (int s = 0; s < load->nstops; s++)
        for (int r = 0; r < load->nlocal; r++)
            if (load->stop_of[r] == stops[s])
                *order++ = r;
}

static void count_hop(struct attempt *t, int from, int to, int times) {
    const struct topo_paths *paths = t->load->to_stop[from];
    load_path(t->load, paths, t->load->stop_node[to], times);
    t->sys_hops += topo_path_to(paths, t->load->stop_node[to])->class >= PATH_SYS ? times : 0;
}

static int *stops_of(const struct attempt *t, int route) { return t->stops + route * t->load->nstops; }

/* Adds the load of a ring's hops. times = −1 takes it away again. */
static void count_hops(struct attempt *t, int route, int times) {
    const int *stops = stops_of(t, route), n = t->load->nstops;
    for (int s = 0; s + 1 < n; s++)
        count_hop(t, stops[s], stops[s + 1], times);
    if (t->load->nnics == 0)
        count_hop(t, stops[n - 1], stops[0], times);
}

/* A chain of a tree is a cycle without its last hop. So this turns the cycle until its last hop is the farthest hop. Of
 * equally far hops, the one to rank 0 becomes the last. */
static void turn_cycle(const struct attempt *t, int *stops) {
    const int n = t->load->nstops;
    int first = 0;
    enum topo_class farthest = PATH_LOC;
    for (int i = 0; i < n; i++) {
        enum topo_class class = t->hops[stops[(i + n - 1) % n] * n + stops[i]].class;
        if (class > farthest || (class == farthest && stops[i] == t->load->stop_of[0])) {
            farthest = class;
            first = i;
        }
    }
    for (; first > 0; first--) {
        int stop = stops[0];
        memmove(stops, stops + 1, (size_t)(n - 1) * sizeof *stops);
        stops[n - 1] = stop;
    }
}

/* Finds the best order of a ring between its ends. Without NICs the order is a cycle, and `last` is −1. */
static enum collet_result find_order(struct attempt *t, int route, int first, int last) {
    measure_hops(t);
    COLLET_TRY(tour_find(t->load->nstops, t->hops, first, last, stops_of(t, route), &t->steps));
    if (last < 0)
        turn_cycle(t, stops_of(t, route));
    count_hops(t, route, 1);
    return COLLET_SUCCESS;
}

/* Adds one ring per NIC. All ends are chosen first, so that the orders can avoid the links that the ends use. */
static enum collet_result add_crossings(struct attempt *t) {
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
        COLLET_TRY(find_order(t, t->nroutes++, first[in], last[in]));
    return COLLET_SUCCESS;
}

static enum collet_result add_cycle(struct attempt *t) { return find_order(t, t->nroutes++, 0, -1); }

/* -------------------------------------------------------------------------------------------------------- 3. aside */

static bool passes_within(struct attempt *t, int route, int link) {
    double on = t->load->on[link];
    count_hops(t, route, -1);
    bool passes = t->load->on[link] < on;
    count_hops(t, route, 1);
    return passes;
}

static enum collet_result move_aside(struct attempt *t) {
    struct topo_bound bound = load_bound(t->load);
    for (double before = 0; bound.link >= 0 && bound.gbps > before && t->steps < t->steps_max;
         bound = load_bound(t->load)) {
        before = bound.gbps;
        for (int i = 0; i < t->nroutes; i++) {
            int first = stops_of(t, i)[0], last = t->load->nnics > 0 ? stops_of(t, i)[t->load->nstops - 1] : -1;
            if (!passes_within(t, i, bound.link))
                continue;
            count_hops(t, i, -1);
            COLLET_TRY(find_order(t, i, first, last));
        }
    }
    return COLLET_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------------ 4. how many */

/* Does `more` carry so much more than `than` that its further rings are worth it? They never are if no link limits the rings (infinite
 * bandwidth). */
static bool is_worth_more(const struct score *more, const struct score *than) {
    double each = score_total(than) / than->nrings;
    return than->nrings == 0 || score_total(more) - score_total(than) > WORTH * each * (more->nrings - than->nrings);
}

/* The bandwidth of all links that leave two places together (or one place, if a = b). With gpu_links, only GPU links count. */
static double leaves(const struct load *load, int a, int b, bool gpu_links) {
    double sum = 0;
    int ends[2] = {load->stop_node[a], load->stop_node[b]};
    for (int e = 0; e < (a == b ? 1 : 2); e++)
        for (int l = load->topo->nodes[ends[e]].first_link; l >= 0; l = load->topo->links[l].next)
            if (load->topo->links[l].to != ends[1 - e] && (!gpu_links || load->topo->links[l].medium == MEDIUM_NVLINK))
                sum += load->topo->links[l].gbps;
    return sum;
}

/* All rings together carry no more than this, because every ring leaves every place. In a job of one host, every ring also leaves every
 * pair of places, over GPU links if there are any. */
double attempt_most_possible(const struct load *load, int nnics) {
    double least = load_nics_gbps(load, nnics);
    for (int a = 0; a < load->nstops && load->nstops > 2; a++)
        for (int b = a; b < (nnics > 0 ? a + 1 : load->nstops); b++) {
            double gpu_links = nnics > 0 ? 0 : leaves(load, a, b, true);
            least = fmin(least, gpu_links > 0 ? gpu_links : leaves(load, a, b, false));
        }
    return least;
}

bool attempt_uses_everything(const struct load *load, const struct score *score) {
    return score->nrings > 0 && SCORE_ROUNDING * score_total(score) >= attempt_most_possible(load, load->nnics);
}

static enum collet_result add_rings(struct attempt *t) {
    int set = t->load->nnics > 0 ? t->load->nnics : 1;
    int most = set > RINGS_TRIED ? set : RINGS_TRIED;
    for (int without_gain = 0;
         t->nroutes + set <= most && without_gain < SETS_WITHOUT_GAIN && !attempt_uses_everything(t->load, &t->best) &&
         (t->nroutes == 0 || t->steps < t->steps_max);
         without_gain++) {
        COLLET_TRY(t->load->nnics > 0 ? add_crossings(t) : add_cycle(t));
        COLLET_TRY(move_aside(t));
        struct score score = {t->nroutes, t->far_ends, t->sys_hops, load_bound(t->load)};
        if (is_worth_more(&score, &t->best)) {
            t->best = score;
            without_gain = -1;
            for (int i = 0; i < t->nroutes; i++)
                write_order(t->load, stops_of(t, i), t->routes[i].order);
        }
    }
    return COLLET_SUCCESS;
}

static enum collet_result create_routes(int nroutes, int nlocal, struct topo_route **routes_p) {
    size_t order_bytes = (size_t)nlocal * sizeof(int);
    struct topo_route *routes; /* One allocation: the routes, and behind them their orders and homes. */
    COLLET_TRY(memory_get(&routes, (size_t)nroutes, sizeof *routes + 2 * order_bytes,
                          "no memory for %d rings of %d ranks of a host", nroutes, nlocal));
    int *numbers = (int *)(void *)(routes + nroutes);
    for (int i = 0; i < nroutes; i++, numbers += 2 * nlocal)
        routes[i] = (struct topo_route){-1, -1, numbers, numbers + nlocal};
    *routes_p = routes;
    return COLLET_SUCCESS;
}

static enum collet_result add_all(struct attempt *t) {
    size_t n = (size_t)t->load->nstops;
    struct arena arena SCOPED_ARENA = {0};
    t->used = arena_get(&arena, n, sizeof *t->used);
    t->hops = arena_get(&arena, n * n, sizeof *t->hops);
    t->stops = arena_get(&arena, SEARCH_RINGS_MAX * n, sizeof *t->stops);
    COLLET_TRY(arena_check(&arena, "no memory to order %zu places of a host", n));
    load_clear(t->load);
    return add_rings(t);
}

enum collet_result attempt_run(struct load *load, int shift, uint32_t variant, int64_t steps_max,
                               struct attempt_result *result) {
    struct attempt attempt = {.load = load, .shift = shift, .variant = variant, .steps_max = steps_max};
    COLLET_TRY(create_routes(SEARCH_RINGS_MAX, load->nlocal, &attempt.routes));
    enum collet_result status = add_all(&attempt);
    *result = (struct attempt_result){attempt.routes, attempt.best, attempt.steps};
    if (status != COLLET_SUCCESS)
        free(attempt.routes);
    return status;
}
