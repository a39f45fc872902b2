/* SPDX-License-Identifier: Apache-2.0
 *
 * Surveys among ranks of this process, step by step: how they end when all is well, and when somebody is missing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config_read.h"
#include "base/err.h"
#include "common/local_boots.h"
#include "topo/probe/bundle.h"
#include "topo/probe/survey.c"

#include <stdlib.h>
#include <string.h>

enum { NRANKS = 3 };

struct group {
    struct config configs[NRANKS];
    struct boot *boots[NRANKS];
    struct survey *surveys[NRANKS];
    struct map *maps[NRANKS];
};

static void begin(struct group *group, int nsurveys) {
    memset(group, 0, sizeof *group);
    for (int r = 0; r < NRANKS; r++)
        assert_int_equal(config_read(&group->configs[r]), COLLET_SUCCESS);
    assert_int_equal(boot_join_local(NRANKS, NULL, group->configs, group->boots), COLLET_SUCCESS);
    for (int r = 0; r < nsurveys; r++)
        assert_int_equal(survey_begin(group->boots[r], &group->configs[r], "", NRANKS, r, &group->surveys[r]),
                         COLLET_SUCCESS);
}

static void end(struct group *group) {
    for (int r = 0; r < NRANKS; r++) {
        survey_destroy(group->surveys[r]);
        chart_destroy(group->maps[r]);
        boot_destroy(group->boots[r]);
    }
}

static void all_ranks_come_to_the_same_map(void **state) {
    (void)state;
    struct group group;
    begin(&group, NRANKS);
    assert_int_equal(survey_try(group.surveys[1], &group.maps[1]), COLLET_IN_PROGRESS); /* rank 0 has not looked yet */
    for (int r = 0; r < NRANKS; r++)
        assert_int_equal(survey_try(group.surveys[r], &group.maps[r]), COLLET_SUCCESS);
    for (int r = 0; r < NRANKS; r++) {
        assert_int_equal(chart_of(group.maps[r])->hash, chart_of(group.maps[0])->hash);
        assert_int_equal(chart_of(group.maps[r])->topo->nhosts, 1);
    }
    end(&group);
}

static void a_survey_waits_for_ranks_that_have_not_come(void **state) {
    (void)state;
    struct group group;
    begin(&group, 2);
    for (int turn = 0; turn < 5; turn++)
        for (int r = 0; r < 2; r++)
            assert_int_equal(survey_try(group.surveys[r], &group.maps[r]), COLLET_IN_PROGRESS);
    assert_int_equal(survey_begin(group.boots[2], &group.configs[2], "", NRANKS, 2, &group.surveys[2]), COLLET_SUCCESS);
    for (int r = 0; r < NRANKS; r++)
        assert_int_equal(survey_try(group.surveys[r], &group.maps[r]), COLLET_SUCCESS);
    end(&group);
}

static void a_failure_elsewhere_ends_a_survey(void **state) {
    (void)state;
    struct group group;
    begin(&group, 2);
    boot_fail(group.boots[2], COLLET_ERR_SYSTEM, "rank 2 has no luck");
    assert_int_equal(survey_try(group.surveys[0], &group.maps[0]), COLLET_ERR_SYSTEM);
    assert_string_equal(err_last(), "learnt from rank 2: rank 2 has no luck");
    end(&group);
}

static void a_rank_that_left_is_named(void **state) {
    (void)state;
    struct group group;
    enum collet_result result;
    begin(&group, 2);
    boot_destroy(group.boots[2]);
    group.boots[2] = NULL;
    do
        result = survey_try(group.surveys[0], &group.maps[0]);
    while (result == COLLET_IN_PROGRESS);
    assert_int_equal(result, COLLET_ERR_REMOTE);
    assert_non_null(strstr(err_last(), "rank 2"));
    end(&group);
}

static void a_survey_that_takes_too_long_names_who_is_missing(void **state) {
    (void)state;
    struct group group;
    begin(&group, 0);
    group.configs[0].init_timeout = 0;
    assert_int_equal(survey_begin(group.boots[0], &group.configs[0], "", NRANKS, 0, &group.surveys[0]), COLLET_SUCCESS);
    assert_int_equal(survey_try(group.surveys[0], &group.maps[0]), COLLET_ERR_TIMEOUT);
    assert_non_null(strstr(err_last(), "rank 1"));
    end(&group);
}

static void long_messages_arrive_whole_and_one_by_one(void **state) {
    (void)state;
    struct group group;
    struct bundle bundle = {.size = 0};
    unsigned char bytes[3000];
    static const size_t sizes[] = {1, BOOT_MESSAGE_BYTES, BOOT_MESSAGE_BYTES + 1, sizeof bytes};
    begin(&group, 0);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7);
    assert_int_equal(bundle_try_recv(&bundle, group.boots[1], 0, 99), COLLET_IN_PROGRESS);
    for (int k = 0; k < 4; k++)
        assert_int_equal(bundle_send(group.boots[0], 1, 99, bytes, sizes[k]), COLLET_SUCCESS);
    for (int k = 0; k < 4; k++) {
        assert_int_equal(bundle_try_recv(&bundle, group.boots[1], 0, 99), COLLET_SUCCESS);
        assert_int_equal(bundle.size, sizes[k]);
        assert_memory_equal(bundle.bytes, bytes, sizes[k]);
        bundle_fini(&bundle);
    }
    assert_int_equal(bundle_send(group.boots[0], 1, 99, bytes, 0), COLLET_ERR_INTERNAL);
    end(&group);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_come_to_the_same_map),
        cmocka_unit_test(a_survey_waits_for_ranks_that_have_not_come),
        cmocka_unit_test(a_failure_elsewhere_ends_a_survey),
        cmocka_unit_test(a_rank_that_left_is_named),
        cmocka_unit_test(a_survey_that_takes_too_long_names_who_is_missing),
        cmocka_unit_test(long_messages_arrive_whole_and_one_by_one),
    };
    return cmocka_run_group_tests_name("survey", tests, NULL, NULL);
}
