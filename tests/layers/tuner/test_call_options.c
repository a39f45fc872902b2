/* SPDX-License-Identifier: Apache-2.0
 *
 * How one call alone is to be done: as a number, and as limits of what may be chosen for it.
 */
#include "common/modelled.h"

#include "layers/tuner/call_options.h"
#include "layers/tuner/tuner.h"

static void options_are_one_number(void **state) {
    (void)state;
    const struct call_options all[] = {{.algorithms = 0xffffffff},
                                       {.protocols = 5, .fewest = 64, .most = 64},
                                       {.algorithms = 1u << 31, .fewest = 1, .insists = true},
                                       {.most = 3, .by_kernels = true}};
    assert_int_equal(call_options_pack(&(struct call_options){.algorithms = 0}), 0);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        const uint64_t packed = call_options_pack(&all[k]);
        const struct call_options back = call_options_unpack(packed);
        assert_int_equal(packed & 0xff, 0);
        assert_int_equal(back.algorithms, all[k].algorithms);
        assert_int_equal(back.protocols, all[k].protocols);
        assert_int_equal(back.fewest, all[k].fewest);
        assert_int_equal(back.most, all[k].most);
        assert_int_equal(back.insists, all[k].insists);
        assert_int_equal(back.by_kernels, all[k].by_kernels);
    }
}

/* Every algorithm of a collective has a bit: there are not too many of them. */
static void each_algorithm_has_a_bit(void **state) {
    (void)state;
    uint32_t seen[PROG_COLLECTIVE_COUNT] = {0};
    for (const struct algorithm *a = algorithms; a->name != NULL; a++) {
        const uint32_t bit = call_options_bit(a);
        assert_true(bit != 0 && (seen[a->collective] & bit) == 0);
        seen[a->collective] |= bit;
    }
}

static enum collet_result choose(const struct modelled *job, struct call_options options, struct plan_choice *choice) {
    const struct cost_machine *machine = &job->model->machine;
    struct tuner_limits limits = job->limits;
    enum collet_result result = call_options_restrict(&options, PROG_ALLREDUCE, machine->whole, &limits);
    return result == COLLET_SUCCESS ? tuner_choose(machine, &limits, PROG_ALLREDUCE, 1 << 20, 1, choice) : result;
}

static uint32_t bit_of(const char *name) { return call_options_bit(algorithm_find(PROG_ALLREDUCE, name)); }

static void what_a_call_names_is_chosen(void **state) {
    (void)state;
    struct modelled job;
    struct plan_choice choice;
    modelled_open(&job, "8 gpu nvswitch : 4 nic 100", 1, 0, 0);
    static const char *const names[] = {"ring", "tree", "doubling"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (int p = 0; p < PROTOCOL_COUNT; p++) {
            const struct call_options options = {
                .algorithms = bit_of(names[k]), .protocols = 1u << p, .fewest = 3, .most = 5};
            assert_int_equal(choose(&job, options, &choice), COLLET_SUCCESS);
            assert_string_equal(choice.algorithm->name, names[k]);
            assert_int_equal(choice.protocol, p);
            assert_in_range(choice.nchannels, 3, 5);
        }
    modelled_close(&job);
}

/* The call's own words come before those of the configuration. */
static void what_the_configuration_excludes_a_call_may_name(void **state) {
    (void)state;
    struct modelled job;
    struct plan_choice choice;
    modelled_open(&job, "8 gpu nvswitch : 4 nic 100", 1, 0, 0);
    const int ring = (int)(algorithm_find(PROG_ALLREDUCE, "ring") - algorithms);
    job.limits.algorithm_excluded[ring] = true;
    job.limits.protocol_allowed[PROTOCOL_SIMPLE] = false;
    job.limits.barred[PROG_ALLREDUCE] = 1u << PROTOCOL_SIMPLE;
    const struct call_options options = {
        .algorithms = bit_of("ring"), .protocols = 1u << PROTOCOL_SIMPLE, .insists = true};
    assert_int_equal(choose(&job, options, &choice), COLLET_SUCCESS);
    assert_string_equal(choice.algorithm->name, "ring");
    assert_int_equal(choice.protocol, PROTOCOL_SIMPLE);
    modelled_close(&job);
}

static void what_does_not_take_the_ranks_is_an_error_for_who_insists(void **state) {
    (void)state;
    struct modelled job;
    struct plan_choice choice;
    modelled_open(&job, "8 gpu nvswitch : 4 nic 100", 1, 0, 0);
    struct call_options options = {.algorithms = bit_of("hier"), .insists = true};
    assert_int_equal(choose(&job, options, &choice), COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err_last(), "takes allreduce of 8 ranks on 1 node"));
    options.insists = false;
    assert_int_equal(choose(&job, options, &choice), COLLET_SUCCESS);
    modelled_close(&job);
}

static void channels_stay_within_those_of_the_communicator(void **state) {
    (void)state;
    struct modelled job;
    struct plan_choice choice;
    modelled_open(&job, "8 gpu nvswitch : 4 nic 100", 1, 0, 0);
    job.limits.nchannels = job.limits.most_nchannels = 4;
    job.limits.channels_given = true;
    assert_int_equal(choose(&job, (struct call_options){.fewest = 16}, &choice), COLLET_SUCCESS);
    assert_int_equal(choice.nchannels, 4);
    assert_int_equal(choose(&job, (struct call_options){.most = 2}, &choice), COLLET_SUCCESS);
    assert_int_equal(choice.nchannels, 2);
    modelled_close(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_one_number),
        cmocka_unit_test(each_algorithm_has_a_bit),
        cmocka_unit_test(what_a_call_names_is_chosen),
        cmocka_unit_test(what_the_configuration_excludes_a_call_may_name),
        cmocka_unit_test(what_does_not_take_the_ranks_is_an_error_for_who_insists),
        cmocka_unit_test(channels_stay_within_those_of_the_communicator),
    };
    return cmocka_run_group_tests_name("call options", tests, NULL, NULL);
}
