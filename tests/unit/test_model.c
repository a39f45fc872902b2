/* SPDX-License-Identifier: Apache-2.0
 *
 * What is chosen for ranks on GPUs that nobody has to own: their links come from a synthetic machine, the constants are those
 * that are built in.
 */
#include "common/modelled.h"

#include "plan/tuner.h"

#include <math.h>

static struct plan_choice choice_of(const struct modelled *job, uint64_t bytes) {
    struct plan_choice choice;
    assert_int_equal(tuner_choose(&job->model->machine, &job->limits, PROG_ALLREDUCE, bytes, 1, &choice),
                     COLLET_SUCCESS);
    return choice;
}

static struct tuner_limits only(const struct modelled *job, const char *algorithm, int nchannels) {
    struct tuner_limits limits = job->limits;
    for (int k = 0; algorithms[k].name != NULL; k++)
        limits.algorithm_named[k] = strcmp(algorithms[k].name, algorithm) == 0;
    limits.nchannels = limits.most_nchannels = nchannels;
    limits.protocol_allowed[PROTOCOL_LL] = limits.protocol_allowed[PROTOCOL_LL128] = false;
    return limits;
}

/* Of allreduce with Simple. */
static double ns_of(const struct modelled *job, const char *algorithm, int nchannels, uint64_t bytes) {
    struct tuner_limits limits = only(job, algorithm, nchannels);
    struct plan_choice choice;
    assert_int_equal(tuner_choose(&job->model->machine, &limits, PROG_ALLREDUCE, bytes, 1, &choice), COLLET_SUCCESS);
    return choice.predicted_ns;
}

/* ---- what lies between ranks ---- */

static struct sim_route route_between(const struct modelled *job, int a, int b) {
    struct sim_route route;
    const int *position = job->shapes[0].position;
    net_route(job->model->net, 0, position[a], position[b], &route);
    return route;
}

static enum link_class class_between(const struct modelled *job, int a, int b) {
    return route_between(job, a, b).class;
}

static int crossed_between(const struct modelled *job, int a, int b) {
    struct sim_route route = route_between(job, a, b);
    return route.out.count + route.in.count;
}

static void links_between_gpus_have_the_class_of_their_path(void **state) {
    (void)state;
    struct modelled job;
    modelled_open(&job, "8 gpu nvswitch : 4 nic 100", 2, 0, 0);
    assert_int_equal(class_between(&job, 0, 0), LINK_GPU);
    assert_int_equal(class_between(&job, 0, 7), LINK_GPU_NVLINK);
    assert_int_equal(class_between(&job, 7, 8), LINK_GPU_NET);
    assert_int_equal(crossed_between(&job, 0, 0), 0);
    assert_int_equal(crossed_between(&job, 0, 7), 2); /* out of one GPU, into the other */
    assert_true(crossed_between(&job, 7, 8) >= 4);    /* PCI and an adapter, on both sides */
    modelled_close(&job);
    modelled_open(&job, "4 gpu pci : 4 nic 100", 1, 0, 0);
    assert_int_equal(class_between(&job, 0, 1), LINK_GPU_PCI);
    assert_int_equal(class_between(&job, 0, 2), LINK_GPU_HOST); /* behind the other CPU */
    assert_true(crossed_between(&job, 0, 2) > crossed_between(&job, 0, 1));
    modelled_close(&job);
}

/* ---- what is chosen ---- */

static void eight_gpus_behind_a_switch_get_ll_then_ll128_then_rings_of_simple(void **state) {
    (void)state;
    struct modelled job;
    bool ll128 = false;
    modelled_open(&job, "8 gpu nvswitch : 4 nic 100", 1, 0, 0);
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
    modelled_close(&job);
}

static void where_ll128_is_not_allowed_it_is_not_chosen(void **state) {
    (void)state;
    struct modelled job;
    modelled_open(&job, "8 gpu nvswitch : 4 nic 100", 1, 0, 0);
    job.limits.protocol_allowed[PROTOCOL_LL128] = false;
    for (uint64_t bytes = 8; bytes <= 1 << 30; bytes *= 8)
        assert_int_not_equal(choice_of(&job, bytes).protocol, PROTOCOL_LL128);
    modelled_close(&job);
}

static void large_calls_between_nodes_use_all_adapters(void **state) {
    (void)state;
    struct modelled job;
    modelled_open(&job, "8 gpu nvswitch : 4 nic 100", 2, 0, 0);
    assert_true(choice_of(&job, 256 << 20).nchannels >= 4);
    modelled_close(&job);
}

/* ---- bandwidth ---- */

static void more_channels_carry_more_until_the_links_are_full(void **state) {
    (void)state;
    struct modelled job;
    modelled_open(&job, "8 gpu nvswitch : 4 nic 100", 1, 0, 0);
    uint64_t bytes = 256 << 20;
    double full_ns = 2.0 * 7 / 8 * (double)bytes / job.model->net->link_gbps[0];
    double one_ns = ns_of(&job, "ring", 1, bytes), most_ns = ns_of(&job, "ring", 32, bytes);
    for (int n = 2; n <= 8; n *= 2)
        assert_true(fabs(ns_of(&job, "ring", n, bytes) * n - one_ns) < 0.02 * one_ns);
    assert_true(most_ns >= full_ns && most_ns < 1.1 * full_ns);
    assert_true(ns_of(&job, "ring", 64, bytes) >= full_ns);
    modelled_close(&job);
}

/* ---- how many channels may be ---- */

static void the_configuration_bounds_the_number_of_channels(void **state) {
    (void)state;
    struct modelled job;
    modelled_open(&job, "8 gpu nvswitch : 4 nic 100", 1, 0, 0);
    job.config.max_nchannels = 4;
    assert_int_equal(tuner_limits_read(&job.config, job.chan.owner.layouts, 1, &job.limits), COLLET_SUCCESS);
    tuner_limits_of_gpus(&job.config, 64, 1, true, &job.limits);
    assert_int_equal(choice_of(&job, 256 << 20).nchannels, 4);
    job.config.nchannels = 3;
    assert_int_equal(tuner_limits_read(&job.config, job.chan.owner.layouts, 1, &job.limits), COLLET_SUCCESS);
    tuner_limits_of_gpus(&job.config, 64, 1, true, &job.limits);
    assert_int_equal(choice_of(&job, 8).nchannels, 3);
    assert_int_equal(choice_of(&job, 256 << 20).nchannels, 3);
    modelled_close(&job);
}

/* With so many ranks on a GPU that runs 64 blocks. */
static void the_blocks_of_all_have_room(struct modelled *job, int ranks) {
    tuner_limits_of_gpus(&job->config, 64, ranks, true, &job->limits);
    struct plan_choice choice = choice_of(job, 256 << 20);
    struct prog *prog;
    assert_int_equal(algorithm_build(choice.algorithm, &job->shapes[0], 0, 0, &prog), COLLET_SUCCESS);
    assert_true(choice.nchannels * prog->nworkers * ranks <= 64);
    prog_destroy(prog);
}

static void ranks_that_share_a_gpu_get_fewer_channels(void **state) {
    (void)state;
    struct modelled job;
    struct plan_choice choice;
    modelled_open(&job, "8 gpu nvswitch : 4 nic 100", 1, 0, 0);
    for (int ranks = 1; ranks <= 64; ranks++)
        the_blocks_of_all_have_room(&job, ranks);
    tuner_limits_of_gpus(&job.config, 64, 65, true, &job.limits);
    assert_int_equal(tuner_choose(&job.model->machine, &job.limits, PROG_ALLREDUCE, 8, 1, &choice),
                     COLLET_ERR_UNSUPPORTED);
    modelled_close(&job);
}

static void connections_do_not_take_all_memory_of_a_gpu(void **state) {
    (void)state;
    struct modelled job;
    modelled_open(&job, "8 gpu nvswitch : 4 nic 100", 1, 0, 0);
    for (uint64_t bytes = 8; bytes <= 1 << 30; bytes *= 8) {
        struct plan_choice choice = choice_of(&job, bytes);
        struct prog *prog;
        assert_int_equal(algorithm_build(choice.algorithm, &job.shapes[0], 0, 0, &prog), COLLET_SUCCESS);
        assert_true((uint64_t)choice.nchannels * (uint64_t)prog->npeers * job.chan.owner.layouts[PROG_TO_FEW].nslots *
                        job.chan.owner.layouts[PROG_TO_FEW].sizes.long_bytes <=
                    256u << 20);
        prog_destroy(prog);
    }
    modelled_close(&job);
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
