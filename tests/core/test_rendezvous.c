/* SPDX-License-Identifier: Apache-2.0
 *
 * Creating a communicator when something is wrong: strangers at the meeting point, ids that are of another job or of none,
 * ranks that contradict each other, that do not come, or die on their way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "boot/id.h"
#include "common/fair.h"
#include "common/level.h"
#include "common/ports.h"
#include "common/world.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define START_MS 4000 /* longest time to start a job in spite of strangers */

static int ms_since(uint64_t since_ns) { return (int)(fair_since_ns(since_ns) / 1000000u); }

/* ------------------------------------------------------------------------------------------------------------- sockets */

static struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Connects as soon as somebody listens, within 5 s. */
static int connect_to(struct ranks *ranks, int port) {
    struct sockaddr_in address = loopback(port);
    for (int k = 0; k < 500; k++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
            return fd;
        close(fd);
        ranks_sleep_ms(10);
    }
    ranks_fail(ranks, "nobody listens on port %d", port);
}

/* ----------------------------------------------------------------------------------------------------------- strangers */

static void check_it_works(struct ranks *ranks, int rank, struct collet_comm *comm) {
    int x = rank + 1, n = ranks->nranks;
    ranks_try(ranks, rank, collet_allreduce(&x, &x, 1, COLLET_INT32, COLLET_SUM, comm, NULL));
    ranks_check(ranks, rank, x == n * (n + 1) / 2);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void join(struct ranks *ranks, int rank) {
    struct collet_unique_id id;
    struct collet_comm *comm;
    uint64_t start_ns = ranks_now_ns();
    ranks_try(ranks, rank, collet_get_unique_id(&id)); /* of COLLET_COMM_ID: no rank has to tell another */
    ranks_try(ranks, rank, collet_comm_init_rank(&comm, ranks->nranks, id, rank));
    if (ms_since(start_ns) > START_MS * LEVEL_SLOWER)
        ranks_fail(ranks, "rank %d: the start took %d ms", rank, ms_since(start_ns));
    check_it_works(ranks, rank, comm);
}

static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n";

/* The last rank first lets strangers in: they are there before it, and stay. */
static void join_among_strangers(struct ranks *ranks, int rank) {
    int port = *(int *)ranks->argument;
    if (rank == ranks->nranks - 1) {
        connect_to(ranks, port);
        connect_to(ranks, port);
        int browser = connect_to(ranks, port);
        ranks_check(ranks, rank, send(browser, http, sizeof(http) - 1, MSG_NOSIGNAL) > 0);
    }
    join(ranks, rank);
}

static void join_among_a_crowd(struct ranks *ranks, int rank) {
    int port = *(int *)ranks->argument;
    char noise[4096];
    memset(noise, 'x', sizeof(noise));
    for (int k = 0; rank == ranks->nranks - 1 && k < 300; k++) {
        int fd = connect_to(ranks, port);
        if (k % 3 == 1)
            send(fd, noise, (size_t)(1 + k * 13 % (int)sizeof(noise)), MSG_NOSIGNAL);
        if (k % 7 == 2)
            close(fd);
    }
    join(ranks, rank);
}

static void start_with_port(void (*run)(struct ranks *ranks, int rank)) {
    char where[32];
    int port = port_free();
    snprintf(where, sizeof(where), "127.0.0.1:%d", port);
    const char *const variables[] = {"COLLET_COMM_ID", where, "COLLET_INIT_TIMEOUT", "15", NULL};
    world_run(&worlds[WORLD_SHM], 3, variables, run, &port);
    world_run(&worlds[WORLD_TCP], 2, variables, run, &port);
}

static void two_silent_clients_and_a_browser_do_not_delay_the_start(void **state) {
    (void)state;
    start_with_port(join_among_strangers);
}

static void a_crowd_of_noisy_clients_does_not_prevent_the_start(void **state) {
    (void)state;
    start_with_port(join_among_a_crowd);
}

/* ----------------------------------------------------------------------------------------------------------- wrong ids */

/* Init must fail like this, in bounded time, and say this. */
static void fail_to_join(struct ranks *ranks, int rank, int nranks, struct collet_unique_id id, int as,
                         enum collet_result expected, const char *words) {
    struct collet_comm *comm = (void *)1;
    uint64_t start_ns = ranks_now_ns();
    enum collet_result result = collet_comm_init_rank(&comm, nranks, id, as);
    if (ms_since(start_ns) > 6000)
        ranks_fail(ranks, "rank %d: init failed only after %d ms", rank, ms_since(start_ns));
    ranks_check(ranks, rank, comm == NULL);
    ranks_expect(ranks, rank, result, expected, "init");
    if (strstr(collet_last_error(NULL), words) == NULL)
        ranks_fail(ranks, "rank %d: \"%s\" does not say \"%s\"", rank, collet_last_error(NULL), words);
}

static const char *const impatient[] = {"COLLET_INIT_TIMEOUT", "1", NULL};

/* Two jobs; rank 1 of the first was given the id of the second. */
static void swap_ids(struct ranks *ranks, int rank) {
    struct collet_unique_id mine;
    ranks_new_id(ranks, rank);
    mine = ranks->id;
    ranks_new_id(ranks, rank);
    if (rank == 1)
        mine = ranks->id;
    fail_to_join(ranks, rank, 2, mine, rank, COLLET_ERR_TIMEOUT, rank == 0 ? "have not come: 1" : "have not come: 0");
    ranks_barrier(ranks); /* meeting points live as long as the process that made them */
}

static void the_id_of_another_job_ends_in_a_timeout_that_names_the_missing(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 2, impatient, swap_ids, NULL);
    world_run(&worlds[WORLD_THREADS], 2, impatient, swap_ids, NULL);
}

/* Rank 1 comes to the right place with another secret. */
static void differ_in_secret(struct ranks *ranks, int rank) {
    struct collet_unique_id id;
    if (rank == 1)
        setenv("COLLET_SECRET", "open sesame, and quickly", 1);
    ranks_try(ranks, rank, collet_get_unique_id(&id));
    fail_to_join(ranks, rank, 2, id, rank, COLLET_ERR_TIMEOUT,
                 rank == 0 ? "have not come: 1; somebody came with another secret" : "127.0.0.1");
    ranks_barrier(ranks);
}

static void another_secret_opens_no_door(void **state) {
    (void)state;
    char where[32];
    snprintf(where, sizeof(where), "127.0.0.1:%d", port_free());
    const char *const variables[] = {"COLLET_COMM_ID", where, "COLLET_INIT_TIMEOUT", "1", NULL};
    world_run(&worlds[WORLD_SHM], 2, variables, differ_in_secret, NULL);
}

/* The process that made the id has ended. */
static void come_too_late(struct ranks *ranks, int rank) {
    if (rank == 0)
        ranks_try(ranks, rank, collet_get_unique_id(&ranks->id));
    ranks_barrier(ranks);
    if (rank == 0)
        return;
    ranks_sleep_ms(200);
    fail_to_join(ranks, rank, 2, ranks->id, rank, COLLET_ERR_TIMEOUT, "meeting point");
}

static void an_id_whose_maker_has_ended_is_an_error(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 2, impatient, come_too_late, NULL);
}

static void wait_until_nobody_listens(struct ranks *ranks, int port) {
    struct sockaddr_in address = loopback(port);
    for (int k = 0; k < 1000; k++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        int refused = connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0;
        close(fd);
        if (refused)
            return;
        ranks_sleep_ms(10);
    }
    ranks_fail(ranks, "somebody still listens on port %d", port);
}

/* Rank 0 makes an id and ends. Then rank 1 opens the meeting point of another job on the same port. */
static void take_the_port(struct ranks *ranks, int port) {
    char where[32];
    struct collet_unique_id id;
    wait_until_nobody_listens(ranks, port);
    snprintf(where, sizeof(where), "127.0.0.1:%d", port);
    setenv("COLLET_COMM_ID", where, 1);
    ranks_try(ranks, 1, collet_get_unique_id(&id));
    fail_to_join(ranks, 1, 2, id, 0, COLLET_ERR_TIMEOUT, "somebody came with another secret");
}

static void find_a_stranger(struct ranks *ranks, int rank) {
    struct id id;
    if (rank == 0)
        ranks_try(ranks, rank, collet_get_unique_id(&ranks->id));
    ranks_barrier(ranks);
    if (rank == 0)
        return;
    ranks_try(ranks, rank, id_unpack(&ranks->id, &id));
    if (rank == 1) {
        take_the_port(ranks, id.set.port);
        return;
    }
    ranks_sleep_ms(500);
    close(connect_to(ranks, id.set.port));
    fail_to_join(ranks, rank, 2, ranks->id, 1, COLLET_ERR_REMOTE, "it refuses this id's secret");
}

static void a_port_that_another_job_has_got_is_no_meeting_point(void **state) {
    (void)state;
    static const char *const variables[] = {"COLLET_INIT_TIMEOUT", "5", NULL};
    world_run(&worlds[WORLD_SHM], 3, variables, find_a_stranger, NULL);
}

/* ------------------------------------------------------------------------------------------------ ranks that disagree */

static void differ_in_nranks(struct ranks *ranks, int rank) {
    ranks_new_id(ranks, rank);
    if (rank == 1)
        ranks_sleep_ms(200); /* the rank that comes second must be refused */
    fail_to_join(ranks, rank, rank == 1 ? 3 : 2, ranks->id, rank, COLLET_ERR_INVALID_ARGUMENT, "nranks differs");
    ranks_barrier(ranks);
}

static void differing_numbers_of_ranks_are_an_error_everywhere(void **state) {
    (void)state;
    for (int k = WORLD_THREADS; k <= WORLD_SHM; k++)
        world_run(&worlds[k], 2, impatient, differ_in_nranks, NULL);
}

static void come_twice(struct ranks *ranks, int rank) {
    ranks_new_id(ranks, rank);
    if (rank == 2)
        ranks_sleep_ms(200);
    fail_to_join(ranks, rank, 3, ranks->id, rank == 2 ? 1 : rank, COLLET_ERR_INVALID_ARGUMENT, "rank 1 is taken");
    ranks_barrier(ranks);
}

static void a_rank_that_comes_twice_is_an_error_everywhere(void **state) {
    (void)state;
    for (int k = WORLD_THREADS; k <= WORLD_SHM; k++)
        world_run(&worlds[k], 3, impatient, come_twice, NULL);
}

/* ------------------------------------------------------------------------------------------- ranks that do not come */

static void miss_one(struct ranks *ranks, int rank) {
    ranks_new_id(ranks, rank);
    if (rank != 2)
        fail_to_join(ranks, rank, ranks->nranks, ranks->id, rank, COLLET_ERR_TIMEOUT, "have not come: 2");
    ranks_barrier(ranks);
}

static void a_rank_that_does_not_come_is_named_by_all_others(void **state) {
    (void)state;
    for (int k = WORLD_THREADS; k <= WORLD_SHM; k++)
        world_run(&worlds[k], 4, impatient, miss_one, NULL);
}

/* Its own variables are wrong: it cannot even make a card to come with. */
static void be_kept_away(struct ranks *ranks, int rank) {
    ranks_new_id(ranks, rank);
    if (rank == 2)
        setenv("COLLET_SOCKET_IFNAME", "=nowhere", 1);
    fail_to_join(ranks, rank, ranks->nranks, ranks->id, rank, COLLET_ERR_SYSTEM,
                 rank == 2 ? "nowhere" : "learnt from rank 2: ");
    ranks_barrier(ranks);
}

static void a_rank_that_cannot_come_tells_the_others_why(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 4, NULL, be_kept_away, NULL);
    world_run(&worlds[WORLD_TCP], 3, NULL, be_kept_away, NULL);
}

/* Rank 1 has come and is killed before the last rank comes. */
static void die_on_the_way(struct ranks *ranks, int rank) {
    struct collet_comm *comm;
    struct collet_config config = {.size = sizeof(config), .nonblocking = 1};
    ranks_new_id(ranks, rank);
    if (rank == 1) {
        ranks_expect(ranks, rank, collet_comm_init_rank_config(&comm, 3, ranks->id, rank, &config), COLLET_IN_PROGRESS,
                     "init");
        ranks_sleep_ms(200);
        __atomic_store_n(&ranks->expendable[rank], 1, __ATOMIC_RELEASE);
        kill(getpid(), SIGKILL);
    }
    if (rank == 0) {
        fail_to_join(ranks, rank, 3, ranks->id, rank, COLLET_ERR_REMOTE, "rank 1");
        return;
    }
    ranks_sleep_ms(500); /* the meeting point may say who died, or may have been closed for that */
    fail_to_join(ranks, rank, 3, ranks->id, rank, COLLET_ERR_REMOTE, "");
}

static void a_rank_that_dies_on_its_way_is_an_error_that_names_it(void **state) {
    (void)state;
    static const char *const variables[] = {"COLLET_INIT_TIMEOUT", "4", NULL};
    world_run(&worlds[WORLD_SHM], 3, variables, die_on_the_way, NULL);
}

int main(void) {
    const struct CMUnitTest essentials[] = {
        cmocka_unit_test(two_silent_clients_and_a_browser_do_not_delay_the_start),
        cmocka_unit_test(a_rank_that_does_not_come_is_named_by_all_others),
        cmocka_unit_test(a_rank_that_cannot_come_tells_the_others_why),
        cmocka_unit_test(a_rank_that_dies_on_its_way_is_an_error_that_names_it),
    };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_crowd_of_noisy_clients_does_not_prevent_the_start),
        cmocka_unit_test(the_id_of_another_job_ends_in_a_timeout_that_names_the_missing),
        cmocka_unit_test(another_secret_opens_no_door),
        cmocka_unit_test(an_id_whose_maker_has_ended_is_an_error),
        cmocka_unit_test(a_port_that_another_job_has_got_is_no_meeting_point),
        cmocka_unit_test(differing_numbers_of_ranks_are_an_error_everywhere),
        cmocka_unit_test(a_rank_that_comes_twice_is_an_error_everywhere),
    };
    int failed = cmocka_run_group_tests(essentials, NULL, NULL);
    return level_now() == LEVEL_FAST ? failed : failed + cmocka_run_group_tests(others, NULL, NULL);
}
