/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks die; the others revoke their communicator, shrink it, and go on. Whoever dies, and when: all survivors get the same
 * communicator, which computes exactly, or all get an error.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/level.h"
#include "common/world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define ELEMS 3000

/* Ranks whose bits are set die: the first ones in the middle of calls, the second ones a few microseconds after that. */
struct deaths {
    unsigned first, second;
    unsigned delay_us;
    int ranks_per_host; /* 0: all share one */
};

static bool has(unsigned set, int rank) { return set >> rank & 1; }

static void die(struct ranks *ranks, int rank) {
    __atomic_store_n(&ranks->expendable[rank], 1, __ATOMIC_RELEASE);
    kill(getpid(), SIGKILL);
}

struct dying {
    struct ranks *ranks;
    int rank;
};

static void *die_later(void *argument) {
    const struct dying *dying = argument;
    usleep(((const struct deaths *)dying->ranks->argument)->delay_us);
    die(dying->ranks, dying->rank);
    return NULL;
}

static enum collet_result sum(struct collet_comm *comm, int rank, int64_t *data) {
    for (int i = 0; i < ELEMS; i++)
        data[i] = ((int64_t)1 << 4 * rank) + i % 7;
    return collet_allreduce(data, data, ELEMS, COLLET_INT64, COLLET_SUM, comm, NULL);
}

/* Each rank has four bits of the sum, so it says who took part. */
static unsigned members(struct ranks *ranks, int rank, const int64_t *data, int n) {
    const int64_t numbers = data[0];
    unsigned set = 0;
    for (int i = 0; i < ELEMS; i++)
        ranks_check(ranks, rank, data[i] == numbers + (int64_t)n * (i % 7));
    for (int r = 0; r < ranks->nranks; r++) {
        ranks_check(ranks, rank, (numbers >> 4 * r & 15) <= 1);
        set |= (unsigned)(numbers >> 4 * r & 15) << r;
    }
    return set;
}

/* Until a rank dies. Each survivor that notices stops the others. */
static void call_until_death(struct ranks *ranks, int rank, struct collet_comm *comm) {
    int64_t *data = calloc(ELEMS, sizeof *data);
    const struct deaths *deaths = ranks->argument;
    for (int k = 0; sum(comm, rank, data) == COLLET_SUCCESS; k++)
        if (has(deaths->first, rank) && k == 5)
            die(ranks, rank);
    free(data);
    ranks_try(ranks, rank, collet_comm_revoke(comm));
}

/* Shrinks what is left until nobody dies any more. */
static struct collet_comm *shrink(struct ranks *ranks, int rank, struct collet_comm *comm, int64_t *data) {
    for (int k = 0; k < ranks->nranks; k++) {
        struct collet_comm *smaller = NULL;
        ranks_doing(ranks, "rank %d: shrink %d", rank, k);
        ranks_try(ranks, rank, collet_comm_shrink(comm, NULL, 0, &smaller, NULL));
        ranks_try(ranks, rank, collet_comm_destroy(comm));
        comm = smaller;
        if (sum(comm, rank, data) == COLLET_SUCCESS)
            return comm;
        ranks_try(ranks, rank, collet_comm_revoke(comm));
    }
    ranks_fail(ranks, "rank %d: more shrinks than deaths", rank);
}

static void survive(struct ranks *ranks, int rank) {
    const struct deaths *deaths = ranks->argument;
    const unsigned all = (1u << ranks->nranks) - 1, left = all & ~deaths->first & ~deaths->second;
    char host[16];
    int count;
    snprintf(host, sizeof host, "host%d", deaths->ranks_per_host > 0 ? rank / deaths->ranks_per_host : 0);
    if (deaths->ranks_per_host > 0)
        setenv("COLLET_HOSTID", host, 1);
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    call_until_death(ranks, rank, comm);
    struct dying dying = {ranks, rank};
    pthread_t thread;
    if (has(deaths->second, rank))
        pthread_create(&thread, NULL, die_later, &dying);
    int64_t *data = calloc(ELEMS, sizeof *data);
    comm = shrink(ranks, rank, comm, data);
    if (has(deaths->second, rank))
        pause(); /* to be killed, after its last call */
    unsigned set = left | deaths->second;
    while (set != left) { /* those that are still to die may have had part in a first sum */
        ranks_try(ranks, rank, collet_comm_count(comm, &count));
        set = members(ranks, rank, data, count);
        ranks_check(ranks, rank, (set & ~deaths->second) == left);
        if (set != left && sum(comm, rank, data) != COLLET_SUCCESS) {
            ranks_try(ranks, rank, collet_comm_revoke(comm));
            comm = shrink(ranks, rank, comm, data);
        }
    }
    for (int k = 0; k < 20; k++)
        ranks_try(ranks, rank, sum(comm, rank, data));
    ranks_check(ranks, rank, members(ranks, rank, data, __builtin_popcount(left)) == left);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(data);
}

static void run(int nranks, struct deaths deaths) {
    struct deaths *shared = ranks_share(sizeof *shared);
    *shared = deaths;
    if (deaths.ranks_per_host > 0)
        world_run(&worlds[WORLD_TCP], nranks, NULL, survive, shared);
    else
        world_run_all(WORLD_NO_THREADS, nranks, NULL, survive, shared);
    ranks_unshare(shared, sizeof *shared);
}

static void whoever_dies_the_others_go_on(void **state) {
    (void)state;
    run(2, (struct deaths){.first = 1});
    run(4, (struct deaths){.first = 1 << 3});
    run(4, (struct deaths){.first = 1});
    run(5, (struct deaths){.first = 1 << 0 | 1 << 1 | 1 << 4});
    run(5, (struct deaths){.first = 1 << 2 | 1 << 3});
}

/* The tree's root with them, or a part of its leaves. */
static void the_ranks_of_other_hosts_go_on_when_a_host_dies(void **state) {
    (void)state;
    run(6, (struct deaths){.first = 1 << 0 | 1 << 1, .ranks_per_host = 2});
    run(6, (struct deaths){.first = 1 << 4 | 1 << 5, .ranks_per_host = 2});
    run(3, (struct deaths){.first = 1 << 1, .ranks_per_host = 1});
}

static void a_rank_may_die_while_the_others_shrink(void **state) {
    (void)state;
    const unsigned n = level_now() == LEVEL_FAST ? 1 : 3;
    for (unsigned k = 0; k < n; k++) {
        run(4, (struct deaths){.first = 1 << 2, .second = 1 << k % 2, .delay_us = 400 * k * k});
        run(5, (struct deaths){.first = 1 << 1, .second = 1 << 0 | 1 << 2, .delay_us = 700 * k, .ranks_per_host = 1});
    }
}

/* ---- without a death ---- */

/* Rank 1 revokes while the others wait for it, and while one of them is in no call. */
static void revoke_on_one(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL), *child, *other;
    int64_t *data = calloc(ELEMS, sizeof *data);
    enum collet_result state;
    ranks_try(ranks, rank, sum(comm, rank, data));
    ranks_barrier(ranks);
    if (rank == 1)
        ranks_try(ranks, rank, collet_comm_revoke(comm));
    ranks_expect(ranks, rank, sum(comm, rank, data), COLLET_ERR_ABORTED, "a sum");
    ranks_check(ranks, rank, strstr(collet_last_error(NULL), "rank 1 called collet_comm_revoke()") != NULL);
    ranks_try(ranks, rank, collet_comm_revoke(comm)); /* all do, in programs */
    ranks_try(ranks, rank, collet_comm_get_async_error(comm, &state));
    ranks_check(ranks, rank, state == COLLET_ERR_ABORTED);
    ranks_expect(ranks, rank, collet_comm_split(comm, 0, 0, &other, NULL), COLLET_ERR_ABORTED, "a split");
    ranks_try(ranks, rank, collet_comm_shrink(comm, NULL, 0, &child, NULL));
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    ranks_try(ranks, rank, sum(child, rank, data));
    ranks_check(ranks, rank, members(ranks, rank, data, ranks->nranks) == (1u << ranks->nranks) - 1);
    ranks_try(ranks, rank, collet_comm_destroy(child));
    free(data);
}

static void a_revoked_communicator_stops_everywhere_and_shrinks(void **state) {
    (void)state;
    world_run_all(0, 4, NULL, revoke_on_one, NULL);
}

/* Rank 0 does not call: the others hear who is missing, and all of them the same. */
static void shrink_without_rank_0(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL), *child = comm;
    if (rank != 0) {
        ranks_expect(ranks, rank, collet_comm_shrink(comm, NULL, 0, &child, NULL), COLLET_ERR_TIMEOUT, "shrink");
        ranks_check(ranks, rank, strstr(collet_last_error(NULL), "rank 0") != NULL && child == NULL);
    }
    ranks_barrier(ranks);
    int64_t *data = calloc(ELEMS, sizeof *data);
    ranks_try(ranks, rank, sum(comm, rank, data)); /* nothing has happened to the parent */
    free(data);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void a_rank_that_does_not_shrink_is_named(void **state) {
    (void)state;
    static const char *const soon[] = {"COLLET_INIT_TIMEOUT", "1", NULL};
    world_run(&worlds[WORLD_SHM], 3, soon, shrink_without_rank_0, NULL);
}

/* Rank 2 waits in a collective for ranks that shrink. */
static void shrink_beside_a_call(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL), *child = comm;
    int64_t *data = calloc(ELEMS, sizeof *data);
    enum collet_result result = rank == 2 ? sum(comm, rank, data) : collet_comm_shrink(comm, NULL, 0, &child, NULL);
    ranks_expect(ranks, rank, result, COLLET_ERR_MISMATCH, rank == 2 ? "a sum" : "shrink");
    ranks_check(ranks, rank, strstr(collet_last_error(NULL), "collet_comm_shrink()") != NULL);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(data);
}

static void a_shrink_beside_a_collective_is_a_mismatch(void **state) {
    (void)state;
    world_run(&worlds[WORLD_THREADS], 3, NULL, shrink_beside_a_call, NULL);
    world_run(&worlds[WORLD_SHM], 3, NULL, shrink_beside_a_call, NULL);
}

static void *abort_soon(void *comm) {
    ranks_sleep_ms(50);
    assert_int_equal(collet_comm_abort(comm), COLLET_SUCCESS);
    return NULL;
}

/* Rank 2's own thread aborts the parent, which rank 2 shrinks. Rank 1 comes later, so that nobody is done before. */
static void abort_while_shrinking(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL), *child = comm;
    int *aborted = ranks->argument;
    pthread_t thread;
    ranks_barrier(ranks);
    if (rank == 2) {
        pthread_create(&thread, NULL, abort_soon, comm);
        ranks_expect(ranks, rank, collet_comm_shrink(comm, NULL, 0, &child, NULL), COLLET_ERR_ABORTED, "shrink");
        ranks_check(ranks, rank, child == NULL);
        pthread_join(thread, NULL);
        __atomic_store_n(aborted, 1, __ATOMIC_RELEASE);
        return;
    }
    while (rank == 1 && !__atomic_load_n(aborted, __ATOMIC_ACQUIRE))
        ranks_sleep_ms(1);
    int64_t *data = calloc(ELEMS, sizeof *data);
    ranks_try(ranks, rank, collet_comm_shrink(comm, NULL, 0, &child, NULL));
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    ranks_try(ranks, rank, sum(child, rank, data));
    ranks_check(ranks, rank, members(ranks, rank, data, 2) == 3);
    ranks_try(ranks, rank, collet_comm_destroy(child));
    free(data);
}

static void an_abort_ends_the_shrink_of_its_rank_alone(void **state) {
    (void)state;
    int *aborted = ranks_share(sizeof *aborted);
    for (int world = WORLD_THREADS; world <= WORLD_TCP; world++) {
        *aborted = 0;
        world_run(&worlds[world], 3, NULL, abort_while_shrinking, aborted);
    }
    ranks_unshare(aborted, sizeof *aborted);
}

/* Rank 1 has one descriptor left, or none: too few to join the others. They hear it, and do not wait for
 * COLLET_INIT_TIMEOUT, which is longer than this test may take. */
static int descriptors_left;

static void shrink_without_descriptors(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL), *child = comm;
    ranks_barrier(ranks);
    if (rank == 1) {
        const int lowest = dup(0);
        const rlim_t most = (rlim_t)(lowest + descriptors_left);
        const struct rlimit limit = {most, most};
        close(lowest);
        ranks_check(ranks, rank, setrlimit(RLIMIT_NOFILE, &limit) == 0);
    }
    ranks_expect(ranks, rank, collet_comm_shrink(comm, NULL, 0, &child, NULL), COLLET_ERR_SYSTEM, "shrink");
    ranks_check(ranks, rank, child == NULL && strstr(collet_last_error(NULL), "rank 1: ") != NULL);
    ranks_check(ranks, rank, strstr(collet_last_error(NULL), "ulimit -n") != NULL);
    ranks_barrier(ranks);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    if (rank == 1)
        _exit(0); /* a leak checker at exit() would need descriptors */
}

static void a_rank_that_cannot_join_a_shrink_tells_the_others(void **state) {
    (void)state;
    static const char *const late[] = {"COLLET_INIT_TIMEOUT", "600", NULL};
    for (descriptors_left = 0; descriptors_left < 2; descriptors_left++)
        world_run(&worlds[WORLD_SHM], 3, late, shrink_without_descriptors, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_dies_the_others_go_on),
        cmocka_unit_test(the_ranks_of_other_hosts_go_on_when_a_host_dies),
        cmocka_unit_test(a_rank_may_die_while_the_others_shrink),
        cmocka_unit_test(a_revoked_communicator_stops_everywhere_and_shrinks),
        cmocka_unit_test(a_rank_that_does_not_shrink_is_named),
        cmocka_unit_test(a_shrink_beside_a_collective_is_a_mismatch),
        cmocka_unit_test(an_abort_ends_the_shrink_of_its_rank_alone),
        cmocka_unit_test(a_rank_that_cannot_join_a_shrink_tells_the_others),
    };
    return cmocka_run_group_tests_name("survivors", tests, NULL, NULL);
}
