/* SPDX-License-Identifier: Apache-2.0
 *
 * COLLET_ALGO: names of algorithms, for all collectives or for one, and names that are excluded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config_read.h"
#include "base/err.h"
#include "plan/limits.h"

#include <stdio.h>
#include <string.h>

static const struct prog_shape four = {.nranks = 4, .nnodes = 1, .node_ranks = 4};

static enum collet_result read_names(const char *algo, struct tuner_limits *limits) {
    struct fifo_layout layouts[PROG_CONNECTS_COUNT];
    struct config config;
    memset(layouts, 0, sizeof(layouts));
    for (int kind = 0; kind < PROG_CONNECTS_COUNT; kind++)
        layouts[kind].total_bytes = 4096;
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    snprintf(config.algo, sizeof(config.algo), "%s", algo);
    return tuner_limits_read(&config, layouts, 1, limits);
}

static bool is_marked(const bool *marks, enum prog_collective collective, const char *name) {
    return marks[algorithm_find(collective, name) - algorithms];
}

static void a_name_is_for_all_collectives_that_have_it(void **state) {
    (void)state;
    struct tuner_limits limits;
    assert_int_equal(read_names("Ring", &limits), COLLET_SUCCESS);
    assert_true(is_marked(limits.algorithm_named, PROG_ALLREDUCE, "ring"));
    assert_true(is_marked(limits.algorithm_named, PROG_ALLGATHER, "ring"));
    assert_false(is_marked(limits.algorithm_named, PROG_ALLREDUCE, "tree"));
    assert_true(tuner_is_named(&limits, PROG_REDUCESCATTER, &four));
    assert_false(tuner_is_named(&limits, PROG_BROADCAST, &four));
}

static void a_name_with_a_collective_in_front_is_for_it_alone(void **state) {
    (void)state;
    struct tuner_limits limits;
    assert_int_equal(read_names("AllReduce:tree, reducescatter:ring", &limits), COLLET_SUCCESS);
    assert_true(is_marked(limits.algorithm_named, PROG_ALLREDUCE, "tree"));
    assert_true(is_marked(limits.algorithm_named, PROG_REDUCESCATTER, "ring"));
    assert_false(is_marked(limits.algorithm_named, PROG_REDUCE, "tree"));
    assert_false(is_marked(limits.algorithm_named, PROG_REDUCESCATTERV, "ring")); /* its name only begins so */
    assert_false(is_marked(limits.algorithm_named, PROG_ALLREDUCE, "ring"));
}

static void names_behind_a_caret_are_excluded(void **state) {
    (void)state;
    struct tuner_limits limits;
    assert_int_equal(read_names("tree,^allreduce:ring,doubling", &limits), COLLET_SUCCESS);
    assert_true(is_marked(limits.algorithm_named, PROG_REDUCE, "tree"));
    assert_true(is_marked(limits.algorithm_excluded, PROG_ALLREDUCE, "ring"));
    assert_true(is_marked(limits.algorithm_excluded, PROG_BARRIER, "doubling"));
    assert_false(is_marked(limits.algorithm_excluded, PROG_ALLGATHER, "ring"));
    assert_false(is_marked(limits.algorithm_named, PROG_BARRIER, "doubling"));
}

/* What is named and excluded is not named: the rest is free. */
static void an_exclusion_comes_before_a_name(void **state) {
    (void)state;
    struct tuner_limits limits;
    assert_int_equal(read_names("ring,^allreduce:ring", &limits), COLLET_SUCCESS);
    assert_false(tuner_is_named(&limits, PROG_ALLREDUCE, &four));
    assert_true(tuner_is_named(&limits, PROG_ALLGATHER, &four));
}

static void unknown_names_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"rong", "allreduce:rong", "reduce:ring", "allreduce:", "^", "nothing:ring"};
    struct tuner_limits limits;
    for (size_t k = 0; k < sizeof(wrong) / sizeof(*wrong); k++) {
        char text[80];
        assert_int_equal(read_names(wrong[k], &limits), COLLET_ERR_INVALID_USAGE);
        snprintf(text, sizeof(text), "names \"%s\"", wrong[k]);
        assert_non_null(strstr(err_last(), text));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_for_all_collectives_that_have_it),
        cmocka_unit_test(a_name_with_a_collective_in_front_is_for_it_alone),
        cmocka_unit_test(names_behind_a_caret_are_excluded),
        cmocka_unit_test(an_exclusion_comes_before_a_name),
        cmocka_unit_test(unknown_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
