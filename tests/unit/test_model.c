/* SPDX-License-Identifier: Apache-2.0
 *
 * What is chosen for ranks on GPUs that nobody has to own: their links come from a synthetic machine, the constants are those
 * that are built in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "plan/atlas.h"
#include "plan/forecast.h"
#include "plan/model.h"
#include "plan/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 4, NODE_RANKS_MAX = 8, RANKS_MAX = NODES_MAX * NODE_RANKS_MAX };

/* One rank on each GPU of some equal nodes. */
struct job {
    struct topo *host;
    struct peer_info peers[RANKS_MAX];
    struct config config;
    struct gpu_rank gpu;
    struct chan chan;
    struct map *map;
    struct prog_shape shape;
    struct tuner_limits limits;
    struct model *model;
};

static void draw_map(struct job *job, const char *machine, int nnodes) {
    struct atlas_node nodes[NODES_MAX];
    int32_t place[NODE_RANKS_MAX];
    void *graph, *atlas;
    size_t graph_bytes, size;
    assert_int_equal(topo_synthetic(machine, &job->host), COLLET_SUCCESS);
    for (int n = 0; n < job->host->nnodes; n++)
        if (job->host->nodes[n].kind == TOPO_GPU)
            place[job->host->nodes[n].gpu.dev] = n;
    assert_int_equal(topo_pack(job->host, &graph, &graph_bytes), COLLET_SUCCESS);
    int nlocal = topo_count(job->host, 0, TOPO_GPU);
    for (int n = 0; n < nnodes; n++)
        nodes[n] = (struct atlas_node){graph, graph_bytes, nlocal, false, place};
    for (int rank = 0; rank < nnodes * nlocal; rank++)
        job->peers[rank] = (struct peer_info){.rank = rank,
                                              .node = rank / nlocal * nlocal,
                                              .device = COLLET_DEVICE_CUDA(rank % nlocal),
                                              .process = {(uint64_t)rank + 1, 0}};
    assert_int_equal(atlas_pack(nodes, nnodes, &costs_default, &atlas, &size), COLLET_SUCCESS);
    assert_int_equal(map_create(job->peers, nnodes * nlocal, atlas, size, &job->map), COLLET_SUCCESS);
    free(graph);
    free(atlas);
}

static void open_job(struct job *job, const char *machine, int nnodes) {
    memset(job, 0, sizeof(*job));
    draw_map(job, machine, nnodes);
    assert_int_equal(config_read(&job->config), COLLET_SUCCESS);
    job->chan = (struct chan){.config = &job->config,
                              .peers = job->peers,
                              .nranks = job->map->nranks,
                              .gpu = &job->gpu,
                              .layout = chan_layout(&job->config, job->map->nranks, false)};
    assert_int_equal(map_shape(job->map, job->peers, 0, &job->shape), COLLET_SUCCESS);
    assert_int_equal(tuner_limits_read(&job->config, &job->chan.layout, map_rails(job->map), &job->limits),
                     COLLET_SUCCESS);
    tuner_limits_of_gpus(&job->config, 1, &job->limits);
    assert_int_equal(model_create(&job->chan, &job->config, job->map, &job->shape, 1, &job->model), COLLET_SUCCESS);
}

static void close_job(struct job *job) {
    model_destroy(job->model);
    prog_shape_fini(&job->shape);
    map_destroy(job->map);
    topo_destroy(job->host);
}

static struct plan_choice choice_of(const struct job *job, uint64_t bytes) {
    struct plan_choice choice;
    assert_int_equal(tuner_choose(&job->model->machine, &job->limits, PROG_ALLREDUCE, bytes, 1, &choice),
                     COLLET_SUCCESS);
    return choice;
}
