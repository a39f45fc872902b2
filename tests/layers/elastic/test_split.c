/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators that are made of another one: which ranks they have, and in which order. They work beside their parent, and
 * after its end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/comm.h" /* how far a split has come is nothing that collet.h tells */
#include "common/fair.h"
#include "common/level.h"
#include "common/world.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOTICE_MS 5000

/* Are these, in this order, the ranks of comm? Each is known by its number in the job. */
static void check_company(struct ranks *ranks, int rank, struct collet_comm *comm, const int *expected, int n) {
    int32_t mine = rank, all[RANKS_MAX];
    int64_t sum = 0, expected_sum = 0, addend = 1 + rank;
    int count, own;
    ranks_check(ranks, rank, comm != NULL);
    ranks_try(ranks, rank, collet_comm_count(comm, &count));
    ranks_try(ranks, rank, collet_comm_rank(comm, &own));
    ranks_check(ranks, rank, count == n && own >= 0 && own < n && expected[own] == rank);
    ranks_try(ranks, rank, collet_allgather(&mine, all, 1, COLLET_INT32, comm, NULL));
    ranks_try(ranks, rank, collet_allreduce(&addend, &sum, 1, COLLET_INT64, COLLET_SUM, comm, NULL));
    for (int k = 0; k < n; k++) {
        ranks_check(ranks, rank, all[k] == expected[k]);
        expected_sum += 1 + expected[k];
    }
    ranks_check(ranks, rank, sum == expected_sum);
}

static void check_whole(struct ranks *ranks, int rank, struct collet_comm *comm) {
    int all[RANKS_MAX];
    for (int r = 0; r < ranks->nranks; r++)
        all[r] = r;
    check_company(ranks, rank, comm, all, ranks->nranks);
}

/* ---- colours and keys ---- */

#define NRANKS 4
#define NONE COLLET_SPLIT_NOCOLOR

struct pattern {
    int color[NRANKS], key[NRANKS];
};

static const struct pattern patterns[] = {
    {{0, 0, 0, 0}, {0, 0, 0, 0}},              /* a copy */
    {{7, 7, 7, 7}, {3, 2, 1, 0}},              /* turned around */
    {{0, 1, 0, 1}, {0, 0, 0, 0}},              /* by turns */
    {{3, 3, INT_MAX, 3}, {5, -5, 0, INT_MIN}}, /* keys below zero */
    {{1, NONE, 1, NONE}, {2, 1, 2, 0}},        /* ties, and ranks in none */
    {{NONE, 0, 0, 0}, {0, 1, INT_MAX, -1}},    /* rank 0 in none */
    {{0, 1, 2, 3}, {0, 0, 0, 0}},              /* each alone */
    {{NONE, NONE, NONE, NONE}, {0, 0, 0, 0}},  /* nobody */
};
#define NPATTERNS (int)(sizeof patterns / sizeof *patterns)

/* The ranks of rank's colour, sorted by insertion. */
static int find_company(const struct pattern *pattern, int rank, int *company) {
    int n = 0;
    for (int r = 0; r < NRANKS; r++) {
        int at = n;
        if (pattern->color[r] != pattern->color[rank])
            continue;
        for (; at > 0 && pattern->key[company[at - 1]] > pattern->key[r]; at--)
            company[at] = company[at - 1];
        company[at] = r;
        n++;
    }
    return n;
}

static void check_split(struct ranks *ranks, int rank, const struct pattern *pattern, struct collet_comm *child) {
    int company[NRANKS], n = find_company(pattern, rank, company);
    if (pattern->color[rank] == NONE)
        ranks_check(ranks, rank, child == NULL);
    else
        check_company(ranks, rank, child, company, n);
}

static void split_by_patterns(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL), *children[NPATTERNS];
    for (int k = 0; k < NPATTERNS; k++) {
        const struct pattern *pattern = &patterns[k];
        children[k] = comm;
        if (rank == 0)
            ranks_doing(ranks, "pattern %d", k);
        ranks_try(ranks, rank, collet_comm_split(comm, pattern->color[rank], pattern->key[rank], &children[k], NULL));
        check_split(ranks, rank, pattern, children[k]);
        check_whole(ranks, rank, comm);
    }
    ranks_try(ranks, rank, collet_comm_destroy(comm)); /* its children live on */
    for (int k = 0; k < NPATTERNS; k++) {
        check_split(ranks, rank, &patterns[k], children[k]);
        ranks_try(ranks, rank, collet_comm_destroy(children[k]));
    }
}

static void ranks_of_one_colour_meet_in_the_order_of_their_keys(void **state) {
    (void)state;
    world_run_all(0, NRANKS, NULL, split_by_patterns, NULL);
}

/* Halves of halves, down to single ranks. */
static void split_again_and_again(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL), *child;
    int company[RANKS_MAX], first = 0, n = ranks->nranks;
    while (n > 1) {
        bool upper = rank - first >= n / 2;
        ranks_try(ranks, rank, collet_comm_split(comm, upper, 0, &child, NULL));
        ranks_try(ranks, rank, collet_comm_destroy(comm));
        first += upper ? n / 2 : 0;
        n = upper ? n - n / 2 : n / 2;
        for (int k = 0; k < n; k++)
            company[k] = first + k;
        check_company(ranks, rank, comm = child, company, n);
    }
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void children_have_children(void **state) {
    (void)state;
    world_run_all(0, 6, NULL, split_again_and_again, NULL);
}

/* ---- one thread with several ranks, groups ---- */

static struct collet_comm *team[NRANKS];

static void allgather_team(struct collet_comm *const *comms, int32_t (*all)[NRANKS]) {
    static const int32_t numbers[] = {0, 1, 2, 3};
    assert_int_equal(collet_group_start(), COLLET_SUCCESS);
    for (int r = 0; r < NRANKS; r++)
        if (comms[r] != NULL)
            assert_int_equal(collet_allgather(&numbers[r], all[r], 1, COLLET_INT32, comms[r], NULL), COLLET_SUCCESS);
    assert_int_equal(collet_group_end(), COLLET_SUCCESS);
}

static void one_thread_splits_all_its_ranks_in_a_group(void **state) {
    (void)state;
    struct collet_comm *rows[NRANKS], *columns[NRANKS];
    int32_t all[NRANKS][NRANKS];
    assert_int_equal(collet_comm_init_all(team, NRANKS, NULL), COLLET_SUCCESS);
    assert_int_equal(collet_group_start(), COLLET_SUCCESS);
    for (int r = 0; r < NRANKS; r++) {
        assert_int_equal(collet_comm_split(team[r], r / 2, 0, &rows[r], NULL), COLLET_SUCCESS);
        assert_int_equal(collet_comm_split(team[r], r == 3 ? NONE : r % 2, -r, &columns[r], NULL), COLLET_SUCCESS);
        assert_null(rows[r]);
    }
    assert_int_equal(collet_group_end(), COLLET_SUCCESS);
    allgather_team(rows, all);
    for (int r = 0; r < NRANKS; r++)
        assert_true(all[r][0] == r / 2 * 2 && all[r][1] == r / 2 * 2 + 1);
    assert_null(columns[3]);
    allgather_team(columns, all);
    assert_true(all[0][0] == 2 && all[0][1] == 0 && all[2][0] == 2 && all[2][1] == 0 && all[1][0] == 1);
    for (int r = 0; r < NRANKS; r++) {
        assert_int_equal(collet_comm_destroy(team[r]), COLLET_SUCCESS);
        assert_int_equal(collet_comm_destroy(rows[r]), COLLET_SUCCESS);
        assert_int_equal(collet_comm_destroy(columns[r]), COLLET_SUCCESS);
    }
}

static int descriptors(void) {
    int open = 0;
    for (int fd = 0; fd < 1000; fd++)
        open += fcntl(fd, F_GETFD) >= 0;
    return open;
}

static void a_poisoned_group_makes_no_communicator(void **state) {
    (void)state;
    struct collet_comm *child[NRANKS], *other;
    int before = descriptors();
    assert_int_equal(collet_comm_init_all(team, NRANKS, NULL), COLLET_SUCCESS);
    assert_int_equal(collet_group_start(), COLLET_SUCCESS);
    for (int r = 0; r < NRANKS; r++)
        assert_int_equal(collet_comm_split(team[r], 0, 0, &child[r], NULL), COLLET_SUCCESS);
    assert_int_equal(collet_comm_split(team[0], -7, 0, &other, NULL), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(collet_group_end(), COLLET_ERR_INVALID_ARGUMENT);
    int32_t all[NRANKS][NRANKS];
    allgather_team(team, all); /* nothing has happened to the parent */
    for (int r = 0; r < NRANKS; r++) {
        assert_null(child[r]);
        assert_int_equal(collet_comm_destroy(team[r]), COLLET_SUCCESS);
    }
    assert_int_equal(descriptors(), before);
}

/* ---- non-blocking ---- */

static void await(struct ranks *ranks, int rank, struct collet_comm *comm) {
    enum collet_result state = COLLET_IN_PROGRESS;
    while (state == COLLET_IN_PROGRESS)
        ranks_try(ranks, rank, collet_comm_get_async_error(comm, &state));
    ranks_expect(ranks, rank, state, COLLET_SUCCESS, "a call that is polled");
}

static void split_without_blocking(struct ranks *ranks, int rank) {
    struct collet_config config = {.size = sizeof config, .nonblocking = 1};
    struct collet_comm *comm, *child, *other;
    ranks_new_id(ranks, rank);
    ranks_expect(ranks, rank, collet_comm_init_rank_config(&comm, ranks->nranks, ranks->id, rank, &config),
                 COLLET_IN_PROGRESS, "init");
    await(ranks, rank, comm);
    for (int k = 0; k < NPATTERNS; k++) {
        const struct pattern *pattern = &patterns[k];
        if (rank != 1) /* which is alone at first, so that its first split cannot be over */
            ranks_barrier(ranks);
        ranks_expect(ranks, rank, collet_comm_split(comm, pattern->color[rank], pattern->key[rank], &child, NULL),
                     COLLET_IN_PROGRESS, "split");
        if (rank == 1) {
            ranks_check(ranks, rank, child == NULL);
            ranks_expect(ranks, rank, collet_comm_split(comm, 0, 0, &other, NULL), COLLET_ERR_INVALID_USAGE,
                         "a second split");
            ranks_barrier(ranks);
        }
        check_whole(ranks, rank, comm);
        await(ranks, rank, comm);
        check_split(ranks, rank, pattern, child);
        ranks_try(ranks, rank, collet_comm_destroy(child));
        ranks_barrier(ranks);
    }
    ranks_expect(ranks, rank, collet_comm_split(comm, 0, 0, &child, NULL), COLLET_IN_PROGRESS, "a split given up");
    ranks_barrier(ranks);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    ranks_check(ranks, rank, child == NULL);
}

static void a_non_blocking_parent_is_polled(void **state) {
    (void)state;
    world_run_all(0, NRANKS, NULL, split_without_blocking, NULL);
}

/* ---- shrink and grow ---- */

static void shrink_five(struct ranks *ranks, int rank) {
    static const int excluded[] = {3, 1}, survivors[] = {0, 2, 4}, first[] = {0};
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL), *child = NULL, *copy;
    if (rank != 1 && rank != 3) {
        ranks_try(ranks, rank, collet_comm_shrink(comm, excluded, 2, &child, NULL));
        check_company(ranks, rank, child, survivors, 3);
        ranks_try(ranks, rank, collet_comm_destroy(child));
    }
    ranks_try(ranks, rank, collet_comm_split(comm, 0, 0, &copy, NULL)); /* also by those that made one call less */
    if (rank != 0) {
        const int rest[] = {1, 2, 3, 4};
        ranks_try(ranks, rank, collet_comm_shrink(copy, first, 1, &child, NULL));
        check_company(ranks, rank, child, rest, 4);
        ranks_try(ranks, rank, collet_comm_destroy(child));
    }
    check_whole(ranks, rank, comm);
    check_whole(ranks, rank, copy);
    ranks_try(ranks, rank, collet_comm_destroy(copy));
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void five_ranks_shrink_to_three(void **state) {
    (void)state;
    world_run_all(0, 5, NULL, shrink_five, NULL);
}

/* Rank 2 is excluded, and goes on to the next collective. Rank 1 is late, so rank 0 has time to ask who waits where. */
static void shrink_without_one_that_waits(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL), *child;
    const int excluded[] = {2}, company[] = {0, 1};
    if (rank == 1)
        nanosleep(&(struct timespec){.tv_sec = 2, .tv_nsec = 500000000}, NULL);
    if (rank != 2) {
        ranks_try(ranks, rank, collet_comm_shrink(comm, excluded, 1, &child, NULL));
        check_company(ranks, rank, child, company, 2);
        ranks_try(ranks, rank, collet_comm_destroy(child));
    }
    check_whole(ranks, rank, comm);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void an_excluded_rank_may_wait_in_a_collective(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 3, NULL, shrink_without_one_that_waits, NULL);
}

/* The communicator of ranks 0 and 1 grows by ranks 2 and 3. Rank 1 knows the id. */
static void grow_to_four(struct ranks *ranks, int rank) {
    struct collet_comm *comm = NULL, *grown;
    ranks_new_id(ranks, rank);
    struct collet_unique_id first = ranks->id;
    ranks_barrier(ranks);
    if (rank < 2)
        ranks_try(ranks, rank, collet_comm_init_rank(&comm, 2, first, rank));
    ranks_new_id(ranks, rank);
    if (rank < 2)
        ranks_try(ranks, rank, collet_comm_grow(comm, 4, rank == 1 ? &ranks->id : NULL, &grown, NULL));
    else
        ranks_try(ranks, rank, collet_comm_init_rank_config(&grown, 4, ranks->id, rank, NULL));
    check_whole(ranks, rank, grown);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    check_whole(ranks, rank, grown);
    ranks_try(ranks, rank, collet_comm_destroy(grown));
}

static void two_ranks_grow_to_four(void **state) {
    (void)state;
    world_run_all(0, 4, NULL, grow_to_four, NULL);
}

/* ---- several ids ---- */

static void init_with_ids(struct ranks *ranks, int rank) {
    struct collet_unique_id ids[6];
    struct collet_comm *comm;
    for (int nids = 1; nids <= ranks->nranks; nids++) {
        for (int k = 0; k < nids; k++) {
            ranks_new_id(ranks, rank);
            ids[k] = ranks->id;
            ranks_barrier(ranks);
        }
        ranks_try(ranks, rank, collet_comm_init_rank_scalable(&comm, ranks->nranks, rank, nids, ids, NULL));
        check_whole(ranks, rank, comm);
        ranks_try(ranks, rank, collet_comm_destroy(comm));
    }
}

/* Both ids are those of rank 0, which meets at its first one. */
static void init_in_another_order(struct ranks *ranks, int rank) {
    struct collet_unique_id ids[2];
    struct collet_comm *comm;
    for (int k = 0; k < 2; k++) {
        ranks_new_id(ranks, rank);
        ids[rank == 0 ? k : 1 - k] = ranks->id;
        ranks_barrier(ranks);
    }
    if (rank == 1)
        ranks_sleep_ms(200); /* rank 0 has cancelled it */
    const enum collet_result result = collet_comm_init_rank_scalable(&comm, 2, rank, 2, ids, NULL);
    ranks_expect(ranks, rank, result, rank == 1 ? COLLET_ERR_INVALID_ARGUMENT : COLLET_ERR_TIMEOUT, "init");
    ranks_check(ranks, rank, strstr(collet_last_error(NULL), rank == 1 ? "ids differ" : "have not come: 1") != NULL);
}

static void lists_of_ids_in_another_order_are_an_error(void **state) {
    (void)state;
    static const char *const variables[] = {"COLLET_INIT_TIMEOUT", "2", NULL};
    world_run(&worlds[WORLD_SHM], 2, variables, init_in_another_order, NULL);
}

static void ranks_may_have_several_ids(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 5, NULL, init_with_ids, NULL);
    world_run(&worlds[WORLD_THREADS], 5, NULL, init_with_ids, NULL);
}

/* ---- configuration ---- */

static void configure_children(struct ranks *ranks, int rank) {
    struct collet_config config = {.size = sizeof config, .max_channels = 1, .name = "parent"};
    struct collet_comm *comm = ranks_comm(ranks, rank, &config), *same, *other;
    char text[512];
    int fds[2];
    ranks_try(ranks, rank, collet_comm_split(comm, 0, 0, &same, NULL));
    config.name = "child";
    config.nonblocking = 1;
    ranks_try(ranks, rank, collet_comm_split(comm, 0, 0, &other, &config)); /* that the child is says nothing here */
    ranks_check(ranks, rank, pipe(fds) == 0);
    ranks_try(ranks, rank, collet_comm_dump(same, fds[1]));
    ranks_try(ranks, rank, collet_comm_dump(other, fds[1]));
    close(fds[1]);
    size_t got = 0;
    for (ssize_t n; (n = read(fds[0], text + got, sizeof text - 1 - got)) > 0;)
        got += (size_t)n;
    close(fds[0]);
    text[got] = '\0';
    ranks_check(ranks, rank, strstr(text, "communicator parent:") != NULL);
    ranks_check(ranks, rank, strstr(text, "communicator child:") != NULL);
    ranks_try(ranks, rank, collet_comm_plan(same, "allreduce", 1 << 22, COLLET_FLOAT32, text, sizeof text));
    ranks_check(ranks, rank, strstr(text, " 1 channel(s)") != NULL);
    struct collet_comm *grandchild;
    ranks_expect(ranks, rank, collet_comm_split(other, 0, 0, &grandchild, NULL), COLLET_IN_PROGRESS, "a grandchild");
    await(ranks, rank, other);
    check_whole(ranks, rank, grandchild);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    ranks_try(ranks, rank, collet_comm_destroy(other));
    ranks_try(ranks, rank, collet_comm_destroy(grandchild));
    ranks_try(ranks, rank, collet_comm_destroy(same));
}

static void children_inherit_their_configuration_or_have_their_own(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 2, NULL, configure_children, NULL);
}

/* ---- what is refused ---- */

static void refuse(enum collet_result result, enum collet_result expected, const char *word) {
    assert_int_equal(result, expected);
    if (strstr(collet_last_error(NULL), word) == NULL)
        fail_msg("not about %s: %s", word, collet_last_error(NULL));
}

static void arguments_that_cannot_be_are_named(void **state) {
    (void)state;
    const enum collet_result BAD = COLLET_ERR_INVALID_ARGUMENT;
    struct collet_comm *comms[3], *comm, *child = NULL;
    struct collet_config config = {.size = sizeof config, .timeout_ms = -1};
    struct collet_config gpu = {.size = sizeof config, .device = COLLET_DEVICE_CUDA(60)};
    struct collet_unique_id id;
    const int self[] = {1}, twice[] = {2, 2}, outside[] = {3}, below[] = {-1}, two[] = {2};
    assert_int_equal(collet_get_unique_id(&id), COLLET_SUCCESS);
    assert_int_equal(collet_comm_init_all(comms, 3, NULL), COLLET_SUCCESS);
    comm = comms[1];
    refuse(collet_comm_split(NULL, 0, 0, &child, NULL), BAD, "comm is NULL");
    refuse(collet_comm_split(comm, -2, 0, &child, NULL), BAD, "color is -2");
    refuse(collet_comm_split(comm, 0, 0, NULL, NULL), BAD, "newcomm is NULL");
    refuse(collet_comm_split(comm, 0, 0, &child, &config), BAD, "config.timeout_ms");
    assert_true(collet_comm_split(comm, 0, 0, &child, &gpu) < 0);
    refuse(collet_comm_shrink(NULL, two, 1, &child, NULL), BAD, "comm is NULL");
    refuse(collet_comm_shrink(comm, NULL, 1, &child, NULL), BAD, "exclude_ranks is NULL");
    refuse(collet_comm_shrink(comm, two, -1, &child, NULL), BAD, "count -1");
    refuse(collet_comm_shrink(comm, self, 1, &child, NULL), BAD, "exclude_ranks[0] is 1");
    refuse(collet_comm_shrink(comm, twice, 2, &child, NULL), BAD, "exclude_ranks[1] is 2");
    refuse(collet_comm_shrink(comm, outside, 1, &child, NULL), BAD, "exclude_ranks[0] is 3");
    refuse(collet_comm_shrink(comm, below, 1, &child, NULL), BAD, "exclude_ranks[0] is -1");
    refuse(collet_comm_shrink(comm, two, 1, NULL, NULL), BAD, "newcomm is NULL");
    refuse(collet_comm_grow(NULL, 4, &id, &child, NULL), BAD, "comm is NULL");
    refuse(collet_comm_grow(comm, 3, &id, &child, NULL), BAD, "nranks is 3");
    refuse(collet_comm_grow(comm, 4, &id, NULL, NULL), BAD, "newcomm is NULL");
    assert_null(child);
    struct collet_unique_id ids[2] = {id, {{0}}};
    refuse(collet_comm_init_rank_scalable(&child, 2, 0, 1, NULL, NULL), BAD, "ids is NULL");
    refuse(collet_comm_init_rank_scalable(&child, 2, 0, 0, ids, NULL), BAD, "nids is 0");
    refuse(collet_comm_init_rank_scalable(&child, 2, 0, 3, ids, NULL), BAD, "nids is 3");
    refuse(collet_comm_init_rank_scalable(&child, 2, 0, 2, ids, NULL), BAD, "not a unique id");
    assert_int_equal(collet_group_start(), COLLET_SUCCESS);
    for (int r = 0; r < 3; r++)
        assert_int_equal(collet_comm_grow(comms[r], 4, NULL, &child, NULL), COLLET_SUCCESS);
    refuse(collet_group_end(), BAD, "id is NULL on every rank");
    for (int r = 0; r < 3; r++)
        assert_int_equal(collet_comm_destroy(comms[r]), COLLET_SUCCESS);
    refuse(collet_comm_split(comm, 0, 0, &child, NULL), BAD, "no communicator");
}

/* ---- ranks that do something else, or nothing ---- */

enum other { CALLS, GROWS, SLEEPS, DIES, ABORTS };

static void otherwise(struct ranks *ranks, int rank, struct collet_comm *comm, enum other what) {
    struct collet_comm *child;
    float data[100] = {0};
    switch (what) {
    case CALLS:
        ranks_expect(ranks, rank, collet_allreduce(data, data, 100, COLLET_FLOAT32, COLLET_SUM, comm, NULL),
                     COLLET_ERR_MISMATCH, "allreduce");
        break;
    case GROWS:
        ranks_expect(ranks, rank, collet_comm_grow(comm, 9, NULL, &child, NULL), COLLET_ERR_MISMATCH, "grow");
        break;
    case SLEEPS: break;
    case DIES: kill(getpid(), SIGKILL); break;
    case ABORTS: ranks_try(ranks, rank, collet_comm_abort(comm)); break;
    }
}

/* Rank 2 of 3 does something else while the others split. */
static void split_without_one(struct ranks *ranks, int rank) {
    static const enum collet_result results[] = {COLLET_ERR_MISMATCH, COLLET_ERR_MISMATCH, COLLET_ERR_TIMEOUT,
                                                 COLLET_ERR_REMOTE, COLLET_ERR_ABORTED};
    const enum other what = *(const enum other *)ranks->argument;
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL), *child;
    enum collet_result state;
    if (what == DIES)
        ranks->expendable[2] = 1;
    ranks_barrier(ranks);
    uint64_t start_ns = ranks_now_ns();
    if (rank == 2) {
        otherwise(ranks, rank, comm, what);
    } else {
        child = comm;
        ranks_expect(ranks, rank, collet_comm_split(comm, 0, 0, &child, NULL), results[what], "split");
        ranks_check(ranks, rank, strstr(collet_last_error(NULL), "rank 2") != NULL);
        ranks_check(ranks, rank, child == NULL);
    }
    ranks_check(ranks, rank, fair_since_ns(start_ns) < LEVEL_SLOWER * NOTICE_MS * 1000000ull);
    if (what == ABORTS && rank == 2)
        return;
    if (rank != 2) {
        ranks_try(ranks, rank, collet_comm_get_async_error(comm, &state));
        ranks_check(ranks, rank, state == results[what]);
    }
    if (what != DIES && what != ABORTS)
        ranks_barrier(ranks);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void do_otherwise(enum other what) {
    static const char *const soon[] = {"COLLET_INIT_TIMEOUT", "1", NULL};
    world_run_all(what == DIES ? WORLD_NO_THREADS : 0, 3, what == SLEEPS ? soon : NULL, split_without_one, &what);
}

static void a_split_beside_a_collective_is_a_mismatch(void **state) {
    (void)state;
    do_otherwise(CALLS);
}

static void a_split_beside_a_growth_is_a_mismatch(void **state) {
    (void)state;
    do_otherwise(GROWS);
}

static void a_rank_that_does_not_split_is_named_in_time(void **state) {
    (void)state;
    do_otherwise(SLEEPS);
}

static void a_death_during_a_split_is_told_to_all(void **state) {
    (void)state;
    do_otherwise(DIES);
}

static void an_abort_during_a_split_is_told_to_all(void **state) {
    (void)state;
    do_otherwise(ABORTS);
}

/* ---- ranks that die when all have agreed, and not all have joined ---- */

static bool has_agreed(const struct collet_comm *parent) {
    return parent->making != NULL && parent->making->boot != NULL;
}

static void poll_once(struct ranks *ranks, int rank, struct collet_comm *comm, enum collet_result *state) {
    ranks_try(ranks, rank, collet_comm_get_async_error(comm, state));
    sched_yield();
}

/* A rank that does not poll has agreed, but does not join. Rank 0, where the ranks of the child meet, dies when it waits for
 * the others; rank 2 dies when the others wait for it. */
static void split_and_die(struct ranks *ranks, int rank) {
    const int victim = *(const int *)ranks->argument;
    struct collet_config config = {.size = sizeof config, .nonblocking = 1};
    struct collet_comm *comm, *child;
    enum collet_result state = COLLET_IN_PROGRESS;
    char name[16];
    ranks_new_id(ranks, rank);
    ranks_expect(ranks, rank, collet_comm_init_rank_config(&comm, 3, ranks->id, rank, &config), COLLET_IN_PROGRESS,
                 "init");
    await(ranks, rank, comm);
    ranks->expendable[victim] = 1;
    ranks_barrier(ranks);
    ranks_expect(ranks, rank, collet_comm_split(comm, 0, 0, &child, NULL), COLLET_IN_PROGRESS, "split");
    while ((rank == victim) == (victim == 0) && !has_agreed(comm))
        poll_once(ranks, rank, comm, &state);
    ranks_check(ranks, rank, state == COLLET_IN_PROGRESS && child == NULL);
    ranks_barrier(ranks);
    if (rank == victim)
        kill(getpid(), SIGKILL);
    uint64_t start_ns = ranks_now_ns();
    while (state == COLLET_IN_PROGRESS)
        poll_once(ranks, rank, comm, &state);
    snprintf(name, sizeof name, "rank %d", victim);
    ranks_check(ranks, rank, state == COLLET_ERR_REMOTE && child == NULL);
    if (strstr(collet_last_error(comm), name) == NULL &&
        strstr(collet_last_error(comm), "with the meeting point") == NULL)
        ranks_fail(ranks, "rank %d does not name %s: %s", rank, name, collet_last_error(comm));
    ranks_check(ranks, rank, fair_since_ns(start_ns) < LEVEL_SLOWER * NOTICE_MS * 1000000ull);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void a_death_between_agreement_and_joining_is_told_to_all(void **state) {
    (void)state;
    for (int victim = 0; victim <= 2; victim += 2)
        world_run_all(WORLD_NO_THREADS, 3, NULL, split_and_die, &victim);
}

/* ---- several parents ---- */

#define PARENTS 3
#define SPLITS 10

struct splitter {
    struct ranks *ranks;
    struct collet_comm *parent;
    int rank, number;
    pthread_t thread;
};

/* Each parent has other colours, so that a child of the wrong parent would be noticed. */
static void *split_in_thread(void *argument) {
    struct splitter *s = argument;
    int company[RANKS_MAX];
    for (int k = 0; k < SPLITS; k++) {
        struct collet_comm *child;
        int n = 0, color = (s->rank >> s->number) & 1;
        for (int r = 0; r < s->ranks->nranks; r++)
            if (((r >> s->number) & 1) == color)
                company[n++] = r;
        ranks_try(s->ranks, s->rank, collet_comm_split(s->parent, color, 0, &child, NULL));
        check_company(s->ranks, s->rank, child, company, n);
        ranks_try(s->ranks, s->rank, collet_comm_destroy(child));
    }
    return NULL;
}

static void split_several(struct ranks *ranks, int rank) {
    struct splitter splitters[PARENTS];
    for (int k = 0; k < PARENTS; k++)
        splitters[k] =
            (struct splitter){.ranks = ranks, .parent = ranks_comm(ranks, rank, NULL), .rank = rank, .number = k};
    for (int k = 0; k < PARENTS; k++)
        ranks_check(ranks, rank, pthread_create(&splitters[k].thread, NULL, split_in_thread, &splitters[k]) == 0);
    for (int k = 0; k < PARENTS; k++) {
        pthread_join(splitters[k].thread, NULL);
        ranks_try(ranks, rank, collet_comm_destroy(splitters[k].parent));
    }
}

static void threads_split_different_parents_at_once(void **state) {
    (void)state;
    world_run_all(0, NRANKS, NULL, split_several, NULL);
}

/* Rank 1 makes two communicators in one group: a third one by a split (or from an id), and another one with rank 0, which cannot be made.
 * Rank 2 only takes part in the first: it hears that rank 1 does not, and why. */
static void split_in_a_group_that_fails(struct ranks *ranks, int rank) {
    struct collet_comm *parent = ranks_comm(ranks, rank, NULL), *child = NULL, *other = NULL;
    enum collet_result result = COLLET_SUCCESS;
    ranks_new_id(ranks, rank);
    if (rank == 0)
        result = collet_comm_init_rank(&other, 3, ranks->id, 0);
    if (rank == 1) {
        ranks_try(ranks, rank, collet_group_start());
        collet_comm_split(parent, 0, 0, &child, NULL);
        collet_comm_init_rank(&other, 2, ranks->id, 1);
        result = collet_group_end();
    }
    if (rank == 2)
        result = collet_comm_split(parent, 0, 0, &child, NULL);
    ranks_check(ranks, rank, child == NULL && other == NULL);
    if (result >= 0 || strstr(collet_last_error(NULL), "nranks differs") == NULL)
        ranks_fail(ranks, "rank %d: result %d, \"%s\"", rank, result, collet_last_error(NULL));
    ranks_barrier(ranks);
    collet_comm_destroy(parent);
}

static void init_in_a_group_that_fails(struct ranks *ranks, int rank) {
    struct collet_comm *first = NULL, *other = NULL;
    enum collet_result result = COLLET_SUCCESS;
    ranks_new_id(ranks, rank);
    const struct collet_unique_id id = ranks->id;
    ranks_new_id(ranks, rank);
    if (rank == 0)
        result = collet_comm_init_rank(&other, 3, ranks->id, 0);
    if (rank == 1) {
        ranks_try(ranks, rank, collet_group_start());
        collet_comm_init_rank(&first, 3, id, 0); /* of three ranks, one never comes */
        collet_comm_init_rank(&other, 2, ranks->id, 1);
        result = collet_group_end();
    }
    if (rank == 2)
        result = collet_comm_init_rank(&first, 3, id, 1);
    ranks_check(ranks, rank, first == NULL && other == NULL);
    if (result >= 0 || strstr(collet_last_error(NULL), "nranks differs") == NULL)
        ranks_fail(ranks, "rank %d: result %d, \"%s\"", rank, result, collet_last_error(NULL));
    ranks_barrier(ranks);
}

static void a_group_that_fails_says_why_in_each_part(void **state) {
    (void)state;
    static const char *const variables[] = {"COLLET_INIT_TIMEOUT", "10", NULL};
    world_run_all(WORLD_NO_THREADS, 3, NULL, split_in_a_group_that_fails, NULL);
    world_run_all(WORLD_NO_THREADS, 3, variables, init_in_a_group_that_fails, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_one_colour_meet_in_the_order_of_their_keys),
        cmocka_unit_test(children_have_children),
        cmocka_unit_test(one_thread_splits_all_its_ranks_in_a_group),
        cmocka_unit_test(a_poisoned_group_makes_no_communicator),
        cmocka_unit_test(a_non_blocking_parent_is_polled),
        cmocka_unit_test(five_ranks_shrink_to_three),
        cmocka_unit_test(an_excluded_rank_may_wait_in_a_collective),
        cmocka_unit_test(two_ranks_grow_to_four),
        cmocka_unit_test(ranks_may_have_several_ids),
        cmocka_unit_test(lists_of_ids_in_another_order_are_an_error),
        cmocka_unit_test(children_inherit_their_configuration_or_have_their_own),
        cmocka_unit_test(a_split_beside_a_collective_is_a_mismatch),
        cmocka_unit_test(a_split_beside_a_growth_is_a_mismatch),
        cmocka_unit_test(a_rank_that_does_not_split_is_named_in_time),
        cmocka_unit_test(a_death_during_a_split_is_told_to_all),
        cmocka_unit_test(an_abort_during_a_split_is_told_to_all),
        cmocka_unit_test(a_death_between_agreement_and_joining_is_told_to_all),
        cmocka_unit_test(threads_split_different_parents_at_once),
        cmocka_unit_test(a_group_that_fails_says_why_in_each_part),
        cmocka_unit_test(
            arguments_that_cannot_be_are_named), /* last: starts a thread, and sanitizers permit no fork then */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
