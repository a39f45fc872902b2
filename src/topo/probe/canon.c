/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/probe/canon.h"

#include "topo/probe/tour.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------ stops */

/* A path, as one stop sees it. A path to a NIC has the class −1. */
struct sight {
    int class; /* Class of the stop at the other end. */
    struct topo_path path;
};

struct canon {
    int n, nsights;       /* Number of stops; number of sights of each stop. */
    int *class;           /* [stop]: its class. A class is numbered by how many stops the classes before it have. */
    int *next;            /* [stop]: its class in the next round. */
    struct sight *sights; /* [stop · nsights + i]: what the stop sees, sorted. */
};

static int compare_sights(const void *a, const void *b) {
    const struct sight *x = a, *y = b;
    if (x->class != y->class)
        return x->class - y->class;
    if (topo_path_is_nearer(&x->path, &y->path))
        return -1;
    if (topo_path_is_nearer(&y->path, &x->path))
        return 1;
    return x->path.nlinks - y->path.nlinks;
}

/* Compares two stops by their classes so far, and then by their sights. */
static int compare_stops(const struct canon *c, int a, int b) {
    int order = c->class[a] - c->class[b];
    for (int i = 0; i < c->nsights && order == 0; i++)
        order = compare_sights(&c->sights[a * c->nsights + i], &c->sights[b * c->nsights + i]);
    return order;
}

static void look_around(struct canon *c, const struct load *load, int stop) {
    struct sight *sights = &c->sights[stop * c->nsights];
    for (int s = 0; s < c->n; s++)
        *sights++ = (struct sight){c->class[s], *topo_path_to(load->to_stop[stop], load->stop_node[s])};
    for (int k = 0; k < load->nfound; k++)
        *sights++ = (struct sight){-1, *topo_path_to(load->found[k].paths, load->stop_node[stop])};
    qsort(&c->sights[stop * c->nsights], (size_t)c->nsights, sizeof *sights, compare_sights);
}

/* Does one round. False: the round told no more stops apart. */
static bool refine(struct canon *c, const struct load *load) {
    bool finer = false;
    for (int s = 0; s < c->n; s++)
        look_around(c, load, s);
    for (int s = 0; s < c->n; s++) {
        c->next[s] = 0;
        for (int other = 0; other < c->n; other++)
            c->next[s] += compare_stops(c, other, s) < 0;
        finer = finer || c->next[s] != c->class[s];
    }
    memcpy(c->class, c->next, (size_t)c->n * sizeof *c->class);
    return finer;
}

/* Splits the first class that has several stops: all but its first stop move to the next class. False: every stop has a class of its
 * own. */
static bool put_one_in_front(struct canon *c) {
    for (int k = 0; k < c->n; k++) {
        bool met = false, several = false;
        for (int s = 0; s < c->n; s++)
            if (c->class[s] == k) {
                c->class[s] += met;
                several = several || met;
                met = true;
            }
        if (several)
            return true;
    }
    return false;
}

static void renumber(struct load *load, const int *number, int *node, struct topo_paths **paths) {
    for (int s = 0; s < load->nstops; s++) {
        node[number[s]] = load->stop_node[s];
        paths[number[s]] = load->to_stop[s];
    }
    memcpy(load->stop_node, node, (size_t)load->nstops * sizeof *node);
    memcpy(load->to_stop, paths, (size_t)load->nstops * sizeof(struct topo_paths *));
    for (int r = 0; r < load->nlocal; r++)
        load->stop_of[r] = number[load->stop_of[r]];
}

static enum collet_result number_stops(struct load *load) {
    size_t n = (size_t)load->nstops;
    struct canon c = {.n = load->nstops, .nsights = load->nstops + load->nfound};
    struct arena arena SCOPED_ARENA = {0};
    c.class = arena_get(&arena, n, sizeof *c.class);
    c.next = arena_get(&arena, n, sizeof *c.next);
    c.sights = arena_get(&arena, n * (size_t)c.nsights, sizeof *c.sights);
    struct topo_paths **paths = arena_get(&arena, n, sizeof(struct topo_paths *));
    COLLET_TRY(arena_check(&arena, "no memory to number %d places of a host", c.n));
    do
        while (refine(&c, load))
            ;
    while (put_one_in_front(&c));
    renumber(load, c.class, c.next, paths);
    return COLLET_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------------------ links */

static void list_link(struct load *load, bool *listed, int link) {
    if (!listed[link])
        load->links[load->nlinks++] = link;
    listed[link] = true;
}

static void list_path(struct load *load, bool *listed, const struct topo_paths *paths, int to) {
    for (int l = topo_path_to(paths, to)->last_link; l >= 0; l = topo_path_before(load->topo, paths, l))
        list_link(load, listed, l);
}

/* Lists the links in the order in which paths pass them: first the paths of the first stop, then those of the second stop,
 * and so on. Links that no path passes never carry anything, and are left out. */
static enum collet_result list_links(struct load *load) {
    struct arena arena SCOPED_ARENA = {0};
    bool *listed = arena_get(&arena, (size_t)load->topo->nlinks + 1, sizeof *listed);
    COLLET_TRY(arena_check(&arena, "no memory for the %d links of a graph", load->topo->nlinks));
    for (int s = 0; s < load->nstops; s++) {
        for (int to = 0; to < load->nstops; to++)
            list_path(load, listed, load->to_stop[s], load->stop_node[to]);
        for (int k = 0; k < load->nfound; k++) {
            list_path(load, listed, load->to_stop[s], load->found[k].node);
            list_path(load, listed, load->found[k].paths, load->stop_node[s]);
        }
    }
    for (int k = 0; k < load->nfound; k++)
        for (int l = load->topo->nodes[load->found[k].node].first_link; l >= 0; l = load->topo->links[l].next)
            if (load->topo->links[l].medium == MEDIUM_NET) {
                list_link(load, listed, l);
                list_link(load, listed, l + 1);
            }
    return COLLET_SUCCESS;
}

enum collet_result canon_number(struct load *load) {
    if (load->nstops <= TOUR_EXACT_MAX)
        COLLET_TRY(number_stops(load));
    return list_links(load);
}
