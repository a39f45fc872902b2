/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is blamed when a job stands still: the error of every rank names the rank at the end of the chain of waits, and what
 * that rank is doing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/fair.h"
#include "common/level.h"
#include "common/whole.h"
#include "common/world.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS 6000
#define BYTES (1u << 20) /* more than a connection's slots take: no rank can be done without the others */

struct blame {
    const char *words[3]; /* that every survivor's error contains */
    bool connected;       /* the ranks have exchanged messages before */
    int ended;            /* survivors that have their error */
    pid_t victim;
    char log[64]; /* where the ranks' stderr goes */
};

static const char *const ring[] = {"COLLET_ALGO", "ring", "COLLET_PROTO", "Simple", NULL};

static struct collet_comm *impatient_comm(struct ranks *ranks, int rank, const char *name) {
    struct collet_config config = {.size = sizeof(config), .timeout_ms = TIMEOUT_MS, .name = name};
    return ranks_comm(ranks, rank, &config);
}

static enum collet_result sum(void *data, struct collet_comm *comm) {
    return collet_allreduce(data, data, BYTES / 4, COLLET_INT32, COLLET_SUM, comm, NULL);
}

static void check_blame(struct ranks *ranks, int rank, enum collet_result result, enum collet_result expected) {
    const struct blame *blame = ranks->argument;
    ranks_expect(ranks, rank, result, expected, "the call that cannot be done");
    for (int k = 0; k < 3 && blame->words[k] != NULL; k++)
        if (strstr(collet_last_error(NULL), blame->words[k]) == NULL)
            ranks_fail(ranks, "rank %d: \"%s\" is not in: %s", rank, blame->words[k], collet_last_error(NULL));
}

static void write_into_log(struct ranks *ranks) {
    const struct blame *blame = ranks->argument;
    if (freopen(blame->log, "a", stderr) == NULL)
        ranks_fail(ranks, "cannot write %s", blame->log);
}

static struct blame *blame_with_log(void) {
    struct blame *blame = ranks_share(sizeof(*blame));
    snprintf(blame->log, sizeof(blame->log), "/tmp/collet-test-blame-%d", (int)getpid());
    return blame;
}

static void run_blamed(int world, int nranks, struct blame blame, void (*run)(struct ranks *ranks, int rank)) {
    struct blame *shared = ranks_share(sizeof(*shared));
    *shared = blame;
    world_run(&worlds[world], nranks, ring, run, shared);
    ranks_unshare(shared, sizeof(*shared));
}

/* ---------------------------------------------------------------------------------------------------- a rank is missing */

static void one_never_calls(struct ranks *ranks, int rank) {
    struct collet_comm *comm = impatient_comm(ranks, rank, NULL);
    int *data = calloc(1, BYTES);
    ranks_try(ranks, rank, sum(data, comm));
    ranks_barrier(ranks);
    if (rank != 1)
        check_blame(ranks, rank, sum(data, comm), COLLET_ERR_TIMEOUT);
    ranks_barrier(ranks);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(data);
}

static void a_rank_that_does_not_call_is_named_by_all_others(void **state) {
    (void)state;
    struct blame blame = {.words = {"rank 1 has not made this call (its last is call 1)"}};
    run_blamed(WORLD_SHM, 4, blame, one_never_calls);
    run_blamed(WORLD_TCP, 3, blame, one_never_calls);
    run_blamed(WORLD_THREADS, 4, blame, one_never_calls);
}

static void one_is_stopped(struct ranks *ranks, int rank) {
    struct blame *blame = ranks->argument;
    struct collet_comm *comm = impatient_comm(ranks, rank, NULL);
    int *data = calloc(1, BYTES);
    ranks_try(ranks, rank, sum(data, comm));
    if (rank == 1)
        blame->victim = getpid();
    ranks_barrier(ranks);
    if (rank == 1) {
        __atomic_store_n(&ranks->expendable[rank], 1, __ATOMIC_RELEASE);
        raise(SIGSTOP);
        for (;;)
            pause();
    }
    check_blame(ranks, rank, sum(data, comm), COLLET_ERR_TIMEOUT);
    if (__atomic_add_fetch(&blame->ended, 1, __ATOMIC_ACQ_REL) == ranks->nranks - 1)
        kill(blame->victim, SIGKILL);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(data);
}

/* Rank 2 waits for rank 1, which is stopped and answers no question. The time of rank 0 is up before it has given up that question. */
static void be_impatient(struct ranks *ranks, int rank) {
    struct blame *blame = ranks->argument;
    struct collet_config config = {.size = sizeof(config), .timeout_ms = rank == 0 ? 1000 : 60000};
    struct collet_comm *comm = ranks_comm(ranks, rank, &config);
    int word = 0;
    if (rank == 1)
        blame->victim = getpid();
    ranks_barrier(ranks);
    if (rank == 1) {
        __atomic_store_n(&ranks->expendable[rank], 1, __ATOMIC_RELEASE);
        raise(SIGSTOP);
    } else if (rank == 2) {
        __atomic_store_n(&ranks->expendable[rank], 1, __ATOMIC_RELEASE);
        collet_recv(&word, 1, COLLET_INT32, 1, comm, NULL);
    } else {
        ranks_sleep_ms(2000); /* rank 2 says by then that it waits */
        check_blame(ranks, rank, collet_recv(&word, 1, COLLET_INT32, 2, comm, NULL), COLLET_ERR_TIMEOUT);
        kill(blame->victim, SIGKILL);
    }
}

static void a_question_that_is_open_hides_no_answer(void **state) {
    (void)state;
    run_blamed(WORLD_SHM, 3, (struct blame){.words = {"rank 2 waits for", "with rank 1"}}, be_impatient);
}

static void a_rank_that_is_stopped_is_named_by_all_others(void **state) {
    (void)state;
    run_blamed(WORLD_SHM, 4, (struct blame){.words = {"rank 1 is stopped (process"}}, one_is_stopped);
}

/* Rank 0 waits for rank 1, and rank 1 for rank 2, which makes no call. Rank 0's time is up first: its error is that of both. */
static void wait_in_a_row(struct ranks *ranks, int rank) {
    const struct blame *blame = ranks->argument;
    struct collet_config config = {.size = sizeof(config), .timeout_ms = rank == 0 ? TIMEOUT_MS : 20 * TIMEOUT_MS};
    struct collet_comm *comm = ranks_comm(ranks, rank, &config);
    int x = 0;
    if (blame->connected && rank > 0)
        ranks_try(ranks, rank, collet_send(&x, 1, COLLET_INT32, rank - 1, comm, NULL));
    if (blame->connected && rank < 2)
        ranks_try(ranks, rank, collet_recv(&x, 1, COLLET_INT32, rank + 1, comm, NULL));
    ranks_barrier(ranks);
    if (rank < 2)
        check_blame(ranks, rank, collet_recv(&x, 1, COLLET_INT32, rank + 1, comm, NULL), COLLET_ERR_TIMEOUT);
    ranks_barrier(ranks);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void the_text_says_whether_a_rank_waits_for_a_connection_or_for_data(void **state) {
    (void)state;
    run_blamed(WORLD_SHM, 3,
               (struct blame){
                   .words = {"rank 1 waits for a connection with rank 2 in recv (call 1)", "rank 2 waits in no call"}},
               wait_in_a_row);
    run_blamed(WORLD_SHM, 3,
               (struct blame){.words = {"rank 1 waits for rank 2 in recv (call 2)", "rank 2 waits in no call"},
                              .connected = true},
               wait_in_a_row);
}

/* ------------------------------------------------------------------------------------- ranks that wait for each other */

/* Some rank says, before its time is up, that no rank can go on, and has both words; each at most once. */
static void run_standstill(int nranks, const char *word, const char *other_word,
                           void (*run)(struct ranks *ranks, int rank)) {
    struct blame *blame = blame_with_log();
    blame->words[0] = word;
    blame->words[1] = other_word;
    world_run(&worlds[WORLD_SHM], nranks, ring, run, blame);
    int lines = ranks_log_lines(blame->log, "no rank can go on");
    const bool right =
        ranks_log_lines(blame->log, word) > 0 && (other_word == NULL || ranks_log_lines(blame->log, other_word) > 0);
    remove(blame->log);
    ranks_unshare(blame, sizeof(*blame));
    assert_in_range(lines, 1, nranks);
    assert_true(right);
}

static void both_receive(struct ranks *ranks, int rank) {
    struct collet_comm *comm = impatient_comm(ranks, rank, NULL);
    int x = 0;
    write_into_log(ranks);
    check_blame(ranks, rank, collet_recv(&x, 1, COLLET_INT32, 1 - rank, comm, NULL), COLLET_ERR_TIMEOUT);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void two_receives_without_a_send_are_named(void **state) {
    (void)state;
    run_standstill(2, " in recv (call 1)", "waits for a connection with rank", both_receive);
}

static void both_send(struct ranks *ranks, int rank) {
    struct collet_comm *comm = impatient_comm(ranks, rank, NULL);
    char *data = calloc(1, 64 * BYTES);
    write_into_log(ranks);
    check_blame(ranks, rank, collet_send(data, 64 * BYTES, COLLET_UINT8, 1 - rank, comm, NULL), COLLET_ERR_TIMEOUT);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(data);
}

static void two_sends_to_each_other_get_the_remedy(void **state) {
    (void)state;
    run_standstill(2, " in send (call 1)", "put the send and the receive of each rank into one group", both_send);
}

static void receive_beside_a_collective(struct ranks *ranks, int rank) {
    struct collet_comm *comm = impatient_comm(ranks, rank, NULL);
    int *data = calloc(1, BYTES);
    write_into_log(ranks);
    ranks_try(ranks, rank, sum(data, comm));
    check_blame(ranks, rank, rank == 0 ? sum(data, comm) : collet_recv(data, 1, COLLET_INT32, 0, comm, NULL),
                COLLET_ERR_TIMEOUT);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(data);
}

static void a_message_against_a_collective_is_named(void **state) {
    (void)state;
    run_standstill(2, "in recv (call 1)", "allreduce (call 2)", receive_beside_a_collective);
}

static void call_in_opposite_orders(struct ranks *ranks, int rank) {
    struct collet_comm *comms[2] = {impatient_comm(ranks, rank, "left"), impatient_comm(ranks, rank, "right")};
    int *data = calloc(1, BYTES);
    write_into_log(ranks);
    for (int k = 0; k < 2; k++)
        ranks_try(ranks, rank, sum(data, comms[k]));
    ranks_barrier(ranks);
    check_blame(ranks, rank, sum(data, comms[rank]), COLLET_ERR_TIMEOUT);
    ranks_barrier(ranks);
    for (int k = 0; k < 2; k++)
        ranks_try(ranks, rank, collet_comm_destroy(comms[k]));
    free(data);
}

static void communicators_in_opposite_orders_are_named(void **state) {
    (void)state;
    run_standstill(2, "is in allreduce (call 2) of communicator ", NULL, call_in_opposite_orders);
}

/* Rank 2 waits for one of two that wait for each other. */
static void wait_for_one_of_two(struct ranks *ranks, int rank) {
    struct collet_comm *comm = impatient_comm(ranks, rank, NULL);
    int x = 0;
    write_into_log(ranks);
    check_blame(ranks, rank, collet_recv(&x, 1, COLLET_INT32, rank == 0 ? 1 : 0, comm, NULL), COLLET_ERR_TIMEOUT);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void who_waits_beside_a_circle_names_each_of_it_once(void **state) {
    (void)state;
    struct blame *blame = blame_with_log();
    world_run(&worlds[WORLD_SHM], 3, ring, wait_for_one_of_two, blame);
    const int lines = ranks_log_lines(blame->log, "rank 2 waits for rank 0 in recv"),
              twice = ranks_log_lines(blame->log,
                                      "rank 0 waits for a connection with rank 1 in recv (call 1); rank 1 waits "
                                      "for a connection with rank 0 in recv (call 1); rank 0 waits");
    remove(blame->log);
    ranks_unshare(blame, sizeof(*blame));
    assert_int_equal(lines, 1);
    assert_int_equal(twice, 0);
}

/* ---- in a circle: rank 0 waits for rank 1, rank 1 for rank 2, rank 2 for rank 0 */

static int next_of(const struct ranks *ranks, int rank) { return (rank + 1) % ranks->nranks; }

/* A circle closes after several questions and answers, which take as long as the machine is busy. So the ranks wait in it until one
 * has said that nobody can go on: that one's time is not limited by the calls', and the revoked calls say why they end. */
struct end {
    struct ranks *ranks;
    struct collet_comm *const *comms;
    int ncomms;
};

static void *end_when_said(void *end_) {
    const struct end *end = end_;
    const struct blame *blame = end->ranks->argument;
    const uint64_t limit_ns = fair_now_ns() + LEVEL_SOON_NS;
    while (ranks_log_lines(blame->log, "no rank can go on") == 0 && fair_now_ns() < limit_ns)
        ranks_sleep_ms(50);
    for (int k = 0; k < end->ncomms; k++)
        if (end->comms[k] != NULL)
            collet_comm_revoke(end->comms[k]);
    return NULL;
}

static pthread_t end_in_time(struct end *end) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_when_said, end) != 0)
        ranks_fail(end->ranks, "no thread");
    return thread;
}

static struct collet_comm *patient_comm(struct ranks *ranks, int rank, const char *name) {
    struct collet_config config = {.size = sizeof(config), .timeout_ms = 300000, .name = name};
    return ranks_comm(ranks, rank, &config);
}

/* Ranks 0 and 2 send, rank 1 receives. */
static void exchange_in_a_circle(struct ranks *ranks, int rank) {
    struct collet_comm *comm = patient_comm(ranks, rank, NULL);
    struct end end = {ranks, &comm, 1};
    char *data = calloc(1, 64 * BYTES);
    write_into_log(ranks);
    const int next = next_of(ranks, rank);
    const pthread_t ender = end_in_time(&end);
    const enum collet_result result = rank == 1 ? collet_recv(data, 64 * BYTES, COLLET_UINT8, next, comm, NULL)
                                                : collet_send(data, 64 * BYTES, COLLET_UINT8, next, comm, NULL);
    ranks_expect(ranks, rank, result, COLLET_ERR_ABORTED, "the message in a circle");
    pthread_join(ender, NULL);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(data);
}

static void messages_in_a_circle_of_three_are_named(void **state) {
    (void)state;
    run_standstill(3, " (call 1); rank ", NULL, exchange_in_a_circle);
}

/* Three communicators of all ranks; each rank begins with another one. */
static void call_in_three_orders(struct ranks *ranks, int rank) {
    struct collet_comm *comms[3];
    struct end end = {ranks, comms, 3};
    int *data = calloc(1, BYTES);
    write_into_log(ranks);
    for (int k = 0; k < 3; k++) {
        comms[k] = patient_comm(ranks, rank, (const char *const[]){"left", "middle", "right"}[k]);
        ranks_try(ranks, rank, sum(data, comms[k]));
    }
    ranks_barrier(ranks);
    const pthread_t ender = end_in_time(&end);
    ranks_expect(ranks, rank, sum(data, comms[rank]), COLLET_ERR_ABORTED, "the call in a circle");
    pthread_join(ender, NULL);
    ranks_barrier(ranks);
    for (int k = 0; k < 3; k++)
        ranks_try(ranks, rank, collet_comm_destroy(comms[k]));
    free(data);
}

static void three_communicators_in_three_orders_are_named(void **state) {
    (void)state;
    run_standstill(3, "is in allreduce (call 2) of communicator ", NULL, call_in_three_orders);
}

/* Three communicators of two ranks each: the ranks of one cannot ask the third rank through it. */
static void call_in_three_pairs(struct ranks *ranks, int rank) {
    static const char *const names[] = {"left", "middle", "right"};
    struct collet_comm *whole = ranks_comm(ranks, rank, NULL), *comms[3];
    struct end end = {ranks, comms, 3};
    int *data = calloc(1, BYTES);
    write_into_log(ranks);
    for (int k = 0; k < 3; k++) {
        const struct collet_config config = {.size = sizeof(config), .timeout_ms = 300000, .name = names[k]};
        const bool is_in = rank == k || rank == next_of(ranks, k);
        ranks_try(ranks, rank,
                  collet_comm_split(whole, is_in ? 0 : COLLET_SPLIT_NOCOLOR, rank, &comms[k], is_in ? &config : NULL));
        if (is_in)
            ranks_try(ranks, rank, sum(data, comms[k]));
    }
    ranks_barrier(ranks);
    const pthread_t ender = end_in_time(&end);
    ranks_expect(ranks, rank, sum(data, comms[rank]), COLLET_ERR_ABORTED, "the call in a circle");
    pthread_join(ender, NULL);
    ranks_barrier(ranks);
    for (int k = 0; k < 3; k++)
        if (comms[k] != NULL)
            ranks_try(ranks, rank, collet_comm_destroy(comms[k]));
    ranks_try(ranks, rank, collet_comm_destroy(whole));
    free(data);
}

static void three_pairs_that_wait_in_a_circle_are_named(void **state) {
    (void)state;
    if (!library_is_whole)
        skip(); /* pairs are split off */
    run_standstill(3, "is in allreduce (call 2) of communicator ", "for the process of rank ", call_in_three_pairs);
}

/* ------------------------------------------------------------------------------------------------- who called what */

static void one_calls_something_else(struct ranks *ranks, int rank) {
    const struct collet_config named = {.size = sizeof(named), .name = "grads"}; /* time has nothing to do with it */
    struct collet_comm *comm = ranks_comm(ranks, rank, &named);
    int *data = calloc(1, BYTES);
    ranks_try(ranks, rank, sum(data, comm));
    ranks_barrier(ranks);
    size_t count = rank == 2 ? BYTES / 8 : BYTES / 4;
    check_blame(ranks, rank, collet_allreduce(data, data, count, COLLET_INT32, COLLET_SUM, comm, NULL),
                COLLET_ERR_MISMATCH);
    ranks_barrier(ranks);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(data);
}

static void a_mismatch_groups_the_ranks_by_what_they_called(void **state) {
    (void)state;
    struct blame blame = {.words = {"call 2 of communicator grads: ", "ranks 0-1,3 called allreduce of 262144 int32",
                                    "rank 2 called allreduce of 131072 int32"}};
    run_blamed(WORLD_SHM, 4, blame, one_calls_something_else);
    run_blamed(WORLD_TCP, 4, blame, one_calls_something_else);
}

/* ------------------------------------------------------------------------------------------------ COLLET_WARN_AFTER */

static void one_comes_late(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    int *data = calloc(1, BYTES);
    write_into_log(ranks);
    ranks_try(ranks, rank, sum(data, comm));
    ranks_barrier(ranks);
    if (rank == 1)
        ranks_sleep_ms(5000);
    ranks_try(ranks, rank, sum(data, comm));
    ranks_barrier(ranks);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(data);
}

static void a_late_rank_is_named_once(void **state) {
    (void)state;
    static const char *const warn_soon[] = {"COLLET_WARN_AFTER", "2", "COLLET_ALGO", "ring", NULL};
    struct blame *blame = blame_with_log();
    world_run(&worlds[WORLD_SHM], 4, warn_soon, one_comes_late, blame);
    int named = ranks_log_lines(blame->log, ": rank 1 of 4 has not made it"),
        all = ranks_log_lines(blame->log, "has waited");
    remove(blame->log);
    ranks_unshare(blame, sizeof(*blame));
    assert_int_equal(named, 1);
    assert_int_equal(all, 1);
}

int main(void) {
    const struct CMUnitTest essentials[] = {
        cmocka_unit_test(a_mismatch_groups_the_ranks_by_what_they_called),
        cmocka_unit_test(a_rank_that_is_stopped_is_named_by_all_others),
        cmocka_unit_test(a_question_that_is_open_hides_no_answer),
    };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_rank_that_does_not_call_is_named_by_all_others),
        cmocka_unit_test(the_text_says_whether_a_rank_waits_for_a_connection_or_for_data),
        cmocka_unit_test(two_receives_without_a_send_are_named),
        cmocka_unit_test(two_sends_to_each_other_get_the_remedy),
        cmocka_unit_test(who_waits_beside_a_circle_names_each_of_it_once),
        cmocka_unit_test(a_message_against_a_collective_is_named),
        cmocka_unit_test(communicators_in_opposite_orders_are_named),
        cmocka_unit_test(messages_in_a_circle_of_three_are_named),
        cmocka_unit_test(three_communicators_in_three_orders_are_named),
        cmocka_unit_test(three_pairs_that_wait_in_a_circle_are_named),
        cmocka_unit_test(a_late_rank_is_named_once),
    };
    int failed = cmocka_run_group_tests(essentials, NULL, NULL);
    return level_now() == LEVEL_FAST ? failed : failed + cmocka_run_group_tests(others, NULL, NULL);
}
