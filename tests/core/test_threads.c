/* SPDX-License-Identifier: Apache-2.0
 *
 * Several threads of one process at once: on communicators of their own they never wait for each other, and on a shared
 * one they take turns. Of most use under a thread sanitizer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/fair.h"
#include "common/level.h"
#include "common/trial.h"
#include "common/world.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COMMS 3

static int rounds_now(int normal) {
    return level_now() == LEVEL_FAST ? normal / 5 : level_now() == LEVEL_FULL ? normal * 10 : normal;
}

static void call_and_check(struct ranks *ranks, int rank, struct collet_comm *comm, uint64_t seed) {
    static const enum prog_collective collectives[] = {PROG_ALLREDUCE, PROG_ALLGATHER, PROG_REDUCESCATTER};
    struct trial trial;
    char why[TRIAL_WHY_BYTES];
    struct trial_call call = {.collective = collectives[seed % 3],
                              .type = COLLET_INT32,
                              .op = COLLET_SUM,
                              .count = numbers_hash(seed, 5, 5) % 3000,
                              .nranks = ranks->nranks,
                              .seed = seed};
    trial_prepare(&trial, &call, rank);
    ranks_try(ranks, rank, trial_run(&trial, comm));
    if (!trial_check(&trial, why))
        ranks_fail(ranks, "seed %llu: %s", (unsigned long long)seed, why);
    trial_destroy(&trial);
}

/* ---- a rank is a process, or a thread, that has several threads, each with a communicator of its own ---- */

struct lane {
    struct ranks *ranks;
    struct collet_comm *comm;
    int rank, number;
};

static void *call_in_lane(void *argument) {
    struct lane *lane = argument;
    for (int k = 0; k < rounds_now(150); k++)
        call_and_check(lane->ranks, lane->rank, lane->comm, (uint64_t)(1000 * lane->number + k));
    return NULL;
}

static void run_lanes(struct ranks *ranks, int rank) {
    struct lane lanes[COMMS];
    pthread_t threads[COMMS];
    for (int k = 0; k < COMMS; k++)
        lanes[k] = (struct lane){ranks, ranks_comm(ranks, rank, NULL), rank, k};
    for (int k = 0; k < COMMS; k++)
        ranks_check(ranks, rank, pthread_create(&threads[k], NULL, call_in_lane, &lanes[k]) == 0);
    for (int k = 0; k < COMMS; k++)
        pthread_join(threads[k], NULL);
    for (int k = 0; k < COMMS; k++)
        ranks_try(ranks, rank, collet_comm_destroy(lanes[k].comm));
}

static void communicators_in_several_threads_at_once(void **state) {
    (void)state;
    world_run_all(0, 2, NULL, run_lanes, NULL);
    world_run_all(0, 4, NULL, run_lanes, NULL);
}

/* ---- a thread that waits in one communicator holds up nobody in another ---- */

static void *wait_for_a_message(void *argument) {
    struct lane *lane = argument;
    int got = 0;
    ranks_try(lane->ranks, lane->rank, collet_recv(&got, 1, COLLET_INT32, 0, lane->comm, NULL));
    ranks_check(lane->ranks, lane->rank, got == 4711);
    return NULL;
}

static void one_waits_others_go_on(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    struct lane waiting = {ranks, ranks_comm(ranks, rank, NULL), rank, 0};
    pthread_t thread;
    int value = 4711;
    if (rank == 1)
        ranks_check(ranks, rank, pthread_create(&thread, NULL, wait_for_a_message, &waiting) == 0);
    for (int k = 0; k < 100; k++)
        call_and_check(ranks, rank, comm, (uint64_t)k);
    if (rank == 0)
        ranks_try(ranks, rank, collet_send(&value, 1, COLLET_INT32, 1, waiting.comm, NULL));
    else
        pthread_join(thread, NULL);
    ranks_try(ranks, rank, collet_comm_destroy(waiting.comm));
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void a_thread_that_waits_holds_up_no_other(void **state) {
    (void)state;
    world_run_all(0, 2, NULL, one_waits_others_go_on, NULL);
}

/* ---- questions from outside, while calls are going on ---- */

struct watcher {
    struct ranks *ranks;
    struct collet_comm *comm;
    int rank, stop;
};

static void *watch(void *argument) {
    struct watcher *w = argument;
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC), value;
    enum collet_result error;
    while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
        ranks_try(w->ranks, w->rank, collet_comm_get_async_error(w->comm, &error));
        ranks_expect(w->ranks, w->rank, error, COLLET_SUCCESS, "the state while calls go on");
        ranks_try(w->ranks, w->rank, collet_comm_count(w->comm, &value));
        ranks_try(w->ranks, w->rank, collet_comm_dump(w->comm, nowhere));
        ranks_check(w->ranks, w->rank, collet_last_error(w->comm)[0] == '\0');
        ranks_sleep_ms(1);
    }
    close(nowhere);
    return NULL;
}

static void call_under_watch(struct ranks *ranks, int rank) {
    struct watcher watcher = {ranks, ranks_comm(ranks, rank, NULL), rank, 0};
    pthread_t thread;
    ranks_check(ranks, rank, pthread_create(&thread, NULL, watch, &watcher) == 0);
    for (int k = 0; k < rounds_now(500); k++)
        call_and_check(ranks, rank, watcher.comm, (uint64_t)k);
    __atomic_store_n(&watcher.stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    ranks_try(ranks, rank, collet_comm_destroy(watcher.comm));
}

static void getters_and_dumps_do_not_disturb_calls(void **state) {
    (void)state;
    world_run(&worlds[WORLD_THREADS], 2, NULL, call_under_watch, NULL);
    world_run(&worlds[WORLD_SHM], 2, NULL, call_under_watch, NULL);
    world_run(&worlds[WORLD_TCP], 2, NULL, call_under_watch, NULL);
}

/* ---- groups that name the same communicators in different orders ---- */

struct crossing {
    struct collet_comm *comms[2];
    int first;
};

static void *call_crosswise(void *argument) {
    struct crossing *c = argument;
    for (int k = 0; k < rounds_now(2000); k++) {
        int x[2] = {k, -k};
        bool good = collet_group_start() == COLLET_SUCCESS;
        for (int i = 0; i < 2; i++)
            good = good && collet_allreduce(&x[i], &x[i], 1, COLLET_INT32, COLLET_SUM, c->comms[(i + c->first) % 2],
                                            NULL) == COLLET_SUCCESS;
        good = collet_group_end() == COLLET_SUCCESS && good;
        if (!good || x[0] != k || x[1] != -k)
            return c;
    }
    return NULL;
}

static void groups_that_overlap_do_not_lock_each_other_out(void **state) {
    (void)state;
    struct crossing crossings[4];
    pthread_t threads[4];
    struct collet_comm *comms[2];
    fair_alarm(60 * LEVEL_SLOWER);
    for (int k = 0; k < 2; k++)
        assert_int_equal(collet_comm_init_all(&comms[k], 1, NULL), COLLET_SUCCESS);
    for (int k = 0; k < 4; k++) {
        crossings[k] = (struct crossing){{comms[0], comms[1]}, k % 2};
        assert_int_equal(pthread_create(&threads[k], NULL, call_crosswise, &crossings[k]), 0);
    }
    void *failed[4];
    for (int k = 0; k < 4; k++)
        pthread_join(threads[k], &failed[k]);
    for (int k = 0; k < 4; k++)
        assert_null(failed[k]);
    assert_int_equal(collet_comm_destroy(comms[0]), COLLET_SUCCESS);
    assert_int_equal(collet_comm_destroy(comms[1]), COLLET_SUCCESS);
    alarm(0);
}

/* ---- communicators come and go in all threads ---- */

static void *come_and_go(void *argument) {
    long number = (long)(intptr_t)argument;
    for (int k = 0; k < rounds_now(50); k++) {
        struct collet_comm *comms[3];
        struct collet_unique_id id;
        float x[3] = {1, 2, (float)number};
        bool by_id = k % 3 == 0;
        if (by_id) {
            if (collet_get_unique_id(&id) != COLLET_SUCCESS || collet_group_start() != COLLET_SUCCESS)
                return "no id";
            for (int rank = 0; rank < 3; rank++)
                if (collet_comm_init_rank(&comms[rank], 3, id, rank) != COLLET_SUCCESS)
                    return "no rank";
            if (collet_group_end() != COLLET_SUCCESS)
                return "no communicator by id";
        } else if (collet_comm_init_all(comms, 3, NULL) != COLLET_SUCCESS) {
            return "no communicators";
        }
        collet_group_start();
        for (int rank = 0; rank < 3; rank++)
            collet_allreduce(&x[rank], &x[rank], 1, COLLET_FLOAT32, COLLET_SUM, comms[rank], NULL);
        if (collet_group_end() != COLLET_SUCCESS || x[2] != (float)(3 + number))
            return "a wrong sum";
        for (int rank = 0; rank < 3; rank++)
            if ((k % 2 ? collet_comm_destroy : collet_comm_abort)(comms[rank]) != COLLET_SUCCESS)
                return "no end";
    }
    return NULL;
}

static void communicators_come_and_go_in_several_threads(void **state) {
    (void)state;
    pthread_t threads[4];
    void *failed[4];
    fair_alarm(60 * LEVEL_SLOWER);
    for (intptr_t k = 0; k < 4; k++)
        assert_int_equal(pthread_create(&threads[k], NULL, come_and_go, (void *)k), 0);
    for (int k = 0; k < 4; k++)
        pthread_join(threads[k], &failed[k]);
    for (int k = 0; k < 4; k++)
        if (failed[k] != NULL)
            fail_msg("thread %d: %s", k, (const char *)failed[k]);
    alarm(0);
}

/* ---- a handle of a communicator that ends ---- */

struct spectator {
    struct collet_comm *comm; /* of now; NULL: none yet */
    int stop, odd;            /* odd: results that should not be */
};

static void *look_on(void *argument) {
    struct spectator *s = argument;
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    while (!__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE)) {
        struct collet_comm *comm = __atomic_load_n(&s->comm, __ATOMIC_ACQUIRE);
        if (comm == NULL)
            continue;
        enum collet_result state;
        int n;
        const enum collet_result results[] = {collet_comm_dump(comm, nowhere), collet_comm_count(comm, &n),
                                              collet_comm_get_async_error(comm, &state)};
        for (size_t k = 0; k < sizeof(results) / sizeof(*results); k++) /* its handle may be another one's by now */
            s->odd += results[k] != COLLET_SUCCESS && results[k] != COLLET_ERR_INVALID_ARGUMENT &&
                      results[k] != COLLET_ERR_INVALID_USAGE;
    }
    close(nowhere);
    return NULL;
}

/* A call that waits for a rank that makes none: an abort finds it under way, or it finds the communicator gone. */
static void *call_in_vain(void *comm) {
    float x = 1;
    return collet_allreduce(&x, &x, 1, COLLET_FLOAT32, COLLET_SUM, comm, NULL) == COLLET_SUCCESS ? comm : NULL;
}

static void end_beside_a_spectator(struct collet_comm *const *comms, bool aborts) {
    pthread_t thread;
    void *succeeded = NULL;
    if (aborts)
        assert_int_equal(pthread_create(&thread, NULL, call_in_vain, comms[0]), 0);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal((aborts ? collet_comm_abort : collet_comm_destroy)(comms[rank]), COLLET_SUCCESS);
    if (aborts)
        pthread_join(thread, &succeeded);
    assert_null(succeeded);
}

static void a_dump_beside_the_end_of_its_communicator_is_harmless(void **state) {
    (void)state;
    struct spectator spectator = {.comm = NULL};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, look_on, &spectator), 0);
    for (int k = 0; k < rounds_now(200); k++) {
        struct collet_comm *comms[2];
        float x[2] = {1, 2};
        assert_int_equal(collet_comm_init_all(comms, 2, NULL), COLLET_SUCCESS);
        __atomic_store_n(&spectator.comm, comms[k % 2], __ATOMIC_RELEASE);
        collet_group_start();
        for (int rank = 0; rank < 2; rank++)
            collet_allreduce(&x[rank], &x[rank], 1, COLLET_FLOAT32, COLLET_SUM, comms[rank], NULL);
        assert_int_equal(collet_group_end(), COLLET_SUCCESS);
        end_beside_a_spectator(comms, k % 3 == 0);
    }
    __atomic_store_n(&spectator.stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    assert_int_equal(spectator.odd, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(communicators_in_several_threads_at_once),
        cmocka_unit_test(a_thread_that_waits_holds_up_no_other),
        cmocka_unit_test(getters_and_dumps_do_not_disturb_calls),
        cmocka_unit_test(groups_that_overlap_do_not_lock_each_other_out),
        cmocka_unit_test(communicators_come_and_go_in_several_threads),
        cmocka_unit_test(a_dump_beside_the_end_of_its_communicator_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
