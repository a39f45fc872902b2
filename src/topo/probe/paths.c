/* SPDX-License-Identifier: Apache-2.0
 *
 * Dijkstra's algorithm with another order: the path with the wider bottleneck is better; of equally wide paths, the shorter
 * one. A longer path is never better than its beginning. This is all that the algorithm needs: it can always settle the best
 * node that is not settled yet.
 *
 *     A ──24── S ──24── B          from A: S 24 (1 link), B 24 (2 links), C 16 (3 links)
 *      ╲___8___╱         ╲16       the direct link of 8 to B is never the best: 24 over S is wider
 *                          C
 *
 * It runs twice: first over GPU links alone, for GPUs and NVSwitches, then over everything, for what the first run did not
 * reach. No path leads through a GPU, so no path needs links of both runs.
 */
#include "topo/probe/paths.h"

#include "base/memory.h"

#include <math.h>

struct path_search {
    const struct topo *topo;
    struct topo_paths *paths; /* The result. */
    bool *settled;            /* [n]: the path paths->to[n] is final. */
    bool gpu_links_only;
    bool anywhere;
};

static bool better(const struct topo_path *a, const struct topo_path *b) {
    return a->gbps > b->gbps || (a->gbps == b->gbps && a->nlinks < b->nlinks);
}

/* The index of the best node that is reached but not settled. −1: none. */
static int best_open(const struct path_search *run) {
    int best = -1;
    for (int n = 0; n < run->paths->nnodes; n++) {
        const struct topo_path *path = &run->paths->to[n];
        if (!run->settled[n] && path->gbps > 0 && (best < 0 || better(path, &run->paths->to[best])))
            best = n;
    }
    return best;
}

static bool forwards(const struct path_search *run, int node) {
    enum topo_kind kind = run->topo->nodes[node].kind;
    if (node == run->paths->from)
        return true;
    if (run->gpu_links_only)
        return kind == TOPO_NVS;
    return kind != TOPO_GPU && (kind != TOPO_NIC || run->anywhere);
}

static bool in_scope(const struct path_search *run, const struct topo_link *link) {
    int n = link->to - run->paths->first_node;
    return n >= 0 && n < run->paths->nnodes && (!run->gpu_links_only || link->medium == MEDIUM_NVLINK);
}

static void dijkstra(struct path_search *run) {
    struct topo_paths *paths = run->paths;
    for (int n = 0; n < paths->nnodes; n++) {
        run->settled[n] = false;
        paths->to[n] = (struct topo_path){.class = PATH_NONE, .last_link = -1};
    }
    paths->to[paths->from - paths->first_node].gbps = INFINITY;
    for (int at = best_open(run); at >= 0; at = best_open(run)) {
        run->settled[at] = true;
        if (!forwards(run, paths->first_node + at))
            continue;
        const struct topo *topo = run->topo;
        for (int l = topo->nodes[paths->first_node + at].first_link; l >= 0; l = topo->links[l].next) {
            const struct topo_link *link = &topo->links[l];
            struct topo_path longer = {
                .gbps = fmin(paths->to[at].gbps, link->gbps), .nlinks = paths->to[at].nlinks + 1, .last_link = l};
            if (in_scope(run, link) && better(&longer, &paths->to[link->to - paths->first_node]))
                paths->to[link->to - paths->first_node] = longer;
        }
    }
}

/* Only a PCI bridge is a switch. A network card with several ports does not forward between them. */
static bool is_switch(const struct topo_node *node) { return node->kind == TOPO_PCI && !topo_pci_is_nic(&node->pci); }

static enum topo_class class_of(const struct topo *topo, const struct topo_paths *paths, int node) {
    const struct topo_path *path = topo_path_to(paths, node);
    int switches = 0, cpus = topo->nodes[node].kind == TOPO_CPU;
    enum topo_medium farthest = MEDIUM_LOCAL;
    bool all_nvlink = true;
    if (path->gbps <= 0)
        return PATH_NONE;
    if (path->last_link < 0)
        return PATH_LOC;
    for (int l = path->last_link; l >= 0; l = topo_path_before(topo, paths, l)) {
        const struct topo_node *from = &topo->nodes[topo->links[l].from];
        switches += is_switch(from);
        cpus += from->kind == TOPO_CPU;
        all_nvlink = all_nvlink && topo->links[l].medium == MEDIUM_NVLINK;
        farthest = topo->links[l].medium > farthest ? topo->links[l].medium : farthest;
    }
    if (farthest == MEDIUM_NET)
        return PATH_NET;
    if (farthest == MEDIUM_SYS)
        return PATH_SYS;
    if (all_nvlink)
        return PATH_NVL;
    return cpus > 0 ? PATH_PHB : switches > 1 ? PATH_PXB : PATH_PIX;
}

/* Takes the paths over GPU links, for the GPUs and NVSwitches that such paths reach. */
static void prefer_gpu_links(const struct topo *topo, struct topo_paths *paths, const struct topo_path *gpu_links) {
    for (int n = 0; n < paths->nnodes; n++) {
        enum topo_kind kind = topo->nodes[paths->first_node + n].kind;
        if (gpu_links[n].gbps > 0 && (kind == TOPO_GPU || kind == TOPO_NVS))
            paths->to[n] = gpu_links[n];
    }
}

enum collet_result topo_paths_from(const struct topo *topo, int from, enum paths_scope scope,
                                   struct topo_paths **paths_p) {
    bool anywhere = scope == PATHS_ANYWHERE || from == topo->net;
    const struct topo_host *host = anywhere ? NULL : &topo->hosts[topo->nodes[from].host];
    int first = anywhere ? 0 : host->first_node, end = anywhere ? topo->nnodes : host->end_node;
    size_t n = (size_t)(end - first);
    struct arena arena SCOPED_ARENA = {0};
    struct topo_path *gpu_links = arena_get(&arena, n, sizeof *gpu_links);
    bool *settled = arena_get(&arena, n, sizeof *settled);
    struct topo_paths *paths;
    COLLET_TRY(arena_check(&arena, "no memory for paths to %zu nodes", n));
    COLLET_TRY(memory_get(&paths, 1, sizeof *paths + n * sizeof *paths->to, "no memory for paths to %zu nodes", n));
    paths->from = from;
    paths->first_node = first;
    paths->nnodes = (int)n;
    struct path_search run = {topo, paths, settled, true, anywhere};
    dijkstra(&run);
    for (size_t i = 0; i < n; i++)
        gpu_links[i] = paths->to[i];
    run.gpu_links_only = false;
    dijkstra(&run);
    prefer_gpu_links(topo, paths, gpu_links);
    for (int i = 0; i < paths->nnodes; i++)
        paths->to[i].class = class_of(topo, paths, first + i);
    *paths_p = paths;
    return COLLET_SUCCESS;
}
