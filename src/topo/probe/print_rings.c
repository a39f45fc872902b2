/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/probe/print_rings.h"

#include "topo/trees.h"
#include "base/err.h"
#include "topo/probe/paths.h"
#include "topo/probe/speeds.h"

#include <math.h>
#include <stdlib.h>

#define NAME_TEXT (TOPO_NAME_BYTES + 16)

static int place_of(const struct topo_rings *rings, int host, int local) {
    return rings->place[topo_rank_of(rings, host, local)];
}

static int nic_node(const struct topo_rings *rings, int host, int nic) {
    return rings->topo->hosts[host].first_node + nic;
}

static void print_crossing_title(const struct topo_rings *rings, int c, FILE *out) {
    int like = 0;
    for (int h = 0; h < rings->nhosts; h++)
        like += rings->crossing_of[h] == c;
    if (rings->nhosts > 1)
        fprintf(out, "  host %d%s\n", rings->crossings[c].host, like > 1 ? " and those equal to it" : "");
}

/* ------------------------------------------------------------------------------------------------------------ rings */

static enum collet_result print_hop(const struct topo *topo, int from, int to, FILE *out) {
    struct topo_paths *paths;
    COLLET_TRY(topo_paths_from(topo, from, PATHS_IN_HOST, &paths));
    fprintf(out, " ─%s▶ ", topo_class_name(topo_path_to(paths, to)->class));
    free(paths);
    return COLLET_SUCCESS;
}

static enum collet_result print_route(const struct topo_rings *rings, const struct topo_crossing *crossing, int ring,
                                      FILE *out) {
    const struct topo *topo = rings->topo;
    const struct topo_route *route = &crossing->routes[ring];
    int host = crossing->host, last = crossing->nlocal - 1;
    char name[NAME_TEXT];
    fprintf(out, "    ring %-2d  ", ring);
    if (route->nic_in >= 0) {
        int nic = nic_node(rings, host, route->nic_in);
        fprintf(out, "%s", topo_node_name(topo, nic, name));
        COLLET_TRY(print_hop(topo, nic, place_of(rings, host, route->order[0]), out));
    }
    for (int i = 0; i <= last; i++) {
        fprintf(out, "%d", topo_rank_of(rings, host, route->order[i]));
        if (i < last)
            COLLET_TRY(print_hop(topo, place_of(rings, host, route->order[i]),
                                 place_of(rings, host, route->order[i + 1]), out));
    }
    int end = route->nic_out >= 0 ? nic_node(rings, host, route->nic_out) : place_of(rings, host, route->order[0]);
    COLLET_TRY(print_hop(topo, place_of(rings, host, route->order[last]), end, out));
    if (route->nic_out >= 0)
        fprintf(out, "%s\n", topo_node_name(topo, end, name));
    else
        fprintf(out, "%d\n", topo_rank_of(rings, host, route->order[0]));
    return COLLET_SUCCESS;
}

enum collet_result topo_print_rings(const struct topo_rings *rings, FILE *out) {
    char name[NAME_TEXT];
    fprintf(out, "rings: %d over %d ranks on %d host%s%s\n", rings->nrings, rings->nranks, rings->nhosts,
            rings->nhosts == 1 ? "" : "s", rings->zigzag ? "; odd hosts are crossed backwards" : "");
    for (int c = 0; c < rings->ncrossings; c++) {
        const struct topo_crossing *crossing = &rings->crossings[c];
        print_crossing_title(rings, c, out);
        fprintf(out, "    ranks   ");
        for (int i = 0; i < crossing->nlocal; i++)
            fprintf(out, "%s %d on %s", i == 0 ? "" : ",", topo_rank_of(rings, crossing->host, i),
                    topo_node_name(rings->topo, place_of(rings, crossing->host, i), name));
        fputc('\n', out);
        for (int ring = 0; ring < crossing->nroutes; ring++)
            COLLET_TRY(print_route(rings, crossing, ring, out));
    }
    return COLLET_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------------------ trees */

/* Number of heads that are printed. Of a larger job only the first ones are shown. */
enum { HEADS_SHOWN = 16 };

static int head_of(const struct topo_rings *rings, int host) {
    bool unused;
    return topo_rank_of(rings, host, topo_route_of(rings, 0, host, &unused)->order[0]);
}

static void print_head(const struct topo_rings *rings, int which, int host, FILE *out) {
    int parent = tree_place(rings->nhosts, which, host).parent;
    fprintf(out, "  %d", head_of(rings, host));
    if (parent < 0)
        fprintf(out, " (root)");
    else
        fprintf(out, " below %d", head_of(rings, parent));
}

enum collet_result topo_print_trees(const struct topo_rings *rings, FILE *out) {
    fprintf(out, "trees: along each ring's route a chain, up to its head%s\n",
            rings->nhosts > 1 ? "; heads form two trees" : "");
    for (int c = 0; c < rings->ncrossings; c++) {
        const struct topo_crossing *crossing = &rings->crossings[c];
        print_crossing_title(rings, c, out);
        for (int ring = 0; ring < crossing->nroutes; ring++) {
            fprintf(out, "    chain %-2d ", ring);
            for (int i = 0; i < crossing->nlocal; i++)
                fprintf(out, "%s%d", i == 0 ? "" : " ◀ ",
                        topo_rank_of(rings, crossing->host, crossing->routes[ring].order[i]));
            fputc('\n', out);
        }
    }
    for (int which = 0; which < TREES && rings->nhosts > 1; which++) {
        fprintf(out, "  heads of ring 0, tree %d:", which);
        for (int h = 0; h < rings->nhosts && h < HEADS_SHOWN; h++)
            print_head(rings, which, h, out);
        fprintf(out, "%s\n", rings->nhosts > HEADS_SHOWN ? "  …" : "");
    }
    return COLLET_SUCCESS;
}

/* -------------------------------------------------------------------------------------------------------- bandwidth */

static void print_bound(const struct topo_rings *rings, const char *what, const struct topo_bound *bound, FILE *out) {
    char from[NAME_TEXT], to[NAME_TEXT];
    if (bound->link < 0) {
        fprintf(out, "    %s: no link binds, all ranks are in one place\n", what);
        return;
    }
    const struct topo_link *link = &rings->topo->links[bound->link];
    fprintf(out, "    %s: bound by %s %s ▶ %s, %.1f GB/s for the data of %g\n", what, topo_link_name(rings->topo, link),
            topo_node_name(rings->topo, link->from, from), topo_node_name(rings->topo, link->to, to), link->gbps,
            bound->load);
}

enum collet_result topo_print_bandwidth(const struct topo_rings *rings, FILE *out) {
    double bus = rings->nrings * rings->ring_gbps, n = rings->nranks;
    fprintf(out, "expected bandwidth, by the links alone\n");
    if (isinf(bus)) {
        fprintf(out, "  rings and trees: not bound by any link\n");
        return COLLET_SUCCESS;
    }
    /* An allreduce moves 2 (n − 1) / n of its data over every hop of its ring. */
    fprintf(out, "  rings: %d × %.2f = %.2f GB/s of bus bandwidth", rings->nrings, rings->ring_gbps, bus);
    if (n > 1)
        fprintf(out, "; an allreduce of large data %.2f GB/s", bus * n / (2 * (n - 1)));
    fprintf(out, "\n  trees: %d × %.2f = %.2f GB/s, an allreduce of large data\n", rings->nrings, rings->tree_gbps,
            rings->nrings * rings->tree_gbps);
    for (int c = 0; c < rings->ncrossings; c++) {
        print_crossing_title(rings, c, out);
        print_bound(rings, "rings", &rings->crossings[c].ring_bound, out);
        print_bound(rings, "trees", &rings->crossings[c].tree_bound, out);
    }
    return COLLET_SUCCESS;
}

/* ---------------------------------------------------------------------------------------------------------- reasons */

static enum collet_result print_end(const struct topo_rings *rings, const struct topo_crossing *crossing, int ring,
                                    bool first, FILE *out) {
    const struct topo *topo = rings->topo;
    const struct topo_route *route = &crossing->routes[ring];
    int nic = nic_node(rings, crossing->host, first ? route->nic_in : route->nic_out);
    int end = place_of(rings, crossing->host, route->order[first ? 0 : crossing->nlocal - 1]);
    struct topo_paths *paths;
    char name[NAME_TEXT], end_name[NAME_TEXT];
    int nearer = 0, equal = 0;
    COLLET_TRY(topo_paths_from(topo, nic, PATHS_IN_HOST, &paths));
    const struct topo_path *mine = topo_path_to(paths, end);
    for (int i = 0; i < crossing->nlocal; i++) {
        const struct topo_path *path = topo_path_to(paths, place_of(rings, crossing->host, i));
        nearer += topo_path_is_nearer(path, mine);
        equal += path->class == mine->class && path->gbps == mine->gbps;
    }
    fprintf(out, "    %-16s ring %-2d %s %s: %s, %.1f GB/s; ", topo_node_name(topo, nic, name), ring,
            first ? "comes in to" : "goes out of", topo_node_name(topo, end, end_name), topo_class_name(mine->class),
            mine->gbps);
    if (nearer > 0)
        fprintf(out, "the nearer ones are the ring's other end\n");
    else
        fprintf(out, equal > 1 ? "nearest, of %d equally near\n" : "nearest\n", equal);
    free(paths);
    return COLLET_SUCCESS;
}

static bool carries(const struct topo_crossing *crossing, int nic) {
    for (int ring = 0; ring < crossing->nroutes; ring++)
        if (crossing->routes[ring].nic_in == nic || crossing->routes[ring].nic_out == nic)
            return true;
    return false;
}

static void print_idle_nics(const struct topo_rings *rings, const struct topo_crossing *crossing, FILE *out) {
    const struct topo_host *host = &rings->topo->hosts[crossing->host];
    char name[NAME_TEXT];
    for (int n = host->first_node; n < host->end_node; n++)
        if (rings->topo->nodes[n].kind == TOPO_NIC && !carries(crossing, n - host->first_node))
            fprintf(out, "    %-16s carries nothing: rings have equal shares, and %.2f GB/s would slow all of them\n",
                    topo_node_name(rings->topo, n, name), speed_of_nic(&rings->topo->nodes[n]));
}

enum collet_result topo_print_reasons(const struct topo_rings *rings, FILE *out) {
    if (rings->nhosts == 1) {
        fprintf(out, "why: one host, so rings stay on it; hops are the nearest that let all ranks be visited once\n");
        return COLLET_SUCCESS;
    }
    fprintf(out, "why these ends\n");
    for (int c = 0; c < rings->ncrossings; c++) {
        print_crossing_title(rings, c, out);
        for (int ring = 0; ring < rings->crossings[c].nroutes; ring++) {
            COLLET_TRY(print_end(rings, &rings->crossings[c], ring, true, out));
            COLLET_TRY(print_end(rings, &rings->crossings[c], ring, false, out));
        }
        print_idle_nics(rings, &rings->crossings[c], out);
    }
    return COLLET_SUCCESS;
}
