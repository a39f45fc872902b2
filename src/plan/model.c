/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/model.h"

#include "base/err.h"
#include "chan/crowd.h"
#include "topo/paths.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>

/* What a model is made of. Ranks that are simulated are positions in the shape. */
struct source {
    const struct chan *chan;
    const struct map *map;
    const struct prog_shape *shape;
};

static int rank_at(const struct source *source, int position) { return prog_shape_rank(source->shape, position); }

/* The first ranks in the order of the shape, and whole nodes of them where that is possible. */
static enum collet_result choose_simulated(const struct prog_shape *whole, struct prog_shape *simulated) {
    int n = whole->nranks, node_ranks = whole->node_ranks;
    int node_of[COST_RANKS_MAX];
    if (n > COST_RANKS_MAX)
        n = node_ranks > 0 && node_ranks < COST_RANKS_MAX ? COST_RANKS_MAX / node_ranks * node_ranks : COST_RANKS_MAX;
    for (int position = 0; position < n; position++)
        node_of[position] = prog_shape_span(whole, position).node;
    COLLET_TRY(prog_shape_init(simulated, n, node_of));
    simulated->zigzag = whole->zigzag;
    simulated->chains = whole->chains;
    return COLLET_SUCCESS;
}

static void measure_node(const struct source *source, struct model *model, int position) {
    struct prog_span span = prog_shape_span(source->shape, position);
    model->node_of[position] = span.node;
    model->node_gbps[span.node] = map_node_gbps(source->map, rank_at(source, position));
    model->ranks_of_node[position] = span.count;
}

/* ---- on host memory ---- */

static bool is_remote(const struct chan *chan, int a, int b) {
    const struct transport *transport = chan_pair_transport(chan, a, b);
    return transport != NULL && transport->remote;
}

static enum link_class class_of_hosts(const struct source *source, int a, int b) {
    const struct peer_info *peers = source->chan->peers;
    if (is_remote(source->chan, a, b))
        return LINK_NET;
    return source->map->far[a] && crowd_apart(&peers[a], &peers[b]) ? LINK_MEMORY_FAR : LINK_MEMORY;
}

static void measure_hosts(const struct source *source, struct model *model) {
    int n = model->simulated.nranks;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            model->link[a * n + b] = (uint8_t)class_of_hosts(source, rank_at(source, a), rank_at(source, b));
}

/* ---- on GPUs ---- */

static bool is_on_map(const struct source *source, int rank) {
    return source->map->topo->nodes[source->map->place[rank]].kind == TOPO_GPU;
}

/* paths: from a's place. Of GPUs that the map does not know it is only known which are the same. */
static enum link_class class_of_gpus(const struct source *source, const struct topo_paths *paths, int a, int b) {
    const struct peer_info *x = &source->chan->peers[a], *y = &source->chan->peers[b];
    if (a != b && is_remote(source->chan, a, b))
        return LINK_GPU_NET;
    if (is_on_map(source, a) && is_on_map(source, b))
        return costs_class_of_gpus(topo_path_to(paths, source->map->place[b])->class);
    bool same = memcmp(x->process, y->process, sizeof(x->process)) == 0 && x->device == y->device;
    return costs_class_of_gpus(same ? PATH_LOC : PATH_PHB);
}

static enum collet_result measure_gpu(const struct source *source, struct model *model, int a) {
    int n = model->simulated.nranks, rank = rank_at(source, a);
    int sharing = 0;
    struct topo_paths *paths;
    COLLET_TRY(topo_paths_from(source->map->topo, source->map->place[rank], PATHS_IN_HOST, &paths));
    for (int b = 0; b < n; b++) {
        model->link[a * n + b] = (uint8_t)class_of_gpus(source, paths, rank, rank_at(source, b));
        sharing += model->link[a * n + b] == LINK_GPU; /* itself too */
    }
    free(paths);
    model->gpus[a].nvlink_gbps = map_gpu_gbps(source->map, rank, WIRE_NVLINK) / sharing;
    model->gpus[a].pci_gbps = map_gpu_gbps(source->map, rank, WIRE_PCI) / sharing;
    return COLLET_SUCCESS;
}

static enum collet_result measure_gpus(const struct source *source, struct model *model) {
    enum collet_result result = COLLET_SUCCESS;
    for (int a = 0; a < model->simulated.nranks && result == COLLET_SUCCESS; a++)
        result = measure_gpu(source, model, a);
    return result;
}

/* ---- life ---- */

static enum collet_result fill(const struct source *source, struct model *model) {
    size_t n = (size_t)model->simulated.nranks;
    model->link = calloc(n * n, sizeof(*model->link));
    model->node_of = calloc(n, sizeof(*model->node_of));
    model->node_gbps = calloc(n, sizeof(*model->node_gbps));
    model->ranks_of_node = calloc(n, sizeof(*model->ranks_of_node));
    model->gpus = calloc(n, sizeof(*model->gpus));
    if (model->link == NULL || model->node_of == NULL || model->node_gbps == NULL || model->ranks_of_node == NULL ||
        model->gpus == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the table of %d ranks", source->chan->nranks);
    for (int a = 0; a < (int)n; a++)
        measure_node(source, model, a);
    if (source->chan->gpu != NULL)
        return measure_gpus(source, model);
    measure_hosts(source, model);
    return COLLET_SUCCESS;
}

enum collet_result model_create(const struct chan *chan, const struct config *config, const struct map *map,
                                const struct prog_shape *shape, int nchannels, struct model **model_p) {
    struct source source = {chan, map, shape};
    struct model *model = calloc(1, sizeof(*model));
    if (model == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the cost model's view of %d ranks", chan->nranks);
    enum collet_result result = choose_simulated(shape, &model->simulated);
    if (result == COLLET_SUCCESS)
        result = fill(&source, model);
    if (result != COLLET_SUCCESS) {
        model_destroy(model);
        return result;
    }
    int cpus = crowd_cpus_of_node(chan->peers, chan->nranks, chan->peers[0].node);
    model->machine = (struct cost_machine){
        .costs = &map->costs,
        .gpus = chan->gpu != NULL ? model->gpus : NULL,
        .nranks = model->simulated.nranks,
        .shape = model->simulated,
        .whole = shape,
        .link = model->link,
        .node_of = model->node_of,
        .node_gbps = model->node_gbps,
        .rails = chan->gpu != NULL ? map_rails(map) : nchannels,
        .ranks_of_node = model->ranks_of_node,
        .cpus = config->cpus > 0 ? (int)config->cpus : cpus,
        .nslots = chan->layout.nslots,
    };
    *model_p = model;
    return COLLET_SUCCESS;
}

void model_destroy(struct model *model) {
    if (model == NULL)
        return;
    prog_shape_fini(&model->simulated);
    free(model->link);
    free(model->node_of);
    free(model->node_gbps);
    free(model->ranks_of_node);
    free(model->gpus);
    free(model);
}
