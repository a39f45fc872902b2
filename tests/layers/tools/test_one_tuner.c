/* SPDX-License-Identifier: Apache-2.0
 *
 * A communicator and a forecast of the same machine: both choose the same, and predict the same time to the bit.
 */
#include "common/modelled.h"

#include "base/err.h"
#include "layers/tools/forecast/forecast.h"

/* The same machine, seen from both sides. */
struct both {
    struct modelled job;
    struct topo *pair;
    struct forecast_job *forecasts;
};

/* Ranks on nnodes hosts like this: on its GPUs, or per_host on its CPUs. */
static void open_both(struct both *both, const char *machine, int nnodes, int per_host) {
    modelled_open(&both->job, machine, nnodes, per_host, 64);
    if (both->job.chan.owner.gpu != NULL) /* limit_to_gpu() asks drivers */
        both->job.limits.protocol_allowed[PROTOCOL_LL128] =
            strstr(machine, "nvswitch") != NULL || strstr(machine, "mesh") != NULL;
    const struct topo *hosts[] = {both->job.host, both->job.host};
    assert_int_equal(topo_fuse(hosts, nnodes > 1 ? 2 : 1, &both->pair), COLLET_SUCCESS);
    assert_int_equal(forecast_open(both->pair, nnodes, per_host, &both->forecasts), COLLET_SUCCESS);
}

static void close_both(struct both *both) {
    forecast_close(both->forecasts);
    topo_destroy(both->pair);
    modelled_close(&both->job);
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
    uint64_t count = prog_is_sliced(collective) ? bytes : bytes / (uint64_t)both->job.map->nranks;
    assert_int_equal(tuner_choose(&both->job.model->machine, &both->job.limits, collective, count, 1, &chosen),
                     COLLET_SUCCESS);
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
    {"2 gpu pci : 1 nic 100", 1, 0},
    {"4 gpu mesh", 1, 0},
    {"8 gpu nvswitch : 4 nic 200", 1, 0},
    {"8 gpu nvswitch : 4 nic 200", 2, 0},
    {"4 gpu nvswitch : 4 nic 200", 3, 0}, /* odd hosts are crossed backwards */
    {"8 gpu pci : 4 nic 100", 4, 0},
    {"1 gpu h100", 1, 2}, /* ranks that share a GPU, and its memory */
    {"1 gpu h100", 1, 8},
    {"2 gpu h100 nvswitch : 2 nic 400", 1, 4},
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
        assert_memory_equal(&both.job.limits, &both.forecasts->limits, sizeof(both.job.limits));
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
    if (cost_stage_open(&both.job.model->machine, &wrong, &stage) != COLLET_SUCCESS)
        fail_msg("%s", err_last());
    assert_int_equal(tuner_predict(&both.job.limits, stage, &choice, 1024, 1, &ns), COLLET_ERR_INTERNAL);
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
    snprintf(both.job.config.algo, sizeof(both.job.config.algo), "hier");
    assert_int_equal(tuner_limits_read(&both.job.config, both.job.chan.owner.layouts, 1, &both.job.limits),
                     COLLET_SUCCESS);
    assert_false(tuner_is_named(&both.job.limits, PROG_ALLREDUCE, both.job.shapes));
    assert_int_equal(tuner_choose(&both.job.model->machine, &both.job.limits, PROG_ALLREDUCE, 1024, 1, &chosen),
                     COLLET_SUCCESS);
    snprintf(both.job.config.algo, sizeof(both.job.config.algo), "hier,tree");
    assert_int_equal(tuner_limits_read(&both.job.config, both.job.chan.owner.layouts, 1, &both.job.limits),
                     COLLET_SUCCESS);
    assert_int_equal(tuner_choose(&both.job.model->machine, &both.job.limits, PROG_ALLREDUCE, 1024, 1, &chosen),
                     COLLET_SUCCESS);
    assert_string_equal(chosen.algorithm->name, "tree");
    snprintf(both.job.config.algo, sizeof(both.job.config.algo), "hire");
    assert_int_equal(tuner_limits_read(&both.job.config, both.job.chan.owner.layouts, 1, &both.job.limits),
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
