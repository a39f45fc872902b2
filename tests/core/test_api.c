/* SPDX-License-Identifier: Apache-2.0
 *
 * Odd sequences of calls: every one ends in the error that collet.h promises, with a text that names what is wrong, and
 * leaves everything usable.
 */
#include "common/fair.h"
#include "common/whole.h"
#include "common/api_case.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

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
    assert_true(us > 0 || !library_is_whole); /* the core does not predict */
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

/* A name with its collective in front is for that one alone. */
static void protocols_of_one_collective_are_not_those_of_the_others(void **state) {
    (void)state;
    static const struct {
        const char *variable, *collective, *protocol;
    } cases[] = {{"allreduce:LL128", "allreduce", ", LL128, "},      {"LL,AllReduce:simple", "allreduce", ", Simple, "},
                 {"LL,allreduce:Simple", "broadcast", ", LL, "},     {"^LL,LL128,allreduce:LL", "allreduce", ", LL, "},
                 {"^LL,LL128,allreduce:LL", "reduce", ", Simple, "}, {"reduce:LL, reduce:LL128", "reduce", ", LL"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (size_t count = 1; count <= 1 << 20; count <<= 10) {
            char text[128];
            setenv("COLLET_PROTO", cases[k].variable, 1);
            struct collet_comm *comm = comm_of_one();
            assert_success(collet_comm_plan(comm, cases[k].collective, count, COLLET_FLOAT32, text, sizeof text));
            assert_non_null(strstr(text, cases[k].protocol));
            assert_success(collet_comm_destroy(comm));
        }
    unsetenv("COLLET_PROTO");
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

static void a_dump_that_cannot_be_written_is_an_error(void **state) {
    (void)state;
    struct collet_comm *comm = comm_of_one();
    const int fd = open("/dev/full", O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(collet_comm_dump(comm, fd), COLLET_ERR_SYSTEM);
    assert_non_null(strstr(collet_last_error(NULL), "No space left on device"));
    close(fd);
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
    fair_alarm(100); /* nothing here takes long: a wait that does not end is a failure */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_result_has_its_own_text),
        cmocka_unit_test(version_is_that_of_the_header),
        cmocka_unit_test(type_sizes_are_right_and_0_for_what_is_no_type),
        cmocka_unit_test(transports_have_their_bits_by_name),
        cmocka_unit_test(last_error_belongs_to_its_thread),
        cmocka_unit_test(last_error_of_a_communicator_is_its_newest_failure),
        cmocka_unit_test(a_plan_can_be_asked_for_and_is_the_same_on_all_ranks),
        cmocka_unit_test(protocols_of_one_collective_are_not_those_of_the_others),
        cmocka_unit_test(a_communicator_with_calls_in_an_open_group_is_not_ended),
        cmocka_unit_test(an_abort_takes_the_calls_of_the_open_group_with_it),
        cmocka_unit_test(a_communicator_is_refused_in_a_forked_child_and_unharmed_in_its_parent),
        cmocka_unit_test(getters_name_what_is_null),
        cmocka_unit_test(a_dump_that_cannot_be_written_is_an_error),
        cmocka_unit_test(nothing_follows_finalize_but_getters_and_the_end),
        cmocka_unit_test(a_destroyed_communicator_is_noticed),
        cmocka_unit_test(an_aborted_communicator_is_noticed),
        cmocka_unit_test(other_memory_is_no_communicator),
        cmocka_unit_test(an_abort_of_one_rank_fails_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
