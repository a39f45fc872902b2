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
    struct prog_shape *shapes;
    struct tuner_limits limits;
    struct model *model;
};

static void draw_map(struct job *job, const char *machine, int nnodes) {
    struct atlas_node nodes[NODES_MAX];
    int32_t place[NODE_RANKS_MAX];
    char *graph;
    void *atlas;
    size_t size;
    assert_int_equal(topo_synthetic(machine, &job->host), COLLET_SUCCESS);
    for (int n = 0; n < job->host->nnodes; n++)
        if (job->host->nodes[n].kind == TOPO_GPU)
            place[job->host->nodes[n].gpu.dev] = n;
    int nlocal = topo_count(job->host, 0, TOPO_GPU);
    assert_int_equal(topo_share(job->host, nlocal, place, &graph), COLLET_SUCCESS);
    for (int n = 0; n < nnodes; n++)
        nodes[n] = (struct atlas_node){
            .graph = graph, .graph_bytes = strlen(graph), .nlocal = nlocal, .joined = true, .place = place};
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
    job->chan = (struct chan){.owner.config = &job->config,
                              .owner.peers = job->peers,
                              .owner.nranks = job->map->nranks,
                              .owner.gpu = &job->gpu};
    const struct chan_scale scale = {job->map->nranks, job->map->nranks / nnodes, false, true};
    chan_layouts(&job->config, &scale, job->chan.owner.layouts);
    int norders = map_orders(job->map);
    job->shapes = calloc((size_t)norders, sizeof(*job->shapes));
    for (int k = 0; k < norders; k++)
        assert_int_equal(map_shape(job->map, job->peers, k, &job->shapes[k]), COLLET_SUCCESS);
    assert_int_equal(tuner_limits_read(&job->config, job->chan.owner.layouts, map_rails(job->map), &job->limits),
                     COLLET_SUCCESS);
    tuner_limits_of_gpus(&job->config, 1, &job->limits);
    assert_int_equal(model_create(&job->chan, &job->config, job->map, job->shapes, norders, &job->model),
                     COLLET_SUCCESS);
}

static void close_job(struct job *job) {
    model_destroy(job->model);
    for (int k = 0; k < map_orders(job->map); k++)
        prog_shape_fini(&job->shapes[k]);
    free(job->shapes);
    map_destroy(job->map);
    topo_destroy(job->host);
}

static struct plan_choice choice_of(const struct job *job, uint64_t bytes) {
    struct plan_choice choice;
    assert_int_equal(tuner_choose(&job->model->machine, &job->limits, PROG_ALLREDUCE, bytes, 1, &choice),
                     COLLET_SUCCESS);
    return choice;
}

static struct tuner_limits only(const struct job *job, const char *algorithm, int nchannels) {
    struct tuner_limits limits = job->limits;
    for (int k = 0; algorithms[k].name != NULL; k++)
        limits.algorithm_named[k] = strcmp(algorithms[k].name, algorithm) == 0;
    limits.nchannels = limits.most_nchannels = nchannels;
    limits.protocol_allowed[PROTOCOL_LL] = limits.protocol_allowed[PROTOCOL_LL128] = false;
    return limits;
}

/* Of allreduce with Simple. */
static double ns_of(const struct job *job, const char *algorithm, int nchannels, uint64_t bytes) {
    struct tuner_limits limits = only(job, algorithm, nchannels);
    struct plan_choice choice;
    assert_int_equal(tuner_choose(&job->model->machine, &limits, PROG_ALLREDUCE, bytes, 1, &choice), COLLET_SUCCESS);
    return choice.predicted_ns;
}

/* ---- what lies between ranks ---- */

static struct sim_route route_between(const struct job *job, int a, int b) {
    struct sim_route route;
    const int *position = job->shapes[0].position;
    net_route(job->model->net, 0, position[a], position[b], &route);
    return route;
}

static enum link_class class_between(const struct job *job, int a, int b) { return route_between(job, a, b).class; }

static int crossed_between(const struct job *job, int a, int b) {
    struct sim_route route = route_between(job, a, b);
    return route.out.count + route.in.count;
}

static void links_between_gpus_have_the_class_of_their_path(void **state) {
    (void)state;
    struct job job;
    open_job(&job, "8 gpu nvswitch : 4 nic 100", 2);
    assert_int_equal(class_between(&job, 0, 0), LINK_GPU);
    assert_int_equal(class_between(&job, 0, 7), LINK_GPU_NVLINK);
    assert_int_equal(class_between(&job, 7, 8), LINK_GPU_NET);
    assert_int_equal(crossed_between(&job, 0, 0), 0);
    assert_int_equal(crossed_between(&job, 0, 7), 2); /* out of one GPU, into the other */
    assert_true(crossed_between(&job, 7, 8) >= 4);    /* PCI and an adapter, on both sides */
    close_job(&job);
    open_job(&job, "4 gpu pci : 4 nic 100", 1);
    assert_int_equal(class_between(&job, 0, 1), LINK_GPU_PCI);
    assert_int_equal(class_between(&job, 0, 2), LINK_GPU_HOST); /* behind the other CPU */
    assert_true(crossed_between(&job, 0, 2) > crossed_between(&job, 0, 1));
    close_job(&job);
}

/* ---- what is chosen ---- */

static void eight_gpus_behind_a_switch_get_ll_then_ll128_then_rings_of_simple(void **state) {
    (void)state;
    struct job job;
    bool ll128 = false;
    open_job(&job, "8 gpu nvswitch : 4 nic 100", 1);
    for (uint64_t bytes = 8; bytes <= 4096; bytes *= 2) {
        struct plan_choice choice = choice_of(&job, bytes);
        assert_int_equal(choice.protocol, PROTOCOL_LL);
        assert_true(choice.nchannels <= 8);
    }
    assert_int_equal(choice_of(&job, 8).nchannels, 1);
    for (int k = 0; algorithms[k].name != NULL; k++) /* doubling in LL is expected to be as good: without it */
        job.limits.algorithm_named[k] = strcmp(algorithms[k].name, "doubling") != 0;
    for (uint64_t bytes = 128 << 10; bytes <= 32 << 20; bytes *= 2)
        ll128 |= choice_of(&job, bytes).protocol == PROTOCOL_LL128;
    assert_true(ll128);
    struct plan_choice large = choice_of(&job, 256 << 20);
    assert_string_equal(large.algorithm->name, "ring");
    assert_int_equal(large.protocol, PROTOCOL_SIMPLE);
    assert_true(large.nchannels >= 8);
    close_job(&job);
}

static void where_ll128_is_not_allowed_it_is_not_chosen(void **state) {
    (void)state;
    struct job job;
    open_job(&job, "8 gpu nvswitch : 4 nic 100", 1);
    job.limits.protocol_allowed[PROTOCOL_LL128] = false;
    for (uint64_t bytes = 8; bytes <= 1 << 30; bytes *= 8)
        assert_int_not_equal(choice_of(&job, bytes).protocol, PROTOCOL_LL128);
    close_job(&job);
}

static void large_calls_between_nodes_use_all_adapters(void **state) {
    (void)state;
    struct job job;
    open_job(&job, "8 gpu nvswitch : 4 nic 100", 2);
    assert_true(choice_of(&job, 256 << 20).nchannels >= 4);
    close_job(&job);
}

/* ---- bandwidth ---- */

static void more_channels_carry_more_until_the_links_are_full(void **state) {
    (void)state;
    struct job job;
    open_job(&job, "8 gpu nvswitch : 4 nic 100", 1);
    uint64_t bytes = 256 << 20;
    double full_ns = 2.0 * 7 / 8 * (double)bytes / job.model->net->link_gbps[0];
    double one_ns = ns_of(&job, "ring", 1, bytes), most_ns = ns_of(&job, "ring", 32, bytes);
    for (int n = 2; n <= 8; n *= 2)
        assert_true(fabs(ns_of(&job, "ring", n, bytes) * n - one_ns) < 0.02 * one_ns);
    assert_true(most_ns >= full_ns && most_ns < 1.1 * full_ns);
    assert_true(ns_of(&job, "ring", 64, bytes) >= full_ns);
    close_job(&job);
}

/* ---- how many channels may be ---- */

static void the_configuration_bounds_the_number_of_channels(void **state) {
    (void)state;
    struct job job;
    open_job(&job, "8 gpu nvswitch : 4 nic 100", 1);
    job.config.max_nchannels = 4;
    assert_int_equal(tuner_limits_read(&job.config, job.chan.owner.layouts, 1, &job.limits), COLLET_SUCCESS);
    tuner_limits_of_gpus(&job.config, 1, &job.limits);
    assert_int_equal(choice_of(&job, 256 << 20).nchannels, 4);
    job.config.nchannels = 3;
    assert_int_equal(tuner_limits_read(&job.config, job.chan.owner.layouts, 1, &job.limits), COLLET_SUCCESS);
    tuner_limits_of_gpus(&job.config, 1, &job.limits);
    assert_int_equal(choice_of(&job, 8).nchannels, 3);
    assert_int_equal(choice_of(&job, 256 << 20).nchannels, 3);
    close_job(&job);
}

static void ranks_that_share_a_gpu_get_fewer_channels(void **state) {
    (void)state;
    struct job job;
    open_job(&job, "8 gpu nvswitch : 4 nic 100", 1);
    tuner_limits_of_gpus(&job.config, 16, &job.limits);
    assert_true(choice_of(&job, 256 << 20).nchannels <= 2);
    tuner_limits_of_gpus(&job.config, 100, &job.limits);
    assert_int_equal(choice_of(&job, 256 << 20).nchannels, 1);
    close_job(&job);
}

static void connections_do_not_take_all_memory_of_a_gpu(void **state) {
    (void)state;
    struct job job;
    open_job(&job, "8 gpu nvswitch : 4 nic 100", 1);
    for (uint64_t bytes = 8; bytes <= 1 << 30; bytes *= 8) {
        struct plan_choice choice = choice_of(&job, bytes);
        struct prog *prog;
        assert_int_equal(algorithm_build(choice.algorithm, &job.shapes[0], 0, 0, &prog), COLLET_SUCCESS);
        assert_true((uint64_t)choice.nchannels * (uint64_t)prog->npeers * job.chan.owner.layouts[PROG_TO_FEW].nslots *
                        job.chan.owner.layouts[PROG_TO_FEW].sizes.long_bytes <=
                    256u << 20);
        prog_destroy(prog);
    }
    close_job(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_between_gpus_have_the_class_of_their_path),
        cmocka_unit_test(eight_gpus_behind_a_switch_get_ll_then_ll128_then_rings_of_simple),
        cmocka_unit_test(where_ll128_is_not_allowed_it_is_not_chosen),
        cmocka_unit_test(large_calls_between_nodes_use_all_adapters),
        cmocka_unit_test(more_channels_carry_more_until_the_links_are_full),
        cmocka_unit_test(the_configuration_bounds_the_number_of_channels),
        cmocka_unit_test(ranks_that_share_a_gpu_get_fewer_channels),
        cmocka_unit_test(connections_do_not_take_all_memory_of_a_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
