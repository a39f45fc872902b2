/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators that cannot be made, are being made, or are of a launcher's making: the bad argument or variable is named.
 */
#include "common/api_case.h"
#include "common/fair.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* -------------------------------------------------------------------------------------------------------------- create */

static void init_rank_names_the_bad_argument(void **state) {
    (void)state;
    struct collet_unique_id id;
    struct collet_comm *comm = (void *)1;
    assert_bad_argument(collet_get_unique_id(NULL), "id");
    assert_success(collet_get_unique_id(&id));
    assert_bad_argument(collet_comm_init_rank(NULL, 1, id, 0), "comm");
    assert_bad_argument(collet_comm_init_rank(&comm, 0, id, 0), "nranks");
    assert_null(comm);
    assert_bad_argument(collet_comm_init_rank(&comm, -1, id, 0), "nranks");
    assert_bad_argument(collet_comm_init_rank(&comm, 2, id, 2), "rank");
    assert_bad_argument(collet_comm_init_rank(&comm, 2, id, -1), "rank");
    assert_null(comm);
    assert_success(collet_comm_init_rank(&comm, 1, id, 0)); /* none of these has used the id up */
    assert_success(collet_comm_destroy(comm));
}

static void init_rank_refuses_what_is_no_id(void **state) {
    (void)state;
    struct collet_unique_id id = {{0}}, good;
    struct collet_comm *comm = (void *)1;
    assert_bad_argument(collet_comm_init_rank(&comm, 1, id, 0), "id");
    assert_null(comm);
    memset(id.bytes, 0x5a, sizeof(id.bytes));
    assert_bad_argument(collet_comm_init_rank(&comm, 2, id, 1), "id");
    assert_success(collet_get_unique_id(&good));
    for (size_t k = 0; k < sizeof(good.bytes); k++) { /* a copy that was damaged anywhere */
        id = good;
        id.bytes[k] ^= 0x10;
        assert_bad_argument(collet_comm_init_rank(&comm, 1, id, 0), "id");
    }
}

static enum collet_result init_with(const struct collet_config *config, struct collet_comm **comm) {
    struct collet_unique_id id;
    assert_success(collet_get_unique_id(&id));
    return collet_comm_init_rank_config(comm, 1, id, 0, config);
}

static void assert_config_refused(struct collet_config config, enum collet_result code, const char *field) {
    struct collet_comm *comm = (void *)1;
    assert_error(init_with(&config, &comm), code, field);
    assert_null(comm);
}

static void config_fields_out_of_range_are_named(void **state) {
    (void)state;
    struct collet_config config = defaults;
#define REFUSED(field, value)                                                                                          \
    config = defaults;                                                                                                 \
    config.field = value;                                                                                              \
    assert_config_refused(config, COLLET_ERR_INVALID_ARGUMENT, #field)
    REFUSED(size, 0);
    REFUSED(size, 3);
    REFUSED(size, SIZE_MAX);
    REFUSED(nonblocking, 2);
    REFUSED(nonblocking, -1);
    REFUSED(min_channels, -1);
    REFUSED(min_channels, 1000000);
    REFUSED(max_channels, -1);
    REFUSED(device, -5);
    REFUSED(timeout_ms, -1);
    REFUSED(transports, 0x80000000u);
    REFUSED(init_timeout_ms, -1);
    REFUSED(init_timeout_ms, 86400001);
    REFUSED(cta_policy, "some");
#undef REFUSED
    config = defaults;
    config.min_channels = 4;
    config.max_channels = 2;
    assert_config_refused(config, COLLET_ERR_INVALID_ARGUMENT, "max_channels");
}

static void a_rank_that_stays_alone_gives_up_after_its_own_time(void **state) {
    (void)state;
    struct collet_config config = {.size = sizeof config, .init_timeout_ms = 1};
    struct collet_unique_id id;
    struct collet_comm *comm;
    assert_success(collet_get_unique_id(&id));
    assert_error(collet_comm_init_rank_config(&comm, 2, id, 0, &config), COLLET_ERR_TIMEOUT, "1");
    assert_null(comm);
}

static void a_shorter_config_of_an_older_program_is_valid(void **state) {
    (void)state;
    struct collet_config config;
    struct collet_comm *comm;
    memset(&config, 0xee, sizeof(config)); /* what lies behind an older struct is not looked at */
    config.size = offsetof(struct collet_config, min_channels);
    config.nonblocking = 0;
    assert_success(init_with(&config, &comm));
    assert_success(collet_comm_destroy(comm));
}

static void a_longer_config_of_a_newer_program_is_valid_if_its_tail_is_zero(void **state) {
    (void)state;
    struct {
        struct collet_config known;
        char newer[24];
    } config = {.known = {.size = sizeof(config)}};
    struct collet_comm *comm = (void *)1;
    assert_success(init_with(&config.known, &comm));
    assert_success(collet_comm_destroy(comm));
    config.newer[20] = 1;
    assert_bad_argument(init_with(&config.known, &comm), "config");
    assert_null(comm);
}

static void a_name_may_be_long_and_is_copied(void **state) {
    (void)state;
    char name[5000], dump[8192];
    int ends[2];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    struct collet_config config = defaults;
    config.name = name;
    struct collet_comm *comm;
    assert_success(init_with(&config, &comm));
    memset(name, 'x', sizeof(name) - 1);
    assert_int_equal(pipe(ends), 0);
    assert_success(collet_comm_dump(comm, ends[1]));
    ssize_t got = read(ends[0], dump, sizeof(dump) - 1);
    assert_true(got > 0);
    dump[got] = '\0';
    assert_non_null(strstr(dump, "nnnn"));
    assert_null(strstr(dump, "xxxx"));
    close(ends[0]);
    close(ends[1]);
    assert_success(collet_comm_destroy(comm));
}

static void gpus_are_unsupported_in_a_build_for_hosts(void **state) {
    (void)state;
    struct collet_config config = defaults;
    config.device = COLLET_DEVICE_CUDA(0);
    assert_config_refused(config, COLLET_ERR_UNSUPPORTED, "device");
}

static void init_all_names_the_bad_argument_and_leaves_no_handle(void **state) {
    (void)state;
    struct collet_comm *comms[2] = {(void *)1, (void *)1};
    int devices[2] = {COLLET_DEVICE_HOST, -7};
    assert_bad_argument(collet_comm_init_all(NULL, 2, NULL), "comms");
    assert_bad_argument(collet_comm_init_all(comms, 0, NULL), "nranks");
    assert_bad_argument(collet_comm_init_all(comms, -2, NULL), "nranks");
    assert_bad_argument(collet_comm_init_all(comms, 2, devices), "devices");
    assert_null(comms[0]);
    assert_null(comms[1]);
    devices[1] = COLLET_DEVICE_HOST;
    assert_success(collet_comm_init_all(comms, 2, devices));
    assert_success(collet_comm_destroy(comms[1]));
    assert_success(collet_comm_destroy(comms[0]));
}

static int no_variables(void **state) {
    (void)state;
    static const char *const variables[] = {"COLLET_ALGO", "COLLET_PROTO", "COLLET_BUFFSIZE", "COLLET_NCHANNELS",
                                            "COLLET_TRANSPORT"};
    for (size_t k = 0; k < sizeof(variables) / sizeof(*variables); k++)
        unsetenv(variables[k]);
    return 0;
}

static void assert_variable_refused(const char *variable, const char *value, const char *word) {
    struct collet_comm *comms[2] = {(void *)1, (void *)1}, *comm = (void *)1;
    setenv(variable, value, 1);
    assert_bad_usage(collet_comm_init_all(comms, 2, NULL), variable);
    assert_non_null(strstr(collet_last_error(NULL), word));
    assert_null(comms[0]);
    assert_null(comms[1]);
    assert_bad_usage(init_with(&defaults, &comm), variable);
    assert_null(comm);
    unsetenv(variable);
}

static void variables_that_mean_nothing_are_refused_by_name(void **state) {
    (void)state;
    assert_variable_refused("COLLET_ALGO", "nonsense", "nonsense");
    assert_variable_refused("COLLET_ALGO", "ring,nonsense", "nonsense");
    assert_variable_refused("COLLET_PROTO", "LL1280", "LL1280");
    assert_variable_refused("COLLET_BUFFSIZE", "huge", "huge");
    assert_variable_refused("COLLET_NCHANNELS", "65", "65");
    assert_variable_refused("COLLET_TRANSPORT", "shm,pigeon", "pigeon");
}

/* Rank 0's values are everybody's, and yet another rank's are read. */
static void a_rank_other_than_0_does_not_pass_over_its_variables(void **state) {
    (void)state;
    static const char *const variables[] = {"COLLET_ALGO", "COLLET_PROTO", "COLLET_TRANSPORT"};
    struct collet_unique_id id;
    assert_success(collet_get_unique_id(&id));
    setenv("COLLET_INIT_TIMEOUT", "1", 1);
    for (size_t k = 0; k < sizeof(variables) / sizeof(*variables); k++) {
        struct collet_comm *comm = (void *)1;
        setenv(variables[k], "XX", 1);
        assert_bad_usage(collet_comm_init_rank(&comm, 2, id, 1), "XX");
        assert_null(comm);
        unsetenv(variables[k]);
    }
    unsetenv("COLLET_INIT_TIMEOUT");
}

/* ---------------------------------------------------------------------------------------------------------- non-blocking */

static enum collet_result wait_until_ready(struct collet_comm **comms, int n) {
    for (int left = n, round = 0; left > 0 && round < 200000; round++) {
        left = n;
        for (int k = 0; k < n; k++) {
            enum collet_result state;
            assert_success(collet_comm_get_async_error(comms[k], &state));
            if (state < 0)
                return state;
            left -= state == COLLET_SUCCESS;
        }
        if (left == 0)
            return COLLET_SUCCESS;
        usleep(100);
    }
    return COLLET_ERR_TIMEOUT;
}

static void a_non_blocking_init_is_in_progress_until_all_have_come(void **state) {
    (void)state;
    struct collet_unique_id id;
    struct collet_comm *comms[2];
    struct collet_config config = defaults;
    enum collet_result now;
    float x[2] = {1, 2};
    int value = -1;
    config.nonblocking = 1;
    assert_success(collet_get_unique_id(&id));
    assert_int_equal(collet_comm_init_rank_config(&comms[0], 2, id, 0, &config), COLLET_IN_PROGRESS);
    assert_non_null(comms[0]);
    for (int k = 0; k < 100; k++) {
        assert_success(collet_comm_get_async_error(comms[0], &now));
        assert_int_equal(now, COLLET_IN_PROGRESS);
    }
    assert_int_equal(collet_comm_count(comms[0], &value), COLLET_ERR_INVALID_USAGE);
    assert_int_equal(collet_comm_rank(comms[0], &value), COLLET_ERR_INVALID_USAGE);
    assert_int_equal(collet_comm_finalize(comms[0]), COLLET_ERR_INVALID_USAGE);
    assert_int_equal(collet_allreduce(x, x, 1, COLLET_FLOAT32, COLLET_SUM, comms[0], NULL), COLLET_ERR_INVALID_USAGE);
    assert_int_equal(value, -1);
    assert_int_equal(collet_comm_init_rank_config(&comms[1], 2, id, 1, &config), COLLET_IN_PROGRESS);
    assert_success(wait_until_ready(comms, 2));
    assert_success(collet_group_start());
    for (int rank = 0; rank < 2; rank++)
        assert_success(collet_allreduce(&x[rank], &x[rank], 1, COLLET_FLOAT32, COLLET_SUM, comms[rank], NULL));
    assert_success(collet_group_end());
    assert_true(x[0] == 3 && x[1] == 3);
    assert_success(collet_comm_destroy(comms[0]));
    assert_success(collet_comm_destroy(comms[1]));
}

static void a_non_blocking_init_can_be_ended_while_it_is_in_progress(void **state) {
    (void)state;
    struct collet_unique_id id;
    struct collet_comm *comm;
    struct collet_config config = defaults;
    config.nonblocking = 1;
    assert_success(collet_get_unique_id(&id));
    assert_int_equal(collet_comm_init_rank_config(&comm, 3, id, 1, &config), COLLET_IN_PROGRESS);
    assert_success(collet_comm_abort(comm));
    assert_success(collet_get_unique_id(&id));
    assert_int_equal(collet_comm_init_rank_config(&comm, 3, id, 0, &config), COLLET_IN_PROGRESS);
    assert_success(collet_comm_destroy(comm));
}

static void a_non_blocking_init_reports_a_bad_variable_when_polled(void **state) {
    (void)state;
    struct collet_comm *comm;
    struct collet_config config = defaults;
    config.nonblocking = 1;
    setenv("COLLET_ALGO", "nonsense", 1);
    enum collet_result result = init_with(&config, &comm);
    if (result == COLLET_IN_PROGRESS) {
        assert_int_equal(wait_until_ready(&comm, 1), COLLET_ERR_INVALID_USAGE);
        assert_non_null(strstr(collet_last_error(comm), "COLLET_ALGO"));
        assert_success(collet_comm_destroy(comm));
    } else {
        assert_int_equal(result, COLLET_ERR_INVALID_USAGE);
    }
    unsetenv("COLLET_ALGO");
}

/* ----------------------------------------------------------------------------------------------------- after the launch */

static const char *const launcher_variables[] = {
    "RANK",     "WORLD_SIZE",           "LOCAL_WORLD_SIZE",     "MASTER_ADDR",
    "PMI_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMI_SIZE", "MASTER_PORT",          "SLURM_PROCID",         "SLURM_NTASKS",
};

static int no_launcher(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof(launcher_variables) / sizeof(*launcher_variables); k++)
        unsetenv(launcher_variables[k]);
    return 0;
}

static void without_a_launcher_there_is_one_rank(void **state) {
    (void)state;
    struct collet_comm *comm;
    int value = -1;
    float x = 5;
    assert_bad_argument(collet_comm_init_from_env(NULL, NULL), "comm");
    assert_success(collet_comm_init_from_env(&comm, NULL));
    assert_success(collet_comm_count(comm, &value));
    assert_int_equal(value, 1);
    assert_success(collet_comm_rank(comm, &value));
    assert_int_equal(value, 0);
    assert_success(collet_allreduce(&x, &x, 1, COLLET_FLOAT32, COLLET_SUM, comm, NULL));
    assert_true(x == 5);
    assert_success(collet_comm_destroy(comm));
}

static void a_launcher_that_contradicts_itself_is_refused_by_variable(void **state) {
    (void)state;
    struct collet_comm *comm = (void *)1;
    setenv("RANK", "0", 1);
    assert_bad_usage(collet_comm_init_from_env(&comm, NULL), "WORLD_SIZE");
    assert_null(comm);
    setenv("WORLD_SIZE", "0", 1);
    assert_bad_usage(collet_comm_init_from_env(&comm, NULL), "WORLD_SIZE");
    setenv("WORLD_SIZE", "1048577", 1);
    assert_bad_usage(collet_comm_init_from_env(&comm, NULL), "WORLD_SIZE");
    setenv("WORLD_SIZE", "2", 1);
    setenv("RANK", "2", 1);
    assert_bad_usage(collet_comm_init_from_env(&comm, NULL), "RANK");
    setenv("RANK", "one", 1);
    assert_bad_usage(collet_comm_init_from_env(&comm, NULL), "RANK");
    setenv("RANK", "0", 1);
    assert_bad_usage(collet_comm_init_from_env(&comm, NULL), "MASTER_ADDR"); /* no place to meet */
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", "99999", 1);
    assert_bad_usage(collet_comm_init_from_env(&comm, NULL), "MASTER_PORT");
    assert_null(comm);
}

int main(void) {
    fair_alarm(100); /* nothing here takes long: a wait that does not end is a failure */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_rank_names_the_bad_argument),
        cmocka_unit_test(init_rank_refuses_what_is_no_id),
        cmocka_unit_test(config_fields_out_of_range_are_named),
        cmocka_unit_test(a_rank_that_stays_alone_gives_up_after_its_own_time),
        cmocka_unit_test(a_shorter_config_of_an_older_program_is_valid),
        cmocka_unit_test(a_longer_config_of_a_newer_program_is_valid_if_its_tail_is_zero),
        cmocka_unit_test(a_name_may_be_long_and_is_copied),
        cmocka_unit_test(gpus_are_unsupported_in_a_build_for_hosts),
        cmocka_unit_test(init_all_names_the_bad_argument_and_leaves_no_handle),
        cmocka_unit_test_teardown(variables_that_mean_nothing_are_refused_by_name, no_variables),
        cmocka_unit_test_teardown(a_rank_other_than_0_does_not_pass_over_its_variables, no_variables),
        cmocka_unit_test(a_non_blocking_init_is_in_progress_until_all_have_come),
        cmocka_unit_test(a_non_blocking_init_can_be_ended_while_it_is_in_progress),
        cmocka_unit_test_teardown(a_non_blocking_init_reports_a_bad_variable_when_polled, no_variables),
        cmocka_unit_test_setup_teardown(without_a_launcher_there_is_one_rank, no_launcher, no_launcher),
        cmocka_unit_test_setup_teardown(a_launcher_that_contradicts_itself_is_refused_by_variable, no_launcher,
                                        no_launcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
