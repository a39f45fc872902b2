/* SPDX-License-Identifier: Apache-2.0
 *
 * A communicator on hosts that are not here, as far as its tuner needs it: map, shapes, limits and cost model, as the planner makes
 * them (plan/plan.c).
 */
#ifndef COLLET_TESTS_MODELLED_H
#define COLLET_TESTS_MODELLED_H

#include "base/config_read.h"
#include "chan/slots.h"
#include "layers/gpu/gpu.h"
#include "layers/tuner/cards.h"
#include "layers/tuner/limits_gpu.h"
#include "layers/tuner/model.h"
#include "plan/limits.h"
#include "topo/probe/atlas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES_MAX = 16, NODE_RANKS_MAX = 16, RANKS_MAX = NODES_MAX * NODE_RANKS_MAX };

struct modelled {
    struct topo *host;
    struct peer_info peers[RANKS_MAX];
    struct config config;
    struct gpu_rank gpu;
    struct chan chan;
    struct map *map;
    struct prog_shape *shapes;
    struct tuner_limits limits;
    struct model *model;
};

/* As transport_shares_device() says it of ranks that are there. */
static inline int modelled_sharers(const struct modelled *job, bool *apart_p) {
    int here = 0;
    *apart_p = false;
    for (int rank = 0; rank < job->map->nranks; rank++) {
        bool shared = job->peers[rank].node == 0 && job->peers[rank].device == job->peers[0].device;
        here += shared;
        *apart_p |= !shared;
    }
    return here;
}

static inline void modelled_draw(struct modelled *job, int nnodes, int per_host) {
    struct atlas_node nodes[NODES_MAX];
    int32_t place[NODE_RANKS_MAX];
    int nlocal, *places;
    char *graph;
    void *atlas;
    size_t size;
    struct cost_table costs = costs_default;
    assert_int_equal(topo_place_ranks(job->host, per_host, &nlocal, &places), COLLET_SUCCESS);
    for (int k = 0; k < nlocal; k++)
        place[k] = places[k];
    const bool gpu = job->host->nodes[places[0]].kind == TOPO_GPU;
    assert_int_equal(topo_share(job->host, nlocal, place, &graph), COLLET_SUCCESS);
    for (int n = 0; n < nnodes; n++)
        nodes[n] = (struct atlas_node){
            .graph = graph, .graph_bytes = strlen(graph), .nlocal = nlocal, .facts.joined = 1, .place = place};
    for (int rank = 0; rank < nnodes * nlocal; rank++)
        job->peers[rank] =
            (struct peer_info){.rank = rank,
                               .node = rank / nlocal * nlocal,
                               .device = gpu ? COLLET_DEVICE_CUDA(place[rank % nlocal]) : COLLET_DEVICE_HOST,
                               .process = {(uint64_t)rank + 1, 0}};
    if (gpu)
        assert_int_equal(card_suit((struct card_gpu){.sm = job->host->nodes[places[0]].gpu.sm}, CARD_KERNELS, &costs),
                         COLLET_SUCCESS);
    assert_int_equal(atlas_pack(nodes, nnodes, &costs, &atlas, &size), COLLET_SUCCESS);
    assert_int_equal(chart_create(job->peers, nnodes * nlocal, atlas, size, &job->map), COLLET_SUCCESS);
    job->chan.owner.gpu = gpu ? &job->gpu : NULL;
    free(places);
    free(graph);
    free(atlas);
}

/* Words of recorded rows: which of n names, and which collective. */
static inline int modelled_word(const char *const *names, int n, const char *name) {
    int k = 0;
    while (k < n && strcmp(names[k], name) != 0)
        k++;
    assert_true(k < n);
    return k;
}

static inline enum prog_collective modelled_collective(const char *name) {
    enum prog_collective collective;
    assert_true(prog_collective_find(name, strlen(name), &collective));
    return collective;
}

/* Ranks on nnodes hosts like this: one on each of its GPUs (per_host 0), or per_host on its CPUs or GPUs. cpus: of each; 0: as the knobs say. */
static inline void modelled_open(struct modelled *job, const char *machine, int nnodes, int per_host, int cpus) {
    memset(job, 0, sizeof *job);
    assert_int_equal(config_read(&job->config), COLLET_SUCCESS);
    if (cpus > 0)
        job->config.cpus = cpus;
    assert_int_equal(topo_synthetic(machine, &job->host), COLLET_SUCCESS);
    modelled_draw(job, nnodes, per_host);
    const int norders = job->map->norders;
    struct conn_owner *owner = &job->chan.owner;
    owner->config = &job->config;
    owner->peers = job->peers;
    owner->nranks = job->map->nranks;
    owner->fans = nnodes == 1 && owner->gpu == NULL && owner->nranks > 2 && job->config.fans;
    const struct chan_scale scale = {job->map->nranks, job->map->nranks / nnodes, nnodes > 1, owner->gpu != NULL,
                                     false};
    chan_layouts(&job->config, &scale, owner->layouts);
    job->shapes = job->map->shapes;
    assert_int_equal(tuner_limits_read(&job->config, owner->layouts, job->map->nrails, &job->limits), COLLET_SUCCESS);
    bool apart;
    int sharers = modelled_sharers(job, &apart);
    if (owner->gpu != NULL)
        tuner_limits_of_gpus(&job->config, chart_of(job->map)->costs.gpu_blocks, sharers, apart, &job->limits);
    assert_int_equal(model_create(&job->chan, &job->config, job->map, job->shapes, norders, &job->model),
                     COLLET_SUCCESS);
}

static inline void modelled_close(struct modelled *job) {
    model_destroy(job->model);
    chart_destroy(job->map);
    topo_destroy(job->host);
}

#endif
