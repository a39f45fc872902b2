/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad input and odd sequences of calls: every one ends in the error that collet.h promises, with a text that names what
 * is wrong, and leaves everything usable.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collet.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The call fails with this code, and the thread's last error has this word. */
#define assert_error(call, code, word)                                                                                 \
    do {                                                                                                               \
        assert_int_equal(call, code);                                                                                  \
        if (strstr(collet_last_error(NULL), word) == NULL)                                                             \
            fail_msg("%s: \"%s\" does not name \"%s\"", #call, collet_last_error(NULL), word);                         \
    } while (0)
#define assert_bad_argument(call, word) assert_error(call, COLLET_ERR_INVALID_ARGUMENT, word)
#define assert_bad_usage(call, word) assert_error(call, COLLET_ERR_INVALID_USAGE, word)
#define assert_success(call)                                                                                           \
    do {                                                                                                               \
        enum collet_result result_ = (call);                                                                           \
        if (result_ != COLLET_SUCCESS)                                                                                 \
            fail_msg("%s returned %d: %s", #call, (int)result_, collet_last_error(NULL));                              \
    } while (0)

static const struct collet_config defaults = {.size = sizeof(struct collet_config)};

static struct collet_comm *comm_of_one(void) {
    struct collet_comm *comm;
    assert_success(collet_comm_init_all(&comm, 1, NULL));
    return comm;
}

/* ------------------------------------------------------------------------------------------------- texts and constants */

static void every_result_has_its_own_text(void **state) {
    (void)state;
    const char *unknown = collet_error_string((enum collet_result)77);
    assert_non_null(unknown);
    assert_string_equal(collet_error_string((enum collet_result) - 11), unknown);
    for (int a = COLLET_ERR_INTERNAL; a <= COLLET_IN_PROGRESS; a++) {
        assert_string_not_equal(collet_error_string((enum collet_result)a), unknown);
        for (int b = COLLET_ERR_INTERNAL; b < a; b++)
            assert_string_not_equal(collet_error_string((enum collet_result)a),
                                    collet_error_string((enum collet_result)b));
    }
}

static void version_is_that_of_the_header(void **state) {
    (void)state;
    int version = 0;
    assert_success(collet_get_version(&version));
    assert_int_equal(version, COLLET_VERSION);
    assert_bad_argument(collet_get_version(NULL), "version");
}

static void type_sizes_are_right_and_0_for_what_is_no_type(void **state) {
    (void)state;
    static const size_t sizes[COLLET_TYPE_COUNT] = {4, 8, 4, 8, 1, 2, 2, 1, 2, 2, 4, 8, 1, 1};
    for (size_t type = 0; type < COLLET_TYPE_COUNT; type++)
        assert_int_equal(collet_type_size((enum collet_type)type), sizes[type]);
    assert_int_equal(collet_type_size((enum collet_type)COLLET_TYPE_COUNT), 0);
    assert_int_equal(collet_type_size((enum collet_type)99), 0);
    assert_int_equal(collet_type_size((enum collet_type) - 1), 0);
}

static void *fresh_thread(void *unused) {
    (void)unused;
    return collet_last_error(NULL)[0] == '\0' ? NULL : (void *)1;
}

static void transports_have_their_bits_by_name(void **state) {
    (void)state;
    static const struct {
        const char *name;
        unsigned bit;
    } documented[] = {{"self", COLLET_TRANSPORT_SELF},
                      {"shm", COLLET_TRANSPORT_SHM},
                      {"tcp", COLLET_TRANSPORT_TCP},
                      {"verbs", COLLET_TRANSPORT_VERBS},
                      {"ipc", COLLET_TRANSPORT_IPC}};
    for (size_t k = 0; k < sizeof(documented) / sizeof(*documented); k++)
        assert_int_equal(collet_transport_bit(documented[k].name), documented[k].bit);
    assert_int_equal(collet_transport_bit("TCP"), COLLET_TRANSPORT_TCP);
    assert_int_equal(collet_transport_bit("tc"), 0);
    assert_int_equal(collet_transport_bit("pigeon"), 0);
    assert_int_equal(collet_transport_bit(NULL), 0);
}

static void last_error_belongs_to_its_thread(void **state) {
    (void)state;
    pthread_t thread;
    void *had_text;
    assert_bad_argument(collet_get_version(NULL), "version");
    assert_int_equal(pthread_create(&thread, NULL, fresh_thread, NULL), 0);
    pthread_join(thread, &had_text);
    assert_null(had_text);
}

static void last_error_of_a_communicator_is_its_newest_failure(void **state) {
    (void)state;
    struct collet_comm *a = comm_of_one(), *b = comm_of_one();
    float x = 1;
    assert_string_equal(collet_last_error(a), "");
    assert_bad_argument(collet_allreduce(&x, &x, 1, (enum collet_type)99, COLLET_SUM, a, NULL), "type");
    assert_bad_argument(collet_allreduce(&x, &x, 1, COLLET_FLOAT32, (enum collet_op)99, b, NULL), "op");
    assert_non_null(strstr(collet_last_error(a), "type"));
    assert_non_null(strstr(collet_last_error(b), "op"));
    assert_success(collet_comm_destroy(a));
    assert_success(collet_comm_destroy(b));
    assert_non_null(collet_last_error(a));
}

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
#undef REFUSED
    config = defaults;
    config.min_channels = 4;
    config.max_channels = 2;
    assert_config_refused(config, COLLET_ERR_INVALID_ARGUMENT, "max_channels");
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

/* ---------------------------------------------------------------------------------------------------- overlapping buffers */

static void assert_overlap(enum collet_result result) {
    assert_int_equal(result, COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(collet_last_error(NULL), "sendbuff (0x"));
    assert_non_null(strstr(collet_last_error(NULL), "recvbuff (0x"));
}

static void buffers_that_overlap_are_refused_unless_the_call_is_in_place(void **state) {
    (void)state;
    struct collet_comm *comms[2];
    float x[16] = {0};
    const enum collet_type f = COLLET_FLOAT32;
    assert_success(collet_comm_init_all(comms, 2, NULL));
    struct collet_comm *one = comms[1]; /* rank 1 of 2 */
    assert_overlap(collet_allreduce(x, x + 1, 4, f, COLLET_SUM, one, NULL));
    assert_overlap(collet_allreduce(x + 3, x, 4, f, COLLET_SUM, one, NULL));
    assert_overlap(collet_allgather(x, x, 4, f, one, NULL));     /* that is rank 0's block */
    assert_overlap(collet_allgather(x + 7, x, 4, f, one, NULL)); /* half behind the last block */
    assert_overlap(collet_reducescatter(x, x, 4, f, COLLET_SUM, one, NULL));
    assert_overlap(collet_reducescatter(x, x + 5, 4, f, COLLET_SUM, one, NULL));
    assert_overlap(collet_alltoall(x, x, 4, f, one, NULL));
    assert_overlap(collet_alltoall(x, x + 7, 4, f, one, NULL));
    assert_overlap(collet_broadcast(x, x + 1, 4, f, 1, one, NULL));
    assert_overlap(collet_reduce(x, x + 1, 4, f, COLLET_SUM, 1, one, NULL));
    for (int rank = 0; rank < 2; rank++)
        assert_success(collet_comm_destroy(comms[rank]));
}

/* Both ranks make these calls, each group of which is one call. */
static void buffers_that_touch_or_lie_in_place_are_accepted(void **state) {
    (void)state;
    struct collet_comm *comms[2];
    float x[2][16] = {{0}};
    const enum collet_type f = COLLET_FLOAT32;
    assert_success(collet_comm_init_all(comms, 2, NULL));
    for (int call = 0; call < 7; call++) {
        assert_success(collet_group_start());
        for (int rank = 0; rank < 2; rank++) {
            struct collet_comm *comm = comms[rank];
            float *b = x[rank];
            enum collet_result results[] = {
                call == 0 ? collet_allreduce(b, b, 4, f, COLLET_SUM, comm, NULL) : COLLET_SUCCESS,
                call == 1 ? collet_allreduce(b, b + 4, 4, f, COLLET_SUM, comm, NULL) : COLLET_SUCCESS,
                call == 2 ? collet_allgather(b + 4 * rank, b, 4, f, comm, NULL) : COLLET_SUCCESS,
                call == 3 ? collet_reducescatter(b, b + 4 * rank, 4, f, COLLET_SUM, comm, NULL) : COLLET_SUCCESS,
                call == 4 ? collet_alltoall(b, b + 8, 4, f, comm, NULL) : COLLET_SUCCESS,
                /* A rank that is not the root may pass anything for the buffer that it does not use. */
                call == 5 ? collet_broadcast(rank == 0 ? b : b + 1, b, 4, f, 0, comm, NULL) : COLLET_SUCCESS,
                call == 6 ? collet_reduce(b, rank == 0 ? b : b + 1, 4, f, COLLET_SUM, 0, comm, NULL) : COLLET_SUCCESS};
            assert_success(results[call]);
        }
        assert_success(collet_group_end());
    }
    for (int rank = 0; rank < 2; rank++)
        assert_success(collet_comm_destroy(comms[rank]));
}

/* ---------------------------------------------------------------------------------------------------- forgotten group ends */

static void a_communicator_with_calls_in_an_open_group_is_not_ended(void **state) {
    (void)state;
    struct collet_comm *comm = comm_of_one(), *other = comm_of_one();
    float x = 2, y = 0;
    assert_success(collet_group_start());
    assert_success(collet_allreduce(&x, &y, 1, COLLET_FLOAT32, COLLET_SUM, comm, NULL));
    assert_bad_usage(collet_comm_finalize(comm), "allreduce of 1 float");
    assert_bad_usage(collet_comm_destroy(comm), "collet_group_end");
    assert_success(collet_comm_destroy(other)); /* has no call in the group */
    assert_true(y == 0);
    assert_success(collet_group_end()); /* what was refused has not harmed the group */
    assert_true(y == 2);
    assert_success(collet_comm_destroy(comm));
}

static void an_abort_takes_the_calls_of_the_open_group_with_it(void **state) {
    (void)state;
    struct collet_comm *comm = comm_of_one();
    float x = 2, y = 0;
    assert_success(collet_group_start());
    assert_success(collet_allreduce(&x, &y, 1, COLLET_FLOAT32, COLLET_SUM, comm, NULL));
    assert_success(collet_comm_abort(comm));
    assert_error(collet_group_end(), COLLET_ERR_ABORTED, "collet_comm_abort");
    assert_true(y == 0);
}

/* ---------------------------------------------------------------------------------------------------------------- fork */

/* Runs check in a child of fork(), whose exit status says whether all of it held. */
static void check_in_child(bool (*check)(struct collet_comm *comm), struct collet_comm *comm) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(check(comm) ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static bool is_refused(enum collet_result result) {
    return result == COLLET_ERR_INVALID_USAGE && strstr(collet_last_error(NULL), "fork") != NULL;
}

static bool child_calls(struct collet_comm *comm) {
    enum collet_result state;
    float x[2] = {1, 1}, y[2] = {0, 0};
    int n;
    return is_refused(collet_allreduce(x, y, 1, COLLET_FLOAT32, COLLET_SUM, comm, NULL)) &&
           is_refused(collet_allgather(x, y, 1, COLLET_FLOAT32, comm, NULL)) &&
           is_refused(collet_alltoall(x, y, 1, COLLET_FLOAT32, comm, NULL)) &&
           is_refused(collet_broadcast(x, y, 1, COLLET_FLOAT32, 0, comm, NULL)) &&
           is_refused(collet_send(x, 1, COLLET_FLOAT32, 0, comm, NULL)) &&
           is_refused(collet_comm_get_async_error(comm, &state)) && is_refused(collet_comm_count(comm, &n)) &&
           is_refused(collet_comm_dump(comm, 2)) && is_refused(collet_comm_finalize(comm)) && y[0] == 0;
}

static bool child_ends(struct collet_comm *comm) {
    return collet_comm_destroy(comm) == COLLET_SUCCESS && collet_comm_abort(comm) == COLLET_SUCCESS;
}

static bool child_makes_its_own(struct collet_comm *comm) {
    float x = 1, y = 0;
    struct collet_comm *own = comm_of_one();
    return own != comm && collet_allreduce(&x, &y, 1, COLLET_FLOAT32, COLLET_SUM, own, NULL) == COLLET_SUCCESS &&
           y == 1 && collet_comm_destroy(own) == COLLET_SUCCESS;
}

static bool child_ends_the_group(struct collet_comm *comm) {
    (void)comm;
    return collet_group_end() == COLLET_ERR_INVALID_USAGE && child_makes_its_own(comm);
}

static void a_communicator_is_refused_in_a_forked_child_and_unharmed_in_its_parent(void **state) {
    (void)state;
    struct collet_comm *comm = comm_of_one();
    float x = 1, y = 0;
    check_in_child(child_calls, comm);
    check_in_child(child_ends, comm);
    check_in_child(child_makes_its_own, comm);
    assert_success(collet_group_start());
    assert_success(collet_allreduce(&x, &y, 1, COLLET_FLOAT32, COLLET_SUM, comm, NULL));
    check_in_child(child_ends_the_group, comm);
    assert_true(y == 0);
    assert_success(collet_group_end());
    assert_true(y == 1);
    assert_success(collet_comm_destroy(comm));
}

/* ------------------------------------------------------------------------------------------------------------- plans */

static void a_plan_can_be_asked_for_and_is_the_same_on_all_ranks(void **state) {
    (void)state;
    struct collet_comm *comms[2];
    char texts[2][128], cut[8];
    assert_success(collet_comm_init_all(comms, 2, NULL));
    for (int rank = 0; rank < 2; rank++)
        assert_success(collet_comm_plan(comms[rank], "allreduce", 1 << 18, COLLET_FLOAT32, texts[rank], 128));
    assert_string_equal(texts[0], texts[1]);
    double us = 0;
    const char *predicted = strstr(texts[0], ", predicted ");
    assert_non_null(predicted);
    assert_int_equal(sscanf(predicted, ", predicted %lf us", &us), 1);
    assert_true(us > 0);
    assert_success(collet_comm_plan(comms[0], "allreduce", 1 << 18, COLLET_FLOAT32, cut, sizeof(cut)));
    assert_int_equal(strncmp(cut, texts[0], sizeof(cut) - 1), 0);
    assert_int_equal(strlen(cut), sizeof(cut) - 1);
    assert_success(collet_comm_plan(comms[0], "broadcast", 0, COLLET_UINT8, cut, sizeof(cut)));

    assert_bad_argument(collet_comm_plan(comms[0], "allreduced", 1, COLLET_UINT8, cut, sizeof(cut)), "collective");
    assert_bad_argument(collet_comm_plan(comms[0], "send", 1, COLLET_UINT8, cut, sizeof(cut)), "collective");
    assert_bad_argument(collet_comm_plan(comms[0], NULL, 1, COLLET_UINT8, cut, sizeof(cut)), "collective");
    assert_bad_argument(collet_comm_plan(comms[0], "allreduce", SIZE_MAX, COLLET_INT64, cut, sizeof(cut)), "count");
    assert_bad_argument(collet_comm_plan(comms[0], "allreduce", 1, COLLET_TYPE_COUNT, cut, sizeof(cut)), "type");
    assert_bad_argument(collet_comm_plan(comms[0], "allreduce", 1, COLLET_UINT8, NULL, sizeof(cut)), "text");
    assert_bad_argument(collet_comm_plan(comms[0], "allreduce", 1, COLLET_UINT8, cut, 0), "size");
    assert_bad_argument(collet_comm_plan(NULL, "allreduce", 1, COLLET_UINT8, cut, sizeof(cut)), "comm");
    for (int rank = 0; rank < 2; rank++)
        assert_success(collet_comm_destroy(comms[rank]));
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

/* ---------------------------------------------------------------------------------------------------------------- calls */

/* All calls that move data, in one shape. */
enum { ALLREDUCE, REDUCESCATTER, REDUCE, ALLGATHER, ALLTOALL, BROADCAST, SEND, RECV, CALLS, REDUCTIONS = ALLGATHER };

static enum collet_result any_call(int which, const void *in, void *out, size_t count, enum collet_type type,
                                   enum collet_op op, int root, struct collet_comm *comm, void *stream) {
    switch (which) {
    case ALLREDUCE: return collet_allreduce(in, out, count, type, op, comm, stream);
    case REDUCESCATTER: return collet_reducescatter(in, out, count, type, op, comm, stream);
    case REDUCE: return collet_reduce(in, out, count, type, op, root, comm, stream);
    case ALLGATHER: return collet_allgather(in, out, count, type, comm, stream);
    case ALLTOALL: return collet_alltoall(in, out, count, type, comm, stream);
    case BROADCAST: return collet_broadcast(in, out, count, type, root, comm, stream);
    case SEND: return collet_send(in, count, type, root, comm, stream);
    default: return collet_recv(out, count, type, root, comm, stream);
    }
}

struct pair {
    struct collet_comm *comms[2];
    float in[8], out[8];
};

static void pair_create(struct pair *pair) {
    *pair = (struct pair){{NULL}, {1, 2, 3, 4, 5, 6, 7, 8}, {0}};
    assert_success(collet_comm_init_all(pair->comms, 2, NULL));
}

/* Both ranks still work together, and nothing wrote to `out`. */
static void pair_check_and_destroy(struct pair *pair) {
    float sums[2] = {0, 0};
    for (int k = 0; k < 8; k++)
        assert_true(pair->out[k] == 0);
    assert_success(collet_group_start());
    for (int rank = 0; rank < 2; rank++)
        assert_success(
            collet_allreduce(&pair->in[rank], &sums[rank], 1, COLLET_FLOAT32, COLLET_SUM, pair->comms[rank], NULL));
    assert_success(collet_group_end());
    assert_true(sums[0] == 3 && sums[1] == 3);
    assert_success(collet_comm_destroy(pair->comms[0]));
    assert_success(collet_comm_destroy(pair->comms[1]));
}

static void every_call_names_its_bad_argument(void **state) {
    (void)state;
    struct pair p;
    pair_create(&p);
    struct collet_comm *comm = p.comms[0];
    const enum collet_type F = COLLET_FLOAT32;
    for (int call = 0; call < CALLS; call++) {
        assert_bad_argument(any_call(call, p.in, p.out, 2, F, COLLET_SUM, 0, NULL, NULL), "comm");
        assert_bad_argument(any_call(call, p.in, p.out, 2, (enum collet_type)99, COLLET_SUM, 0, comm, NULL), "type");
        assert_bad_argument(any_call(call, p.in, p.out, 2, (enum collet_type) - 1, COLLET_SUM, 0, comm, NULL), "type");
        assert_bad_argument(any_call(call, p.in, p.out, 2, F, COLLET_SUM, 0, comm, p.in), "stream");
        assert_bad_argument(any_call(call, p.in, p.out, SIZE_MAX, F, COLLET_SUM, 0, comm, NULL), "count");
        assert_bad_argument(any_call(call, p.in, p.out, SIZE_MAX / 4 + 1, F, COLLET_SUM, 0, comm, NULL), "count");
        assert_bad_argument(any_call(call, p.in, p.out, SIZE_MAX / 4, F, COLLET_SUM, 0, comm, NULL), "count");
        assert_bad_argument(any_call(call, p.in, p.out, SIZE_MAX, COLLET_UINT8, COLLET_SUM, 0, comm, NULL), "count");
        if (call != RECV)
            assert_bad_argument(any_call(call, NULL, p.out, 2, F, COLLET_SUM, 0, comm, NULL), "sendbuff");
        if (call != SEND)
            assert_bad_argument(any_call(call, p.in, NULL, 2, F, COLLET_SUM, 0, comm, NULL), "recvbuff");
    }
    for (int call = 0; call < REDUCTIONS; call++) {
        assert_bad_argument(any_call(call, p.in, p.out, 2, F, (enum collet_op)99, 0, comm, NULL), "op");
        assert_bad_argument(any_call(call, p.in, p.out, 2, F, (enum collet_op) - 1, 0, comm, NULL), "op");
        assert_bad_argument(any_call(call, p.in, p.out, 2, F, COLLET_OP_COUNT, 0, comm, NULL), "op");
        assert_bad_argument(any_call(call, p.in, p.out, 2, F, COLLET_BAND, 0, comm, NULL), "op is band");
        assert_bad_argument(any_call(call, p.in, p.out, 2, COLLET_FLOAT8_E4M3, COLLET_BXOR, 0, comm, NULL), "f8e4m3");
    }
    pair_check_and_destroy(&p);
}

static void operators_are_of_one_communicator_and_one_type(void **state) {
    (void)state;
    struct pair p;
    pair_create(&p);
    enum collet_op ours, theirs;
    float two = 2;
    struct collet_comm *comm = p.comms[0];
    assert_bad_argument(collet_op_create_premul_sum(NULL, &two, COLLET_FLOAT32, COLLET_SCALAR_HOST, comm),
                        "op is NULL");
    assert_bad_argument(collet_op_create_premul_sum(&ours, NULL, COLLET_FLOAT32, COLLET_SCALAR_HOST, comm), "scalar");
    assert_bad_argument(collet_op_create_premul_sum(&ours, &two, COLLET_TYPE_COUNT, COLLET_SCALAR_HOST, comm), "type");
    assert_bad_argument(collet_op_create_premul_sum(&ours, &two, COLLET_FLOAT32, (enum collet_residence)2, comm),
                        "residence");
    assert_bad_argument(collet_op_create_premul_sum(&ours, &two, COLLET_FLOAT32, COLLET_SCALAR_HOST, NULL), "comm");
    assert_success(collet_op_create_premul_sum(&ours, &two, COLLET_FLOAT32, COLLET_SCALAR_HOST, comm));
    assert_success(collet_op_create_premul_sum(&theirs, &two, COLLET_FLOAT32, COLLET_SCALAR_HOST, p.comms[1]));
    assert_bad_argument(collet_allreduce(p.in, p.out, 2, COLLET_FLOAT32, theirs, comm, NULL),
                        "not created on this communicator");
    assert_bad_argument(collet_allreduce(p.in, p.out, 2, COLLET_INT32, ours, comm, NULL), "created for type float");
    assert_bad_argument(collet_allreduce(p.in, p.out, 2, COLLET_FLOAT32, COLLET_PREMULSUM, comm, NULL), "create one");
    assert_bad_argument(collet_op_destroy(theirs, comm), "op");
    assert_bad_argument(collet_op_destroy(COLLET_SUM, comm), "op");
    assert_success(collet_op_destroy(ours, comm));
    assert_bad_argument(collet_op_destroy(ours, comm), "op");
    assert_bad_argument(collet_allreduce(p.in, p.out, 2, COLLET_FLOAT32, ours, comm, NULL), "op");
    pair_check_and_destroy(&p); /* with an operator that nobody has destroyed */
}

/* One scalar is read when the operator is created, one when the call runs. */
static void scalars_are_read_when_they_are_said_to_be(void **state) {
    (void)state;
    struct pair p;
    pair_create(&p);
    enum collet_op ops[2];
    float scalars[2] = {2, 3}, out[2][4];
    for (int rank = 0; rank < 2; rank++)
        assert_success(collet_op_create_premul_sum(&ops[rank], &scalars[rank], COLLET_FLOAT32,
                                                   rank == 0 ? COLLET_SCALAR_HOST : COLLET_SCALAR_DEVICE,
                                                   p.comms[rank]));
    assert_success(collet_group_start());
    for (int rank = 0; rank < 2; rank++) {
        assert_success(collet_allreduce(p.in, out[rank], 4, COLLET_FLOAT32, ops[rank], p.comms[rank], NULL));
        assert_success(collet_op_destroy(ops[rank], p.comms[rank]));
    }
    scalars[0] = scalars[1] = 100;
    assert_success(collet_group_end());
    for (int i = 0; i < 4; i++)
        assert_true(out[0][i] == 102 * p.in[i] && out[1][i] == 102 * p.in[i]);
    pair_check_and_destroy(&p);
}

static void allocated_memory_is_zeroed_and_aligned_to_pages(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 4096, 100000, (2 << 20) - 1, 2 << 20, (5 << 20) + 17};
    char *memory[6];
    for (int k = 0; k < 6; k++) {
        assert_success(collet_mem_alloc((void **)&memory[k], sizes[k], COLLET_DEVICE_HOST));
        assert_int_equal((uintptr_t)memory[k] % (sizes[k] < 2 << 20 ? 4096 : 2 << 20), 0);
        for (size_t i = 0; i < sizes[k]; i++)
            assert_int_equal(memory[k][i], 0);
        memset(memory[k], 0x5a, sizes[k]);
    }
    assert_bad_argument(collet_mem_free(memory[2] + 1), "collet_mem_alloc");
    for (int k = 0; k < 6; k++)
        assert_success(collet_mem_free(memory[k]));
    assert_bad_argument(collet_mem_free(memory[2]), "freed already");
    assert_success(collet_mem_free(NULL));
}

static void allocations_that_cannot_be_are_named(void **state) {
    (void)state;
    void *memory = &memory;
    assert_bad_argument(collet_mem_alloc(NULL, 8, COLLET_DEVICE_HOST), "memory");
    assert_bad_argument(collet_mem_alloc(&memory, 0, COLLET_DEVICE_HOST), "bytes");
    assert_bad_argument(collet_mem_alloc(&memory, 8, -7), "device");
    assert_error(collet_mem_alloc(&memory, SIZE_MAX, COLLET_DEVICE_HOST), COLLET_ERR_NO_MEMORY, "bytes");
    assert_error(collet_mem_alloc(&memory, (size_t)1 << 46, COLLET_DEVICE_HOST), COLLET_ERR_NO_MEMORY, "bytes");
    assert_ptr_equal(memory, &memory);
}

static void registrations_are_of_one_communicator(void **state) {
    (void)state;
    struct pair p;
    pair_create(&p);
    struct collet_registration *first, *same, *inside, *theirs;
    struct collet_comm *comm = p.comms[0];
    assert_success(collet_comm_register(comm, p.in, sizeof(p.in), &first));
    assert_success(collet_comm_register(comm, p.in, sizeof(p.in), &same));
    assert_success(collet_comm_register(comm, p.in + 1, 4, &inside));
    assert_success(collet_comm_register(p.comms[1], p.in, sizeof(p.in), &theirs));
    assert_true(first != same);
    assert_bad_argument(collet_comm_register(comm, NULL, 4, &first), "buff");
    assert_bad_argument(collet_comm_register(comm, p.in, 0, &first), "bytes");
    assert_bad_argument(collet_comm_register(comm, p.in, SIZE_MAX, &first), "bytes");
    assert_bad_argument(collet_comm_register(comm, p.in, 4, NULL), "registration");
    assert_bad_argument(collet_comm_register(NULL, p.in, 4, &first), "comm");
    assert_bad_argument(collet_comm_deregister(comm, theirs), "registration");
    assert_success(collet_comm_deregister(comm, first));
    assert_bad_argument(collet_comm_deregister(comm, first), "registration");
    assert_success(collet_comm_deregister(comm, same));
    assert_success(collet_comm_deregister(comm, NULL));
    pair_check_and_destroy(&p); /* with registrations that nobody has ended */
}

static void roots_and_peers_outside_the_communicator_are_named(void **state) {
    (void)state;
    static const int outside[] = {-1, 2, 1000000, INT32_MIN};
    struct pair p;
    pair_create(&p);
    for (size_t k = 0; k < sizeof(outside) / sizeof(*outside); k++)
        for (int call = 0; call < CALLS; call++) {
            const char *name = call == SEND || call == RECV ? "peer" : "root";
            if (call == REDUCE || call == BROADCAST || call == SEND || call == RECV)
                assert_bad_argument(
                    any_call(call, p.in, p.out, 2, COLLET_FLOAT32, COLLET_SUM, outside[k], p.comms[1], NULL), name);
        }
    pair_check_and_destroy(&p);
}

static void counts_that_overflow_only_times_ranks_are_refused(void **state) {
    (void)state;
    struct pair p;
    pair_create(&p);
    size_t count = SIZE_MAX / 8 + 1; /* times 2 ranks, 4 bytes */
    for (int call = 0; call < CALLS; call++)
        if (call == REDUCESCATTER || call == ALLGATHER || call == ALLTOALL)
            assert_bad_argument(any_call(call, p.in, p.out, count, COLLET_FLOAT32, COLLET_SUM, 0, p.comms[0], NULL),
                                "count");
    pair_check_and_destroy(&p);
}

static void alltoall_in_place_is_refused(void **state) {
    (void)state;
    struct pair p;
    pair_create(&p);
    assert_bad_argument(collet_alltoall(p.in, p.in, 2, COLLET_FLOAT32, p.comms[0], NULL), "recvbuff");
    pair_check_and_destroy(&p);
}

static void a_count_of_0_needs_no_buffers(void **state) {
    (void)state;
    struct pair p;
    pair_create(&p);
    for (int call = 0; call < SEND; call++) /* alone, without the other rank: nothing is to be moved */
        assert_success(any_call(call, NULL, NULL, 0, COLLET_FLOAT32, COLLET_SUM, 1, p.comms[0], NULL));
    assert_success(collet_group_start());
    assert_success(collet_send(NULL, 0, COLLET_FLOAT32, 1, p.comms[0], NULL));
    assert_success(collet_recv(NULL, 0, COLLET_FLOAT32, 0, p.comms[1], NULL));
    assert_success(collet_group_end());
    assert_bad_argument(collet_allreduce(NULL, NULL, 0, (enum collet_type)99, COLLET_SUM, p.comms[0], NULL), "type");
    pair_check_and_destroy(&p);
}

static void buffers_that_a_rank_does_not_use_may_be_null(void **state) {
    (void)state;
    struct pair p;
    float got[2] = {0, 0};
    pair_create(&p);
    assert_success(collet_group_start());
    assert_success(collet_broadcast(&p.in[4], &got[0], 1, COLLET_FLOAT32, 0, p.comms[0], NULL));
    assert_success(collet_broadcast(NULL, &got[1], 1, COLLET_FLOAT32, 0, p.comms[1], NULL));
    assert_success(collet_group_end());
    assert_true(got[0] == 5 && got[1] == 5);
    assert_success(collet_group_start());
    assert_success(collet_reduce(&p.in[0], NULL, 1, COLLET_FLOAT32, COLLET_SUM, 1, p.comms[0], NULL));
    assert_success(collet_reduce(&p.in[1], &got[1], 1, COLLET_FLOAT32, COLLET_SUM, 1, p.comms[1], NULL));
    assert_success(collet_group_end());
    assert_true(got[1] == 3);
    pair_check_and_destroy(&p);
}

static void messages_to_oneself_need_both_ends_in_a_group(void **state) {
    (void)state;
    struct pair p;
    float got = 0;
    pair_create(&p);
    assert_bad_usage(collet_send(p.in, 1, COLLET_FLOAT32, 0, p.comms[0], NULL), "group");
    assert_bad_usage(collet_recv(&got, 1, COLLET_FLOAT32, 0, p.comms[0], NULL), "group");
    assert_success(collet_group_start());
    assert_success(collet_send(p.in, 1, COLLET_FLOAT32, 0, p.comms[0], NULL));
    assert_bad_usage(collet_group_end(), "receive");
    assert_success(collet_group_start());
    assert_success(collet_recv(&got, 1, COLLET_FLOAT32, 1, p.comms[1], NULL));
    assert_bad_usage(collet_group_end(), "send");
    assert_success(collet_group_start());
    assert_success(collet_send(p.in, 2, COLLET_FLOAT32, 0, p.comms[0], NULL));
    assert_success(collet_recv(&got, 1, COLLET_FLOAT32, 0, p.comms[0], NULL));
    assert_error(collet_group_end(), COLLET_ERR_MISMATCH, "8 bytes");
    assert_true(got == 0);
    assert_success(collet_group_start());
    assert_success(collet_recv(&got, 4, COLLET_UINT8, 0, p.comms[0], NULL)); /* types need not be equal, bytes do */
    assert_success(collet_send(p.in + 6, 1, COLLET_FLOAT32, 0, p.comms[0], NULL));
    assert_success(collet_group_end());
    assert_true(got == 7);
    pair_check_and_destroy(&p);
}

/* --------------------------------------------------------------------------------------------------------------- groups */

static void an_end_without_a_start_is_refused(void **state) {
    (void)state;
    assert_bad_usage(collet_group_end(), "collet_group_start");
    assert_success(collet_group_start());
    assert_success(collet_group_end());
    assert_bad_usage(collet_group_end(), "collet_group_start");
}

static void groups_nest_and_may_be_empty(void **state) {
    (void)state;
    struct pair p;
    float sums[2] = {0, 0};
    pair_create(&p);
    for (int depth = 0; depth < 5; depth++)
        assert_success(collet_group_start());
    for (int depth = 0; depth < 5; depth++)
        assert_success(collet_group_end());
    assert_success(collet_group_start());
    assert_success(collet_allreduce(&p.in[0], &sums[0], 1, COLLET_FLOAT32, COLLET_SUM, p.comms[0], NULL));
    assert_success(collet_group_start());
    assert_success(collet_allreduce(&p.in[1], &sums[1], 1, COLLET_FLOAT32, COLLET_SUM, p.comms[1], NULL));
    assert_success(collet_group_end()); /* not the outermost: nothing may have run */
    assert_true(sums[0] == 0 && sums[1] == 0);
    assert_success(collet_group_end());
    assert_true(sums[0] == 3 && sums[1] == 3);
    pair_check_and_destroy(&p);
}

static void a_bad_call_poisons_its_group(void **state) {
    (void)state;
    struct pair p;
    pair_create(&p);
    assert_success(collet_group_start());
    assert_success(collet_allreduce(p.in, p.out, 4, COLLET_FLOAT32, COLLET_SUM, p.comms[0], NULL));
    assert_success(collet_group_start());
    assert_bad_argument(collet_broadcast(p.in, p.out + 4, 4, COLLET_FLOAT32, 17, p.comms[0], NULL), "root");
    assert_success(collet_group_end());
    assert_bad_argument(collet_allreduce(p.in, p.out, 4, (enum collet_type)42, COLLET_SUM, p.comms[1], NULL), "type");
    assert_success(collet_allreduce(p.in, p.out, 4, COLLET_FLOAT32, COLLET_SUM, p.comms[1], NULL));
    assert_bad_argument(collet_group_end(), "root is 17"); /* the first error, with its own text */
    pair_check_and_destroy(&p);                            /* nothing ran, and the next group is clean */
}

static void a_bad_init_poisons_its_group(void **state) {
    (void)state;
    struct collet_unique_id id;
    struct collet_comm *comms[2] = {NULL, NULL};
    assert_success(collet_get_unique_id(&id));
    assert_success(collet_group_start());
    assert_success(collet_comm_init_rank(&comms[0], 2, id, 0));
    assert_non_null(comms[0]);
    assert_bad_argument(collet_comm_init_rank(&comms[1], 2, id, 2), "rank");
    assert_bad_argument(collet_group_end(), "rank");
    assert_null(comms[0]);
    assert_null(comms[1]);
}

static void ranks_created_in_a_group_are_usable_behind_it(void **state) {
    (void)state;
    struct collet_unique_id id;
    struct pair p = {{NULL}, {1, 2}, {0}};
    assert_success(collet_get_unique_id(&id));
    assert_success(collet_group_start());
    for (int rank = 0; rank < 2; rank++)
        assert_success(collet_comm_init_rank(&p.comms[rank], 2, id, rank));
    assert_success(collet_group_end());
    pair_check_and_destroy(&p);
}

/* ------------------------------------------------------------------------------------------------------------ the end */

static void getters_name_what_is_null(void **state) {
    (void)state;
    struct collet_comm *comm = comm_of_one();
    int value = -1;
    enum collet_result error;
    assert_bad_argument(collet_comm_count(NULL, &value), "comm");
    assert_bad_argument(collet_comm_rank(NULL, &value), "comm");
    assert_bad_argument(collet_comm_device(NULL, &value), "comm");
    assert_bad_argument(collet_comm_get_async_error(NULL, &error), "comm");
    assert_bad_argument(collet_comm_dump(NULL, 1), "comm");
    assert_bad_argument(collet_comm_count(comm, NULL), "nranks");
    assert_bad_argument(collet_comm_rank(comm, NULL), "rank");
    assert_bad_argument(collet_comm_device(comm, NULL), "device");
    assert_bad_argument(collet_comm_get_async_error(comm, NULL), "async_error");
    assert_bad_argument(collet_comm_dump(comm, -1), "fd");
    assert_success(collet_comm_device(comm, &value));
    assert_int_equal(value, COLLET_DEVICE_HOST);
    assert_success(collet_comm_destroy(comm));
}

static void nothing_follows_finalize_but_getters_and_the_end(void **state) {
    (void)state;
    struct collet_comm *comm = comm_of_one();
    float x = 1;
    int value;
    enum collet_result error;
    assert_success(collet_comm_finalize(NULL));
    assert_success(collet_comm_finalize(comm));
    assert_bad_usage(collet_comm_finalize(comm), "finalized");
    for (int call = 0; call < CALLS; call++)
        assert_bad_usage(any_call(call, &x, &x + (call == ALLTOALL), 1, COLLET_FLOAT32, COLLET_SUM, 0, comm, NULL),
                         "finalized");
    assert_success(collet_comm_count(comm, &value));
    assert_success(collet_comm_get_async_error(comm, &error));
    assert_int_equal(error, COLLET_SUCCESS);
    assert_success(collet_comm_destroy(comm));
}

static void assert_is_no_communicator(struct collet_comm *comm) {
    float x = 1, y[2];
    int value;
    enum collet_result error;
    for (int call = 0; call < CALLS; call++)
        assert_bad_argument(any_call(call, &x, y, 1, COLLET_FLOAT32, COLLET_SUM, 0, comm, NULL), "comm");
    assert_bad_argument(collet_comm_count(comm, &value), "comm");
    assert_bad_argument(collet_comm_rank(comm, &value), "comm");
    assert_bad_argument(collet_comm_device(comm, &value), "comm");
    assert_bad_argument(collet_comm_get_async_error(comm, &error), "comm");
    assert_bad_argument(collet_comm_dump(comm, 1), "comm");
    assert_bad_argument(collet_comm_finalize(comm), "comm");
    assert_bad_argument(collet_comm_destroy(comm), "comm");
    assert_bad_argument(collet_comm_abort(comm), "comm");
    assert_string_equal(collet_last_error(comm), "");
}

static void a_destroyed_communicator_is_noticed(void **state) {
    (void)state;
    struct collet_comm *comm = comm_of_one();
    assert_success(collet_comm_destroy(NULL));
    assert_success(collet_comm_destroy(comm));
    assert_is_no_communicator(comm);
}

static void an_aborted_communicator_is_noticed(void **state) {
    (void)state;
    struct collet_comm *comm = comm_of_one();
    assert_success(collet_comm_abort(NULL));
    assert_success(collet_comm_abort(comm));
    assert_is_no_communicator(comm);
}

static void other_memory_is_no_communicator(void **state) {
    (void)state;
    static uint64_t zeros[1024];
    assert_is_no_communicator((struct collet_comm *)(void *)zeros);
}

static void an_abort_of_one_rank_fails_the_others(void **state) {
    (void)state;
    struct pair p;
    enum collet_result error;
    float x = 1;
    pair_create(&p);
    assert_success(collet_comm_abort(p.comms[1]));
    assert_success(collet_comm_get_async_error(p.comms[0], &error));
    assert_int_equal(error, COLLET_ERR_ABORTED);
    assert_error(collet_allreduce(&x, &x, 1, COLLET_FLOAT32, COLLET_SUM, p.comms[0], NULL), COLLET_ERR_ABORTED,
                 "rank 1");
    assert_non_null(strstr(collet_last_error(p.comms[0]), "rank 1"));
    assert_success(collet_comm_destroy(p.comms[0]));
}

int main(void) {
    alarm(100); /* nothing here takes long: a wait that does not end is a failure */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_result_has_its_own_text),
        cmocka_unit_test(version_is_that_of_the_header),
        cmocka_unit_test(type_sizes_are_right_and_0_for_what_is_no_type),
        cmocka_unit_test(transports_have_their_bits_by_name),
        cmocka_unit_test(last_error_belongs_to_its_thread),
        cmocka_unit_test(last_error_of_a_communicator_is_its_newest_failure),
        cmocka_unit_test(init_rank_names_the_bad_argument),
        cmocka_unit_test(init_rank_refuses_what_is_no_id),
        cmocka_unit_test(config_fields_out_of_range_are_named),
        cmocka_unit_test(a_shorter_config_of_an_older_program_is_valid),
        cmocka_unit_test(a_longer_config_of_a_newer_program_is_valid_if_its_tail_is_zero),
        cmocka_unit_test(a_name_may_be_long_and_is_copied),
        cmocka_unit_test(gpus_are_unsupported_in_a_build_for_hosts),
        cmocka_unit_test(init_all_names_the_bad_argument_and_leaves_no_handle),
        cmocka_unit_test_teardown(variables_that_mean_nothing_are_refused_by_name, no_variables),
        cmocka_unit_test_teardown(a_rank_other_than_0_does_not_pass_over_its_variables, no_variables),
        cmocka_unit_test(buffers_that_overlap_are_refused_unless_the_call_is_in_place),
        cmocka_unit_test(buffers_that_touch_or_lie_in_place_are_accepted),
        cmocka_unit_test(a_plan_can_be_asked_for_and_is_the_same_on_all_ranks),
        cmocka_unit_test(a_communicator_with_calls_in_an_open_group_is_not_ended),
        cmocka_unit_test(an_abort_takes_the_calls_of_the_open_group_with_it),
        cmocka_unit_test(a_communicator_is_refused_in_a_forked_child_and_unharmed_in_its_parent),
        cmocka_unit_test(a_non_blocking_init_is_in_progress_until_all_have_come),
        cmocka_unit_test(a_non_blocking_init_can_be_ended_while_it_is_in_progress),
        cmocka_unit_test_teardown(a_non_blocking_init_reports_a_bad_variable_when_polled, no_variables),
        cmocka_unit_test_setup_teardown(without_a_launcher_there_is_one_rank, no_launcher, no_launcher),
        cmocka_unit_test_setup_teardown(a_launcher_that_contradicts_itself_is_refused_by_variable, no_launcher,
                                        no_launcher),
        cmocka_unit_test(every_call_names_its_bad_argument),
        cmocka_unit_test(operators_are_of_one_communicator_and_one_type),
        cmocka_unit_test(scalars_are_read_when_they_are_said_to_be),
        cmocka_unit_test(allocated_memory_is_zeroed_and_aligned_to_pages),
        cmocka_unit_test(allocations_that_cannot_be_are_named),
        cmocka_unit_test(registrations_are_of_one_communicator),
        cmocka_unit_test(roots_and_peers_outside_the_communicator_are_named),
        cmocka_unit_test(counts_that_overflow_only_times_ranks_are_refused),
        cmocka_unit_test(alltoall_in_place_is_refused),
        cmocka_unit_test(a_count_of_0_needs_no_buffers),
        cmocka_unit_test(buffers_that_a_rank_does_not_use_may_be_null),
        cmocka_unit_test(messages_to_oneself_need_both_ends_in_a_group),
        cmocka_unit_test(an_end_without_a_start_is_refused),
        cmocka_unit_test(groups_nest_and_may_be_empty),
        cmocka_unit_test(a_bad_call_poisons_its_group),
        cmocka_unit_test(a_bad_init_poisons_its_group),
        cmocka_unit_test(ranks_created_in_a_group_are_usable_behind_it),
        cmocka_unit_test(getters_name_what_is_null),
        cmocka_unit_test(nothing_follows_finalize_but_getters_and_the_end),
        cmocka_unit_test(a_destroyed_communicator_is_noticed),
        cmocka_unit_test(an_aborted_communicator_is_noticed),
        cmocka_unit_test(other_memory_is_no_communicator),
        cmocka_unit_test(an_abort_of_one_rank_fails_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
