/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tuner/model.h"

#include "base/memory.h"
#include "chan/crowd.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>

/* The parts from which a model is made. */
struct source {
    const struct chan *chan;
    const struct config *config;
    const struct map *map;
    const struct prog_shape *shapes;
};

/* ---- which ranks ---- */

/* Counts the ranks to be simulated: the first ranks along the first ring, in whole nodes if possible. */
static int count_simulated(const struct prog_shape *shape) {
    int n = shape->nranks, node_ranks = shape->node_ranks;
    if (n <= COST_RANKS_MAX)
        return n;
    return node_ranks > 0 && node_ranks < COST_RANKS_MAX ? COST_RANKS_MAX / node_ranks * node_ranks : COST_RANKS_MAX;
}

/* Makes the shape of the simulated ranks, in the order in which `whole` lists them. */
static enum collet_result shape_simulated(const struct model *model, const struct prog_shape *first,
                                          const struct prog_shape *whole, struct prog_shape *simulated) {
    int n = model->machine.cast.nlocal, node_of[COST_RANKS_MAX], along[COST_RANKS_MAX], count = 0;
    for (int s = 0; s < n; s++)
        node_of[s] = prog_shape_span(first, s).node;
    for (int position = 0; position < whole->nranks; position++) {
        int s = prog_shape_position(first, prog_shape_rank(whole, position));
        if (s < n)
            along[count++] = s;
    }
    COLLET_TRY(prog_shape_init(simulated, n, node_of, along));
    simulated->zigzag = whole->zigzag;
    simulated->chains = whole->chains;
    return COLLET_SUCCESS;
}

static enum collet_result choose_simulated(const struct source *source, struct model *model) {
    const struct prog_shape *first = &source->shapes[0];
    for (int s = 0; s < model->machine.cast.nlocal; s++)
        model->rank_of[s] = prog_shape_rank(first, s);
    for (int k = 0; k < model->machine.nshapes; k++)
        COLLET_TRY(shape_simulated(model, first, &source->shapes[k], &model->simulated[k]));
    return COLLET_SUCCESS;
}

/* ---- what lies between them ---- */

struct between {
    const struct source *source;
    const struct model *model;
};

static enum net_reach reach_of(const void *context, int from, int to) {
    const struct between *between = context;
    const struct chan *chan = between->source->chan;
    int a = between->model->rank_of[from], b = between->model->rank_of[to];
    const struct peer_info *x = &chan->owner.peers[a], *y = &chan->owner.peers[b];
    const struct transport *transport = chan_pair_transport(chan, a, b);
    if (transport != NULL && transport->remote)
        return NET_REMOTE;
    if (chan->owner.gpu != NULL)
        return transport_shares_device(x, y) ? NET_SAME : NET_NEAR;
    const struct node_facts *facts = &between->source->map->facts[a];
    if (!crowd_apart(x, y))
        return NET_NEAR;
    return facts->measured ? NET_MEASURED : facts->far ? NET_FAR : NET_NEAR;
}

/* Which payloads do two host ranks lend each other? The answer must be equal on all ranks. So it depends only on what both ranks
 * announced at init, and on what the lowest rank of their node measured. (If the kernel forbids that rank to copy, it tells all ranks
 * that slots are faster.) It does not depend on what only one rank knows: whether the kernel permits that rank to copy, and where its
 * buffers lie. */
static struct sim_loan loan_of(const void *context, int from, int to) {
    const struct between *between = context;
    const struct chan *chan = between->source->chan;
    int a = between->model->rank_of[from], b = between->model->rank_of[to];
    const struct transport *transport = chan_pair_transport(chan, a, b);
    if (transport == NULL)
        return (struct sim_loan){0};
    uint64_t x = transport_card(transport, &chan->owner.peers[a]);
    uint64_t y = transport_card(transport, &chan->owner.peers[b]);
    struct sim_loan loan = {.class = transport->bit == COLLET_TRANSPORT_SELF ? LINK_LENT : LINK_LENT_CMA};
    if (x == 0 || y == 0 || (loan.class == LINK_LENT_CMA && !between->source->map->facts[a].kernel_copies))
        return loan;
    uint64_t least = x > y ? x : y;
    if (chan->owner.config->direct_bytes > 0)
        least = (uint64_t)chan->owner.config->direct_bytes;
    loan.least_bytes = (uint32_t)least;
    return loan;
}

static enum collet_result model_routes(const struct source *source, struct model *model) {
    struct between between = {source, model};
    int place[COST_RANKS_MAX], n = model->machine.cast.nlocal;
    for (int s = 0; s < n; s++)
        place[s] = chart_of(source->map)->place[model->rank_of[s]];
    struct net_source routes = {.topo = chart_of(source->map)->topo,
                                .rings = chart_of(source->map)->rings,
                                .nranks = n,
                                .nhosts = 1,
                                .rank_of = model->rank_of,
                                .place = place,
                                .gpu = source->chan->owner.gpu != NULL,
                                .reach = reach_of,
                                .loan = loan_of,
                                .context = &between};
    return net_create(&routes, &model->net);
}

/* ---- who shares a CPU ---- */

static void model_crowds(const struct source *source, struct model *model) {
    const struct chan *chan = source->chan;
    int cpus = crowd_cpus_of_node(chan->owner.peers, chan->owner.nranks, chan->owner.peers[0].node);
    if (source->config->cpus > 0)
        cpus = (int)source->config->cpus;
    for (int s = 0; s < model->machine.cast.nlocal; s++) {
        model->crowd[s] = (double)prog_shape_span(&model->simulated[0], s).count / cpus;
        model->node[s] = prog_shape_span(&model->simulated[0], s).node;
    }
}

/* ---- all of it ---- */

static enum collet_result fill_model(const struct source *source, struct model *model) {
    const struct chan *chan = source->chan;
    size_t n = (size_t)model->machine.cast.nlocal;
    model->simulated = arena_get(&model->arena, (size_t)model->machine.nshapes, sizeof(*model->simulated));
    model->rank_of = arena_get(&model->arena, n, sizeof(*model->rank_of));
    model->crowd = arena_get(&model->arena, n, sizeof(*model->crowd));
    model->node = arena_get(&model->arena, n, sizeof(*model->node));
    COLLET_TRY(arena_check(&model->arena, "no memory for the cost model's view of %d ranks", chan->owner.nranks));
    COLLET_TRY(choose_simulated(source, model));
    COLLET_TRY(model_routes(source, model));
    model_crowds(source, model);
    model->machine.shapes = model->simulated;
    model->machine.net = model->net;
    model->machine.crowd = model->machine.gpu ? NULL : model->crowd;
    model->machine.node = model->node;
    return COLLET_SUCCESS;
}

enum collet_result model_create(const struct chan *chan, const struct config *config, const struct map *map,
                                const struct prog_shape *shapes, int nshapes, struct model **model_p) {
    struct source source = {.chan = chan, .config = config, .map = map, .shapes = shapes};
    struct model *model;
    COLLET_TRY(
        memory_get(&model, 1, sizeof *model, "no memory for the cost model's view of %d ranks", chan->owner.nranks));
    model->machine = (struct cost_machine){
        .costs = &chart_of(map)->costs,
        .gpu = chan->owner.gpu != NULL,
        .fans = chan->owner.fans,
        .cast = {.grouping = SIM_EACH, .nhosts = 1, .nlocal = count_simulated(&shapes[0])},
        .nshapes = nshapes,
        .whole = &shapes[0],
        .nslots = chan->owner.layouts[PROG_TO_FEW].nslots,
    };
    enum collet_result result = fill_model(&source, model);
    if (result == COLLET_SUCCESS)
        *model_p = model;
    else
        model_destroy(model);
    return result;
}

void model_destroy(struct model *model) {
    if (model == NULL)
        return;
    for (int k = 0; model->simulated != NULL && k < model->machine.nshapes; k++)
        prog_shape_fini(&model->simulated[k]);
    net_destroy(model->net);
    arena_free(&model->arena);
    free(model);
}
