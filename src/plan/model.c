/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/model.h"

#include "base/err.h"
#include "chan/crowd.h"
#include "topo/paths.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>

/* What a model is made of, and what is needed while it is made. Ranks that are simulated are positions in the shape. */
struct source {
    const struct chan *chan;
    const struct map *map;
    const struct prog_shape *shape;
    int adapters;     /* of a node that channels use */
    int *nvlinks;     /* [node of the graph][way]: the model's link; −1: none yet */
    int *graph_links; /* [link of the graph]: the same */
    int *net;         /* [node of the communicator][way]: the same */
    int nlinks, links_room, ncrossed, crossed_room;
};

enum way { WAY_OUT, WAY_IN, WAY_COUNT };

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

/* ---- classes ---- */

static bool is_remote(const struct chan *chan, int a, int b) {
    const struct transport *transport = chan_pair_transport(chan, a, b);
    return transport != NULL && transport->remote;
}

static enum link_class class_of_hosts(const struct source *source, int a, int b) {
    const struct peer_info *peers = source->chan->owner.peers;
    if (is_remote(source->chan, a, b))
        return LINK_NET;
    return source->map->far[a] && crowd_apart(&peers[a], &peers[b]) ? LINK_MEMORY_FAR : LINK_MEMORY;
}

static bool is_on_map(const struct source *source, int rank) {
    return source->map->topo->nodes[source->map->place[rank]].kind == TOPO_GPU;
}

/* paths: from a's place. Of GPUs that the map does not know it is only known which are the same. */
static enum link_class class_of_gpus(const struct source *source, const struct topo_paths *paths, int a, int b) {
    const struct peer_info *x = &source->chan->owner.peers[a], *y = &source->chan->owner.peers[b];
    if (a != b && is_remote(source->chan, a, b))
        return LINK_GPU_NET;
    if (is_on_map(source, a) && is_on_map(source, b))
        return costs_class_of_gpus(topo_path_to(paths, source->map->place[b])->class);
    bool same = memcmp(x->process, y->process, sizeof(x->process)) == 0 && x->device == y->device;
    return costs_class_of_gpus(same ? PATH_LOC : PATH_PHB);
}

/* ---- links ---- */

/* Room for one more in an array. */
static enum collet_result grow(void *array_p, int *room, int count, size_t elem_bytes) {
    void *bigger, **array = array_p;
    if (count < *room)
        return COLLET_SUCCESS;
    bigger = realloc(*array, (size_t)(2 * count + 64) * elem_bytes);
    if (bigger == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the links of a cost model");
    *array = bigger;
    *room = 2 * count + 64;
    return COLLET_SUCCESS;
}

/* Adds a link to the route that is being made; *number is the link's, −1 if this is the first route over it. */
static enum collet_result cross(struct source *source, struct model *model, int *number, double gbps, int wires) {
    if (gbps <= 0)
        return COLLET_SUCCESS;
    if (*number < 0) {
        COLLET_TRY(grow(&model->links, &source->links_room, source->nlinks, sizeof(*model->links)));
        model->links[source->nlinks] = (struct cost_link){gbps, wires};
        *number = source->nlinks++;
    }
    COLLET_TRY(grow(&model->crossed, &source->crossed_room, source->ncrossed, sizeof(*model->crossed)));
    model->crossed[source->ncrossed++] = *number;
    return COLLET_SUCCESS;
}

static enum collet_result cross_graph(struct source *source, struct model *model, int link) {
    const struct topo_link *l = &source->map->topo->links[link];
    return l->wire == WIRE_LOCAL ? COLLET_SUCCESS : cross(source, model, &source->graph_links[link], l->gbps, 1);
}

static enum collet_result cross_path(struct source *source, struct model *model, const struct topo_paths *paths,
                                     int to) {
    for (int l = topo_path_to(paths, to)->last_link; l >= 0; l = topo_path_before(source->map->topo, paths, l))
        COLLET_TRY(cross_graph(source, model, l));
    return COLLET_SUCCESS;
}

static enum collet_result cross_nvlinks(struct source *source, struct model *model, int rank, enum way way) {
    return cross(source, model, &source->nvlinks[WAY_COUNT * source->map->place[rank] + way],
                 map_nvlink_gbps(source->map, rank), 1);
}

/* Between a GPU and its CPU; ranks on CPUs have nothing of the kind. */
static enum collet_result cross_pci(struct source *source, struct model *model, int rank, enum way way) {
    const struct topo *topo = source->map->topo;
    int place = source->map->place[rank], parent = topo->nodes[place].parent;
    if (!is_on_map(source, rank) || parent < 0)
        return COLLET_SUCCESS;
    int l = topo->nodes[way == WAY_OUT ? place : parent].first_link;
    while (l >= 0 && topo->links[l].to != (way == WAY_OUT ? parent : place))
        l = topo->links[l].next;
    return l < 0 ? COLLET_SUCCESS : cross_graph(source, model, l);
}

static enum collet_result cross_net(struct source *source, struct model *model, int a, enum way way) {
    int node = prog_shape_span(source->shape, a).node;
    return cross(source, model, &source->net[WAY_COUNT * node + way], map_node_gbps(source->map, rank_at(source, a)),
                 source->adapters);
}

/* What stays inside a node does not come to its adapters, whatever carries it. */
static enum collet_result make_route(struct source *source, struct model *model, const struct topo_paths *paths, int a,
                                     int b, enum link_class class) {
    int from = rank_at(source, a), to = rank_at(source, b);
    bool inside = source->chan->owner.peers[from].node == source->chan->owner.peers[to].node;
    if (class == LINK_GPU_NVLINK) {
        COLLET_TRY(cross_nvlinks(source, model, from, WAY_OUT));
        return cross_nvlinks(source, model, to, WAY_IN);
    }
    if ((class == LINK_GPU_PCI || class == LINK_GPU_HOST) && is_on_map(source, from) && is_on_map(source, to))
        return cross_path(source, model, paths, source->map->place[to]);
    if (inside || (class != LINK_NET && class != LINK_GPU_NET))
        return COLLET_SUCCESS;
    COLLET_TRY(cross_pci(source, model, from, WAY_OUT));
    COLLET_TRY(cross_net(source, model, a, WAY_OUT));
    COLLET_TRY(cross_net(source, model, b, WAY_IN));
    return cross_pci(source, model, to, WAY_IN);
}

/* ---- all pairs ---- */

static enum collet_result measure_from(struct source *source, struct model *model, int a,
                                       const struct topo_paths *paths) {
    int n = model->simulated.nranks, rank = rank_at(source, a);
    for (int b = 0; b < n; b++) {
        int other = rank_at(source, b), first = source->ncrossed;
        enum link_class class = source->chan->owner.gpu != NULL ? class_of_gpus(source, paths, rank, other)
                                                                : class_of_hosts(source, rank, other);
        model->class[a * n + b] = (uint8_t) class;
        COLLET_TRY(make_route(source, model, paths, a, b, class));
        model->route[a * n + b].count = source->ncrossed - first;
    }
    return COLLET_SUCCESS;
}

static enum collet_result measure(struct source *source, struct model *model) {
    int n = model->simulated.nranks;
    for (int a = 0; a < n; a++) {
        struct topo_paths *paths;
        COLLET_TRY(topo_paths_from(source->map->topo, source->map->place[rank_at(source, a)], PATHS_IN_HOST, &paths));
        enum collet_result result = measure_from(source, model, a, paths);
        free(paths);
        COLLET_TRY(result);
        model->ranks_of_node[a] = prog_shape_span(source->shape, a).count;
    }
    const int *at = model->crossed;
    for (int pair = 0; pair < n * n; at += model->route[pair++].count)
        model->route[pair].link = at;
    return COLLET_SUCCESS;
}

/* ---- life ---- */

static int *none_yet(int count) {
    int *numbers = malloc((size_t)(count + 1) * sizeof(*numbers));
    for (int k = 0; numbers != NULL && k < count; k++)
        numbers[k] = -1;
    return numbers;
}

static enum collet_result fill(struct source *source, struct model *model) {
    size_t n = (size_t)model->simulated.nranks;
    enum collet_result result = COLLET_ERR_NO_MEMORY;
    source->nvlinks = none_yet(WAY_COUNT * source->map->topo->nnodes);
    source->graph_links = none_yet(source->map->topo->nlinks);
    source->net = none_yet(WAY_COUNT * source->chan->owner.nranks);
    model->class = calloc(n * n, sizeof(*model->class));
    model->route = calloc(n * n, sizeof(*model->route));
    model->ranks_of_node = calloc(n, sizeof(*model->ranks_of_node));
    if (source->nvlinks == NULL || source->graph_links == NULL || source->net == NULL || model->class == NULL ||
        model->route == NULL || model->ranks_of_node == NULL)
        err_set(result, "no memory for the table of %d ranks", source->chan->owner.nranks);
    else
        result = measure(source, model);
    free(source->nvlinks);
    free(source->graph_links);
    free(source->net);
    return result;
}

enum collet_result model_create(const struct chan *chan, const struct config *config, const struct map *map,
                                const struct prog_shape *shape, int nchannels, struct model **model_p) {
    struct source source = {.chan = chan, .map = map, .shape = shape};
    struct model *model = calloc(1, sizeof(*model));
    if (model == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for the cost model's view of %d ranks", chan->owner.nranks);
    source.adapters = chan->owner.gpu != NULL ? map_rails(map) : nchannels;
    enum collet_result result = choose_simulated(shape, &model->simulated);
    if (result == COLLET_SUCCESS)
        result = fill(&source, model);
    if (result != COLLET_SUCCESS) {
        model_destroy(model);
        return result;
    }
    int cpus = crowd_cpus_of_node(chan->owner.peers, chan->owner.nranks, chan->owner.peers[0].node);
    model->machine = (struct cost_machine){
        .costs = &map->costs,
        .gpu = chan->owner.gpu != NULL,
        .nranks = model->simulated.nranks,
        .shape = model->simulated,
        .whole = shape,
        .class = model->class,
        .route = model->route,
        .links = model->links,
        .nlinks = source.nlinks,
        .ranks_of_node = model->ranks_of_node,
        .cpus = config->cpus > 0 ? (int)config->cpus : cpus,
        .nslots = chan->owner.layout.nslots,
    };
    *model_p = model;
    return COLLET_SUCCESS;
}

void model_destroy(struct model *model) {
    if (model == NULL)
        return;
    prog_shape_fini(&model->simulated);
    free(model->class);
    free(model->route);
    free(model->crossed);
    free(model->links);
    free(model->ranks_of_node);
    free(model);
}
