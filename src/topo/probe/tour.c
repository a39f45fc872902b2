/* SPDX-License-Identifier: Apache-2.0
 *
 * Up to 16 stops: compares all orders, set by set (M. Held, R. Karp, "A dynamic programming approach to sequencing
 * problems", 1962). Take all ways that have visited the same set of stops and are at the same stop. Only the best of them
 * can be the beginning of the best tour, whatever comes later:
 *
 *      visited {0,1,2}, at 2:   0 ▶ 1 ▶ 2  cost 5   keep           2^(n−1) sets × (n − 1) stops × n next ones:
 *                               (1 ▶ 0 ▶ 2 does not begin at 0)    4 million small steps for 16
 *      visited {0,1,2}, at 1:   0 ▶ 2 ▶ 1  cost 7   keep
 *
 * Why "whatever comes later"? Costs compare lexicographically. Later hops add to the counts per class and to the strain, and
 * this keeps the order of two costs.
 *
 * Most of those ways can be left out. Tours over the nearest class of hops come first: if there is one, no tour with a hop of
 * a farther class is better. If there is none, the next class is allowed, too. (A GPU often has links with four of 15 others.)
 *
 * More stops: the tour always goes to the nearest stop that it has not visited. Then sections are reversed as long as this
 * makes the tour better.
 */
#include "topo/probe/tour.h"

#include "base/memory.h"

#include <string.h>

/* The number of hops of each class that matters, 12 bits per class, with the farthest class in the highest bits. So comparing
 * two such numbers compares two tours class by class. */
struct cost {
    uint64_t hops;
    double strain;
};

/* A count of TOUR_STOPS_MAX hops fits into 12 bits, and the counts of five classes fit into 64 bits. */
enum { CLASS_BITS = 12 };
_Static_assert(TOUR_STOPS_MAX < 1 << CLASS_BITS && (PATH_NET - PATH_PIX + 1) * CLASS_BITS <= 64, "hops overflow");

static const struct cost NOTHING = {0, 0}, NEVER = {UINT64_MAX, 0};

/* The cost of one hop. PATH_NET does not occur inside a host, so PATH_NONE takes its place. */
static uint64_t one_hop(enum topo_class class) {
    if (class <= PATH_NVL)
        return 0;
    return UINT64_C(1) << CLASS_BITS * ((class == PATH_NONE ? PATH_NET : class) - PATH_PIX);
}

static struct cost longer(struct cost cost, const struct tour_hop *hop) {
    if (cost.hops == UINT64_MAX)
        return NEVER;
    cost.hops += one_hop(hop->class);
    cost.strain += hop->strain;
    return cost;
}

static bool less(struct cost a, struct cost b) { return a.hops < b.hops || (a.hops == b.hops && a.strain < b.strain); }

/* ------------------------------------------------------------------------------------------------------------ exact */

/* All stops except `first` have new numbers 0 … m − 1. These numbers are the bits of a set. */
struct exact {
    int n, m, first, last;
    const struct tour_hop *hops;
    int stop[TOUR_EXACT_MAX];      /* [bit]: the stop with this new number. */
    unsigned near[TOUR_EXACT_MAX]; /* [bit]: the bits to which a hop may lead. */
    int64_t *steps;
    struct cost *best; /* [set · m + at]: cost of the best way that has visited this set and is at `at`. */
    int8_t *before;    /* [set · m + at]: the stop before `at` on the best way. */
};

static const struct tour_hop *hop(const struct exact *e, int from_bit, int to_bit) {
    int from = from_bit < 0 ? e->first : e->stop[from_bit];
    return &e->hops[from * e->n + (to_bit < 0 ? e->first : e->stop[to_bit])];
}

static void extend(struct exact *e, unsigned set, int at) {
    struct cost here = e->best[set * (unsigned)e->m + (unsigned)at];
    if (here.hops == UINT64_MAX)
        return;
    for (unsigned nexts = e->near[at] & ~set; nexts != 0; nexts &= nexts - 1) {
        int next = __builtin_ctz(nexts);
        unsigned to = (set | 1u << next) * (unsigned)e->m + (unsigned)next;
        struct cost there = longer(here, hop(e, at, next));
        if (!less(e->best[to],
                  there)) { /* Among equal ways the last one is taken, so tours go upwards if nothing else decides. */
            e->best[to] = there;
            e->before[to] = (int8_t)at;
        }
        ++*e->steps;
    }
}

/* The last stop of the best tour, as a bit. −1: no tour has only allowed hops. */
static int best_end(const struct exact *e, enum topo_class farthest) {
    unsigned all = (1u << e->m) - 1;
    int best = -1;
    struct cost best_cost = NEVER;
    for (int at = 0; at < e->m; at++) {
        struct cost cost = e->best[all * (unsigned)e->m + (unsigned)at];
        if (cost.hops == UINT64_MAX || (e->last < 0 && hop(e, at, -1)->class > farthest))
            continue;
        if (e->last < 0)
            cost = longer(cost, hop(e, at, -1));
        if ((e->last < 0 || e->stop[at] == e->last) && (best < 0 || !less(best_cost, cost))) {
            best = at;
            best_cost = cost;
        }
    }
    return best;
}

/* Finds the best ways over hops of class `farthest` and nearer ones. Returns the last stop of the best tour, as best_end(). */
static int go_all_ways(struct exact *e, enum topo_class farthest) {
    size_t states = ((size_t)1 << e->m) * (size_t)e->m;
    for (size_t s = 0; s < states; s++)
        e->best[s] = NEVER;
    for (int at = 0; at < e->m; at++) {
        if (hop(e, -1, at)->class <= farthest)
            e->best[(1u << at) * (unsigned)e->m + (unsigned)at] = longer(NOTHING, hop(e, -1, at));
        e->near[at] = 0;
        for (int next = 0; next < e->m; next++)
            if (next != at && hop(e, at, next)->class <= farthest)
                e->near[at] |= 1u << next;
    }
    for (unsigned set = 1; set < 1u << e->m; set++)
        for (int at = 0; at < e->m; at++)
            if (set & 1u << at)
                extend(e, set, at);
    *e->steps += (int64_t)states;
    return best_end(e, farthest);
}

static void write_back(const struct exact *e, int at, int *order) {
    unsigned set = (1u << e->m) - 1;
    order[0] = e->first;
    for (int i = e->n - 1; i > 0; i--) {
        order[i] = e->stop[at];
        int before = e->before[set * (unsigned)e->m + (unsigned)at];
        set &= ~(1u << at);
        at = before;
    }
}

/* Of the classes that are farther than `than`, the nearest one that a hop has. */
static enum topo_class next_class(int n, const struct tour_hop *hops, int than) {
    int next = TOPO_CLASS_COUNT;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            if (a != b && (int)hops[a * n + b].class > than && (int)hops[a * n + b].class < next)
                next = (int)hops[a * n + b].class;
    return (enum topo_class)next;
}

static enum collet_result find_exact(int n, const struct tour_hop *hops, int first, int last, int *order,
                                     int64_t *steps) {
    struct exact e = {.n = n, .m = n - 1, .first = first, .last = last, .hops = hops, .steps = steps};
    size_t states = ((size_t)1 << e.m) * (size_t)e.m;
    for (int stop = 0, bit = 0; stop < n; stop++)
        if (stop != first)
            e.stop[bit++] = stop;
    struct arena arena SCOPED_ARENA = {0};
    e.best = arena_get(&arena, states, sizeof *e.best);
    e.before = arena_get(&arena, states, sizeof *e.before);
    COLLET_TRY(arena_check(&arena, "no memory to order %d stops of a ring", n));
    enum topo_class farthest = PATH_LOC;
    int end;
    do { /* Over hops of all classes there is a tour, so the loop ends. */
        farthest = next_class(n, hops, (int)farthest);
        end = go_all_ways(&e, farthest);
    } while (end < 0);
    write_back(&e, end, order);
    return COLLET_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------------------- good */

static struct cost cost_of(int n, const struct tour_hop *hops, bool cycle, const int *order) {
    struct cost cost = NOTHING;
    for (int i = 0; i + 1 < n; i++)
        cost = longer(cost, &hops[order[i] * n + order[i + 1]]);
    return cycle ? longer(cost, &hops[order[n - 1] * n + order[0]]) : cost;
}

static void go_to_the_nearest(int n, const struct tour_hop *hops, int last, int *order) {
    int free_stops = last < 0 ? n : n - 1; /* The order holds all stops, `first` in front and `last` at the end. */
    for (int i = 1; i < free_stops; i++)
        for (int j = i + 1; j < free_stops; j++)
            if (less(longer(NOTHING, &hops[order[i - 1] * n + order[j]]),
                     longer(NOTHING, &hops[order[i - 1] * n + order[i]]))) {
                int nearer = order[j];
                order[j] = order[i];
                order[i] = nearer;
            }
}

static void reverse(int *order, int from, int to) {
    for (; from < to; from++, to--) {
        int swap = order[from];
        order[from] = order[to];
        order[to] = swap;
    }
}

enum { TRIALS_MAX = 1 << 14 }; /* Maximum number of reversals that are tried. Each trial looks at the whole tour. */

static void reverse_sections(int n, const struct tour_hop *hops, int last, int *order) {
    int free_stops = last < 0 ? n : n - 1, trials = 0;
    struct cost best = cost_of(n, hops, last < 0, order);
    for (bool better = true; better && trials < TRIALS_MAX;) {
        better = false;
        for (int from = 1; from < free_stops; from++)
            for (int to = from + 1; to < free_stops && trials < TRIALS_MAX; to++, trials++) {
                reverse(order, from, to);
                struct cost cost = cost_of(n, hops, last < 0, order);
                if (less(cost, best)) {
                    best = cost;
                    better = true;
                } else {
                    reverse(order, from, to);
                }
            }
    }
}

static void find_good(int n, const struct tour_hop *hops, int first, int last, int *order) {
    int i = 0;
    order[i++] = first;
    for (int stop = 0; stop < n; stop++)
        if (stop != first && stop != last)
            order[i++] = stop;
    if (last >= 0)
        order[i] = last;
    go_to_the_nearest(n, hops, last, order);
    reverse_sections(n, hops, last, order);
}

enum collet_result tour_find(int n, const struct tour_hop *hops, int first, int last, int *order, int64_t *steps) {
    if (n == 1) {
        order[0] = first;
        return COLLET_SUCCESS;
    }
    if (n <= TOUR_EXACT_MAX)
        return find_exact(n, hops, first, last, order, steps);
    find_good(n, hops, first, last, order);
    *steps += (int64_t)TRIALS_MAX * n;
    return COLLET_SUCCESS;
}
