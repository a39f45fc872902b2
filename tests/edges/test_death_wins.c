/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank died, and the error of another one named a rank that lives, or the time. Each case forces the order of events that led to it:
 *
 *    the news of the death comes just before the time is up       it had to be 0.1 s old to count
 *    a rank is waited for that waits for the dead one itself      that one was blamed
 *    the news passes a process that has no CPU                    it came too late
 *
 * And the other way round: a rank was stopped, and the error named one that had only ended before, when its own time was up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config_read.h"
#include "base/err.h"
#include "boot/hub.h"
#include "common/fair.h"
#include "common/level.h"
#include "common/local_boots.h"
#include "common/world.h"
#include "topo/probe/survey.c"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS (2000 * LEVEL_SLOWER)
#define JUST_BEFORE_MS (60 * LEVEL_SLOWER)
#define WINDOW_BYTES 4096

/* ---- in calls ---- */

struct story {
    int window, stop; /* the wait is for a signal; rank 0, which alone is connected to both others, is stopped */
    pid_t pids[3];
    int ready;
};

static void die(struct ranks *ranks, int rank) {
    __atomic_store_n(&ranks->expendable[rank], 1, __ATOMIC_RELEASE);
    kill(getpid(), SIGKILL);
}

static void expect_the_death(struct ranks *ranks, int rank, enum collet_result result) {
    ranks_expect(ranks, rank, result, COLLET_ERR_REMOTE, "the wait for rank 2");
    ranks_check(ranks, rank, strstr(collet_last_error(NULL), "rank 2") != NULL);
}

/* Rank 1 waits for rank 2, which dies just before rank 1's time is up. Rank 0 looks on, or is stopped. */
static void rank_2_dies_late(struct ranks *ranks, int rank) {
    struct story *story = ranks->argument;
    struct collet_config config = {.size = sizeof config, .timeout_ms = TIMEOUT_MS};
    struct collet_comm *comm = ranks_comm(ranks, rank, &config);
    struct collet_window *window;
    void *memory;
    int32_t x = 0;
    story->pids[rank] = getpid();
    ranks_try(ranks, rank, collet_mem_alloc(&memory, WINDOW_BYTES, COLLET_DEVICE_HOST));
    ranks_try(ranks, rank, collet_win_register(comm, memory, WINDOW_BYTES, &window));
    ranks_barrier(ranks);
    if (rank == 0) {
        ranks_sleep_ms(TIMEOUT_MS / 2);
        __atomic_store_n(&ranks->expendable[0], 1, __ATOMIC_RELEASE);
        for (raise(story->stop ? SIGSTOP : SIGCONT);;)
            pause();
    }
    if (rank == 2) {
        ranks_sleep_ms(TIMEOUT_MS - JUST_BEFORE_MS);
        die(ranks, rank);
    }
    expect_the_death(ranks, rank,
                     story->window ? collet_wait_signal(2, 1, window, comm, NULL)
                                   : collet_recv(&x, 1, COLLET_INT32, 2, comm, NULL));
    kill(story->pids[0], SIGKILL);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void tell(bool window, bool stop) {
    struct story *story = ranks_share(sizeof *story);
    *story = (struct story){.window = window, .stop = stop};
    world_run(&worlds[WORLD_SHM], 3, NULL, rank_2_dies_late, story);
    ranks_unshare(story, sizeof *story);
}

/* Before: "rank 1 waited 2.0 s for a signal of rank 2: did that call collet_signal()?" */
static void a_death_that_is_news_wins_over_the_time(void **state) {
    (void)state;
    tell(true, false);
    tell(false, false);
}

static void a_death_on_this_host_wins_though_its_news_cannot_come(void **state) {
    (void)state;
    tell(true, true);
}

/* ---- while a communicator is created ---- */

enum { NRANKS = 3 };

struct group {
    struct config configs[NRANKS];
    struct boot *boots[NRANKS];
    struct survey *survey;
    struct map *map;
};

static void begin(struct group *group, int64_t init_timeout_s) {
    memset(group, 0, sizeof *group);
    for (int rank = 0; rank < NRANKS; rank++) {
        assert_int_equal(config_read(&group->configs[rank]), COLLET_SUCCESS);
        group->configs[rank].init_timeout = init_timeout_s;
    }
    assert_int_equal(boot_join_local(NRANKS, NULL, group->configs, group->boots), COLLET_SUCCESS);
    assert_int_equal(survey_begin(group->boots[1], &group->configs[1], "", NRANKS, 1, &group->survey), COLLET_SUCCESS);
}

static void end(struct group *group, enum collet_result result) {
    assert_int_equal(result, COLLET_ERR_REMOTE);
    assert_non_null(strstr(err_last(), "rank 2"));
    survey_destroy(group->survey);
    for (int rank = 0; rank < NRANKS; rank++)
        boot_destroy(group->boots[rank]);
}

static enum collet_result survey(struct group *group) {
    enum collet_result result;
    const uint64_t begun_ns = fair_now_ns();
    do
        result = survey_try(group->survey, &group->map);
    while (result == COLLET_IN_PROGRESS && fair_now_ns() - begun_ns < LEVEL_SOON_NS);
    return result;
}

/* Rank 1 waits for rank 0, which is slow. Before: it did so for COLLET_INIT_TIMEOUT, and named rank 0. */
static void a_death_wins_over_a_rank_that_is_slow(void **state) {
    (void)state;
    struct group group;
    begin(&group, 600);
    hub_set_state(group.boots[1]->hub, 2, PEER_DEAD, 0);
    end(&group, survey(&group));
}

static void a_death_that_is_news_wins_over_the_time_of_init(void **state) {
    (void)state;
    struct group group;
    begin(&group, 0); /* over at once, but for what a rank that waits for a waiting one gets more */
    hub_set_state(group.boots[1]->hub, 2, PEER_DEAD, 0);
    end(&group, survey(&group));
}

/* Rank 0 is stopped. Rank 2 has less time than rank 1, and is no more when the time of rank 1 is up. */
static void be_stopped_while_others_end(struct ranks *ranks, int rank) {
    struct collet_config config = {.size = sizeof config, .nonblocking = rank == 0};
    struct collet_comm *comm;
    pid_t *pid_0 = ranks->argument;
    setenv("COLLET_INIT_TIMEOUT", rank == 2 ? "1" : "4", 1);
    ranks_new_id(ranks, rank);
    const enum collet_result result = collet_comm_init_rank_config(&comm, NRANKS, ranks->id, rank, &config);
    if (rank == 0) {
        *pid_0 = getpid();
        ranks_sleep_ms(700); /* for what it does without being asked */
        __atomic_store_n(&ranks->expendable[0], 1, __ATOMIC_RELEASE);
        raise(SIGSTOP);
    }
    ranks_expect(ranks, rank, result, COLLET_ERR_TIMEOUT, "init");
    ranks_check(ranks, rank, strstr(collet_last_error(NULL), "for rank 0 (") != NULL);
    ranks_check(ranks, rank, strstr(collet_last_error(NULL), "which is stopped") != NULL);
    if (rank == 1)
        kill(*pid_0, SIGKILL);
}

static void a_stopped_rank_is_named_though_another_one_has_ended(void **state) {
    (void)state;
    pid_t *pid_0 = ranks_share(sizeof *pid_0);
    world_run(&worlds[WORLD_SHM], NRANKS, NULL, be_stopped_while_others_end, pid_0);
    ranks_unshare(pid_0, sizeof *pid_0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_that_is_news_wins_over_the_time),
        cmocka_unit_test(a_death_on_this_host_wins_though_its_news_cannot_come),
        cmocka_unit_test(a_death_wins_over_a_rank_that_is_slow),
        cmocka_unit_test(a_death_that_is_news_wins_over_the_time_of_init),
        cmocka_unit_test(a_stopped_rank_is_named_though_another_one_has_ended),
    };
    return cmocka_run_group_tests_name("death_wins", tests, NULL, NULL);
}
