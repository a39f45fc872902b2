/* SPDX-License-Identifier: Apache-2.0
 *
 * A communicator and a forecast of the same machine: both choose the same, and predict the same time to the bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "forecast/forecast.h"
#include "plan/atlas.h"
#include "plan/model.h"

#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 16, NODE_RANKS_MAX = 16, RANKS_MAX = NODES_MAX * NODE_RANKS_MAX };

/* The same machine, seen from both sides. */
struct both {
    struct topo *host, *pair;
    struct peer_info peers[RANKS_MAX];
    struct config config;
    struct gpu_rank gpu;
    struct chan chan;
    struct map *map;
    struct prog_shape *shapes;
    struct tuner_limits limits;
    struct model *model;
    struct forecast_job *forecasts;
};

/* Ranks on nnodes hosts like this: on its GPUs, or per_host on its CPUs. */
static void open_forecasts(struct both *both, const char *machine, int nnodes, int per_host) {
    assert_int_equal(topo_synthetic(machine, &both->host), COLLET_SUCCESS);
    const struct topo *hosts[] = {both->host, both->host};
    assert_int_equal(topo_fuse(hosts, nnodes > 1 ? 2 : 1, &both->pair), COLLET_SUCCESS);
    assert_int_equal(forecast_open(both->pair, nnodes, per_host, &both->forecasts), COLLET_SUCCESS);
}

static void name_ranks(struct both *both, int nnodes, int nlocal, bool gpu) {
    for (int rank = 0; rank < nnodes * nlocal; rank++)
        both->peers[rank] = (struct peer_info){.rank = rank,
                                               .node = rank / nlocal * nlocal,
                                               .device = gpu ? COLLET_DEVICE_CUDA(rank % nlocal) : COLLET_DEVICE_HOST,
                                               .process = {(uint64_t)rank + 1, 0}};
}

static void draw_map(struct both *both, int nnodes, int per_host) {
    struct atlas_node nodes[NODES_MAX];
    int32_t place[NODE_RANKS_MAX];
    int nlocal, *places;
    char *graph;
    void *atlas;
    size_t size;
    assert_int_equal(topo_place_ranks(both->host, per_host, &nlocal, &places), COLLET_SUCCESS);
    for (int k = 0; k < nlocal; k++)
        place[k] = places[k];
    bool gpu = both->host->nodes[places[0]].kind == TOPO_GPU;
    assert_int_equal(topo_share(both->host, nlocal, place, &graph), COLLET_SUCCESS);
    for (int n = 0; n < nnodes; n++)
        nodes[n] = (struct atlas_node){
            .graph = graph, .graph_bytes = strlen(graph), .nlocal = nlocal, .joined = true, .place = place};
    name_ranks(both, nnodes, nlocal, gpu);
    assert_int_equal(atlas_pack(nodes, nnodes, &costs_default, &atlas, &size), COLLET_SUCCESS);
    assert_int_equal(map_create(both->peers, nnodes * nlocal, atlas, size, &both->map), COLLET_SUCCESS);
    both->chan.owner.gpu = gpu ? &both->gpu : NULL;
    free(places);
    free(graph);
    free(atlas);
}

/* As the planner does it (plan/plan.c). */
static void open_communicator(struct both *both, int nnodes, bool joined) {
    int norders = map_orders(both->map);
    both->chan.owner.config = &both->config;
    both->chan.owner.peers = both->peers;
    both->chan.owner.nranks = both->map->nranks;
    const struct chan_scale scale = {both->map->nranks, both->map->nranks / nnodes, nnodes > 1,
                                     both->chan.owner.gpu != NULL};
    chan_layouts(&both->config, &scale, both->chan.owner.layouts);
    both->shapes = calloc((size_t)norders, sizeof(*both->shapes));
    for (int k = 0; k < norders; k++)
        assert_int_equal(map_shape(both->map, both->peers, k, &both->shapes[k]), COLLET_SUCCESS);
    assert_int_equal(tuner_limits_read(&both->config, both->chan.owner.layouts, map_rails(both->map), &both->limits),
                     COLLET_SUCCESS);
    if (both->chan.owner.gpu != NULL) {
        tuner_limits_of_gpus(&both->config, 1, &both->limits);
        both->limits.protocol_allowed[PROTOCOL_LL128] = joined; /* limit_to_gpu() asks drivers */
    }
    assert_int_equal(model_create(&both->chan, &both->config, both->map, both->shapes, norders, &both->model),
                     COLLET_SUCCESS);
}

static void open_both(struct both *both, const char *machine, int nnodes, int per_host) {
    memset(both, 0, sizeof(*both));
    assert_int_equal(config_read(&both->config), COLLET_SUCCESS);
    both->config.cpus = 64;
    open_forecasts(both, machine, nnodes, per_host);
    draw_map(both, nnodes, per_host);
    open_communicator(both, nnodes, strstr(machine, "nvswitch") != NULL || strstr(machine, "mesh") != NULL);
}

static void close_both(struct both *both) {
    model_destroy(both->model);
    for (int k = 0; k < map_orders(both->map); k++)
        prog_shape_fini(&both->shapes[k]);
    free(both->shapes);
    map_destroy(both->map);
    forecast_close(both->forecasts);
    topo_destroy(both->pair);
    topo_destroy(both->host);
}

/* What the forecast would choose: the best of each algorithm, then the best of these. */
static struct plan_choice forecast_choice(const struct both *both, enum prog_collective collective, uint64_t bytes) {
    struct forecast best[ALGORITHMS_MAX];
    int n = 0;
    for (const struct algorithm *a = algorithms; a->name != NULL; a++) {
        struct forecast_stage *stage;
        if (a->collective != collective || !algorithm_applies(a, both->forecasts->machine.whole))
            continue;
        assert_int_equal(forecast_stage_open(both->forecasts, a, &stage), COLLET_SUCCESS);
        assert_int_equal(forecast_best(stage, bytes, &best[n++]), COLLET_SUCCESS);
        forecast_stage_close(stage);
    }
    int pick = forecast_pick(best, n);
    assert_true(pick >= 0);
    return best[pick].choice;
}

static bool is_same(const struct plan_choice *a, const struct plan_choice *b) {
    return a->algorithm == b->algorithm && a->protocol == b->protocol && a->nchannels == b->nchannels &&
           a->chunk_bytes == b->chunk_bytes && a->predicted_ns == b->predicted_ns;
}

static void compare(const struct both *both, const char *machine, enum prog_collective collective, uint64_t bytes) {
    struct plan_choice chosen, foretold = forecast_choice(both, collective, bytes);
    uint64_t count = prog_is_sliced(collective) ? bytes : bytes / (uint64_t)both->map->nranks;
    assert_int_equal(tuner_choose(&both->model->machine, &both->limits, collective, count, 1, &chosen), COLLET_SUCCESS);
    if (!is_same(&chosen, &foretold))
        fail_msg("%s, %s of %llu bytes: chosen %s %s %d %u %.1f, foretold %s %s %d %u %.1f", machine,
                 prog_collective_name(collective), (unsigned long long)bytes, chosen.algorithm->name,
                 protocol_names[chosen.protocol], chosen.nchannels, chosen.chunk_bytes, chosen.predicted_ns,
                 foretold.algorithm->name, protocol_names[foretold.protocol], foretold.nchannels, foretold.chunk_bytes,
                 foretold.predicted_ns);
}

/* ---- cases ---- */

struct machine {
    const char *text;
    int nnodes, per_host;
};

static const uint64_t sizes[] = {1 << 8, 1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 28};
#define NSIZES (sizeof(sizes) / sizeof(*sizes))

static void compare_all(const struct machine *machines, size_t n, enum prog_collective collective, uint64_t seen[]) {
    for (size_t m = 0; m < n; m++) {
        struct both both;
        open_both(&both, machines[m].text, machines[m].nnodes, machines[m].per_host);
        for (size_t s = 0; s < NSIZES; s++) {
            struct plan_choice chosen = forecast_choice(&both, collective, sizes[s]);
            compare(&both, machines[m].text, collective, sizes[s]);
            seen[chosen.protocol]++;
        }
        close_both(&both);
    }
}

static const struct machine on_hosts[] = {
    {"1 cpu", 1, 2}, {"1 cpu", 1, 4}, {"2 cpu", 1, 8}, {"2 cpu : 2 nic 100", 4, 4}, {"1 cpu : 1 nic 25", 16, 1},
};
static const struct machine on_gpus[] = {
    {"2 gpu pci : 1 nic 100", 1, 0},      {"4 gpu mesh", 1, 0},
    {"8 gpu nvswitch : 4 nic 200", 1, 0}, {"8 gpu nvswitch : 4 nic 200", 2, 0},
    {"4 gpu nvswitch : 4 nic 200", 3, 0}, /* odd hosts are crossed backwards */
    {"8 gpu pci : 4 nic 100", 4, 0},
};

static void ranks_on_hosts_are_foretold_as_they_are_chosen(void **state) {
    (void)state;
    uint64_t seen[PROTOCOL_COUNT] = {0};
    compare_all(on_hosts, sizeof(on_hosts) / sizeof(*on_hosts), PROG_ALLREDUCE, seen);
    compare_all(on_hosts, 2, PROG_ALLTOALL, seen);
    assert_true(seen[PROTOCOL_SIMPLE] > 0 && seen[PROTOCOL_LL128] > 0);
}

static void ranks_on_gpus_are_foretold_as_they_are_chosen(void **state) {
    (void)state;
    uint64_t seen[PROTOCOL_COUNT] = {0};
    compare_all(on_gpus, sizeof(on_gpus) / sizeof(*on_gpus), PROG_ALLREDUCE, seen);
    compare_all(&on_gpus[2], 3, PROG_ALLGATHER, seen);
    compare_all(&on_gpus[2], 2, PROG_BROADCAST, seen);
    assert_true(seen[PROTOCOL_SIMPLE] > 0 && seen[PROTOCOL_LL] > 0 && seen[PROTOCOL_LL128] > 0);
}

/* Both list the same, not only the best. */
static void the_lists_are_the_same(void **state) {
    (void)state;
    for (size_t m = 0; m < sizeof(on_gpus) / sizeof(*on_gpus); m++) {
        struct both both;
        open_both(&both, on_gpus[m].text, on_gpus[m].nnodes, on_gpus[m].per_host);
        assert_memory_equal(&both.limits, &both.forecasts->limits, sizeof(both.limits));
        close_both(&both);
    }
}

/* GPUs of these kinds in turn, all joined by NVLink: may a forecast choose LL128? */
static bool forecast_has_lines(int sm, int sm_of_others) {
    struct topo *host;
    struct forecast_job *job;
    int ngpus = 0;
    assert_int_equal(topo_synthetic("8 gpu nvswitch", &host), COLLET_SUCCESS);
    for (int node = 0; node < host->nnodes; node++)
        if (host->nodes[node].kind == TOPO_GPU)
            host->nodes[node].gpu.sm = ngpus++ % 2 == 0 ? sm : sm_of_others;
    assert_int_equal(forecast_open(host, 1, 0, &job), COLLET_SUCCESS);
    bool has_lines = job->limits.protocol_allowed[PROTOCOL_LL128];
    forecast_close(job);
    topo_destroy(host);
    return has_lines;
}

/* As communicators do: nvlink.h. */
static void lines_are_for_gpus_of_one_kind_that_store_them_whole(void **state) {
    (void)state;
    assert_true(forecast_has_lines(70, 70) && forecast_has_lines(80, 80) && forecast_has_lines(90, 90));
    assert_true(forecast_has_lines(100, 100) && forecast_has_lines(0, 0));
    assert_false(forecast_has_lines(75, 75) || forecast_has_lines(86, 86) || forecast_has_lines(89, 89));
    assert_false(forecast_has_lines(80, 90));
}

/* ---- what is wrong ---- */

/* Rank 1 sends to rank 2 what rank 0 waits for. */
static void build_wrong(struct prog *prog) {
    prog_worker(prog);
    if (prog->rank == 0)
        prog_step(prog, .recv = PEER(1), .local = IN(0), .store = OUT(0));
    else if (prog->rank == 1)
        prog_step(prog, .local = IN(0), .send = PEER(2));
    else
        prog_step(prog, .local = IN(0), .store = OUT(0));
}

static void a_wrong_algorithm_is_explained_by_the_verifier(void **state) {
    (void)state;
    static const struct algorithm wrong = {.name = "wrong", .collective = PROG_ALLREDUCE, .build = build_wrong};
    struct both both;
    struct cost_stage *stage;
    struct plan_choice choice = {&wrong, PROTOCOL_SIMPLE, 1, 4096, 0};
    double ns;
    open_both(&both, "1 cpu", 1, 4);
    if (cost_stage_open(&both.model->machine, &wrong, &stage) != COLLET_SUCCESS)
        fail_msg("%s", err_last());
    assert_int_equal(tuner_predict(&both.limits, stage, &choice, 1024, 1, &ns), COLLET_ERR_INTERNAL);
    assert_non_null(strstr(err_last(), "algorithm wrong is wrong: "));
    assert_non_null(strstr(err_last(), "rank "));
    cost_stage_close(stage);
    close_both(&both);
}

/* ---- names ---- */

static void a_name_that_does_not_take_the_shape_leaves_the_choice_free(void **state) {
    (void)state;
    struct both both;
    struct plan_choice chosen;
    open_both(&both, "1 cpu", 1, 4);
    snprintf(both.config.algo, sizeof(both.config.algo), "hier");
    assert_int_equal(tuner_limits_read(&both.config, both.chan.owner.layouts, 1, &both.limits), COLLET_SUCCESS);
    assert_false(tuner_is_named(&both.limits, PROG_ALLREDUCE, both.shapes));
    assert_int_equal(tuner_choose(&both.model->machine, &both.limits, PROG_ALLREDUCE, 1024, 1, &chosen),
                     COLLET_SUCCESS);
    snprintf(both.config.algo, sizeof(both.config.algo), "hier,tree");
    assert_int_equal(tuner_limits_read(&both.config, both.chan.owner.layouts, 1, &both.limits), COLLET_SUCCESS);
    assert_int_equal(tuner_choose(&both.model->machine, &both.limits, PROG_ALLREDUCE, 1024, 1, &chosen),
                     COLLET_SUCCESS);
    assert_string_equal(chosen.algorithm->name, "tree");
    snprintf(both.config.algo, sizeof(both.config.algo), "hire");
    assert_int_equal(tuner_limits_read(&both.config, both.chan.owner.layouts, 1, &both.limits),
                     COLLET_ERR_INVALID_USAGE);
    close_both(&both);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_on_hosts_are_foretold_as_they_are_chosen),
        cmocka_unit_test(ranks_on_gpus_are_foretold_as_they_are_chosen),
        cmocka_unit_test(the_lists_are_the_same),
        cmocka_unit_test(lines_are_for_gpus_of_one_kind_that_store_them_whole),
        cmocka_unit_test(a_wrong_algorithm_is_explained_by_the_verifier),
        cmocka_unit_test(a_name_that_does_not_take_the_shape_leaves_the_choice_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
