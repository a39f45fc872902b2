/* SPDX-License-Identifier: Apache-2.0
 *
 * What is chosen for ranks on GPUs that nobody has to own: their links come from a synthetic machine, the constants are those
 * that are built in, for the card too.
 */
#include "common/modelled.h"

#include "layers/tuner/cards.c"
#include "layers/tuner/tuner.h"

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

/* ---- one GPU ---- */

/* Every byte that a rank sends another one on its GPU crosses that GPU's memory, whatever channel it is on. */
static void memory_of_a_gpu_is_a_link_that_all_its_blocks_share(void **state) {
    (void)state;
    struct modelled job;
    char name[64];
    modelled_open(&job, "2 gpu h100 nvswitch", 1, 4, 0);
    const struct sim_route same = route_between(&job, 0, 1), back = route_between(&job, 1, 0);
    const struct sim_route other = route_between(&job, 2, 3), between = route_between(&job, 0, 2);
    assert_int_equal(same.class, LINK_GPU);
    assert_int_equal(same.out.count, 1);
    assert_int_equal(same.out.link[0], back.out.link[0]);
    assert_int_not_equal(same.out.link[0], other.out.link[0]);
    assert_string_equal(net_link_name(job.model->net, same.out.link[0], name, sizeof name), "memory of GPU 0");
    assert_int_equal(between.class, LINK_GPU_NVLINK);
    for (int k = 0; k < between.out.count; k++)
        assert_int_not_equal(between.out.link[k], same.out.link[0]);
    modelled_close(&job);
}

static void it_binds_large_calls(void **state) {
    (void)state;
    struct modelled job;
    modelled_open(&job, "1 gpu h100", 1, 2, 0);
    const uint64_t bytes = 256 << 20;
    const double least_ns =
        2 * (double)bytes / ((struct chart *)job.map)->costs.gpu_memory_gbps; /* each rank sends all of it once */
    const double ns = ns_of(&job, "ring", 64, bytes), few_ns = ns_of(&job, "ring", 4, bytes);
    assert_true(ns >= least_ns && ns < 1.3 * least_ns);
    ((struct chart *)job.map)->costs.gpu_memory_gbps /= 2;
    assert_true(ns_of(&job, "ring", 64, bytes) > 1.5 * ns);
    assert_true(ns_of(&job, "ring", 4, bytes) < 1.01 * few_ns); /* a few blocks do not come near it */
    ((struct chart *)job.map)->costs.gpu_memory_gbps = 0;
    assert_true(ns_of(&job, "ring", 64, bytes) < ns);
    modelled_close(&job);
}

static void what_is_lent_costs_less(void **state) {
    (void)state;
    struct modelled job;
    modelled_open(&job, "1 gpu h100", 1, 2, 0);
    const uint64_t bytes = 64 << 20;
    const double ns = ns_of(&job, "twoshot", 16, bytes), short_ns = ns_of(&job, "twoshot", 16, 64 << 10);
    job.model->machine.lent_from = LOAN_PROCESS_BYTES;
    const double lent_ns = ns_of(&job, "twoshot", 16, bytes);
    /* Of 4 places that a block touches, 2 half as often. */
    const double touched_ns =
        (double)bytes / 2 / 16 * ((struct chart *)job.map)->costs.step[LINK_GPU][PROTOCOL_SIMPLE].byte_ns;
    assert_true(ns - lent_ns > 0.9 * touched_ns && ns - lent_ns < 1.2 * touched_ns);
    assert_true(ns_of(&job, "twoshot", 16, 64 << 10) == short_ns); /* pieces of 2 KB: too short for a loan */
    ((struct chart *)job.map)->costs.gpu_lent_share = 1;
    assert_true(fabs(ns_of(&job, "twoshot", 16, bytes) - ns) < 1);
    modelled_close(&job);
}

static void within_a_gpu_ll128_is_for_who_asks(void **state) {
    (void)state;
    struct modelled job;
    modelled_open(&job, "1 gpu h100", 1, 4, 0);
    assert_false(job.limits.protocol_allowed[PROTOCOL_LL128]);
    for (const char *const *proto = (const char *const[]){"LL128", "LL,LL128", "^LL,Simple", NULL}; *proto != NULL;
         proto++) {
        snprintf(job.config.proto, sizeof job.config.proto, "%s", *proto);
        assert_int_equal(tuner_limits_read(&job.config, job.chan.owner.layouts, 1, &job.limits), COLLET_SUCCESS);
        tuner_limits_of_gpus(&job.config, 132, 4, false, &job.limits);
        assert_true(job.limits.protocol_allowed[PROTOCOL_LL128]);
    }
    snprintf(job.config.proto, sizeof job.config.proto, "^LL");
    assert_int_equal(tuner_limits_read(&job.config, job.chan.owner.layouts, 1, &job.limits), COLLET_SUCCESS);
    tuner_limits_of_gpus(&job.config, 132, 4, false, &job.limits);
    assert_false(job.limits.protocol_allowed[PROTOCOL_LL128]);
    modelled_close(&job);
}

/* Not a power of two: as many as find room for their blocks. */
static void as_many_channels_as_find_room_are_tried(void **state) {
    (void)state;
    struct modelled job;
    struct tuner_try tries[TUNER_TRIES_MAX];
    struct cost_stage *stage;
    bool tried = false;
    modelled_open(&job, "1 gpu h100", 1, 2, 0);
    assert_int_equal(cost_stage_open(&job.model->machine, algorithm_find(PROG_ALLREDUCE, "twoshot"), &stage),
                     COLLET_SUCCESS);
    int n = tuner_list(&job.limits, stage, 64 << 20, 1, tries);
    for (int k = 0; k < n; k++) {
        tried |= tries[k].choice.nchannels == 132 / 2 / 3;
        assert_true(tries[k].choice.nchannels <= 132 / 2 / 3);
    }
    assert_true(tried);
    cost_stage_close(stage);
    modelled_close(&job);
}

/* Every card of which there are constants has those of today's kernels, which say whether they are measured. */
static void every_card_has_constants_of_todays_kernels(void **state) {
    (void)state;
    for (const struct measured_card *card = cards; card->file != NULL; card++) {
        const struct card_gpu gpu = {card->model, card->sm};
        struct cost_table costs = costs_default;
        char note[CARD_NOTE_BYTES];
        assert_int_equal(card_suit(gpu, card->kernels, &costs), COLLET_SUCCESS);
        assert_true(costs_are_sound(&costs) && costs.gpu_memory_gbps > 0);
        assert_non_null(card_find(gpu, CARD_KERNELS));
        card_note(gpu, card->kernels, note);
        assert_true(strstr(note, "within a GPU measured on ") != NULL ||
                    strstr(note, "within a GPU predicted, not measured: ") != NULL);
    }
}

/* One whose name is in no file has the same file whatever it is called. */
static void a_card_is_known_by_its_name(void **state) {
    (void)state;
    const struct measured_card *h200 = card_find((struct card_gpu){"NVIDIA H200", 90}, CARD_KERNELS);
    const struct measured_card *h100 = card_find((struct card_gpu){"NVIDIA H100 80GB HBM3", 90}, CARD_KERNELS);
    assert_string_equal(h200->file, "h200-2.tuning");
    assert_string_equal(h100->file, "h100-2.tuning");
    assert_ptr_equal(card_find((struct card_gpu){"Another GPU", 90}, CARD_KERNELS), h200);
    assert_ptr_equal(card_find((struct card_gpu){"", 90}, CARD_KERNELS), h200);
    assert_ptr_equal(card_find((struct card_gpu){.sm = 90}, CARD_KERNELS), h200);
    assert_null(card_find((struct card_gpu){"NVIDIA H100 80GB HBM3", 80}, CARD_KERNELS));
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
        cmocka_unit_test(memory_of_a_gpu_is_a_link_that_all_its_blocks_share),
        cmocka_unit_test(it_binds_large_calls),
        cmocka_unit_test(what_is_lent_costs_less),
        cmocka_unit_test(within_a_gpu_ll128_is_for_who_asks),
        cmocka_unit_test(as_many_channels_as_find_room_are_tried),
        cmocka_unit_test(every_card_has_constants_of_todays_kernels),
        cmocka_unit_test(a_card_is_known_by_its_name),
        cmocka_unit_test(the_configuration_bounds_the_number_of_channels),
        cmocka_unit_test(ranks_that_share_a_gpu_get_fewer_channels),
        cmocka_unit_test(connections_do_not_take_all_memory_of_a_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
