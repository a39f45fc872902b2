/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxy without a GPU: ranks on host memory whose slots a thread of their process carries (COLLET_PROXY=1), over tcp.
 * With GPUs, emulated ones: test_emulated_gpu.c. Every value of every collective: test_conformance.c, under the same switch.
 */
#include "common/level.h"
#include "common/ranks.h"
#include "common/trial.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LARGE (1 << 20)

static void run_job(void (*run)(struct ranks *ranks, int rank), int processes, int threads) {
    struct ranks_job job = {.processes = processes, .threads = threads, .limit_s = 30, .run = run};
    char why[RANKS_TEXT_BYTES];
    if (!ranks_run(&job, why))
        fail_msg("%d processes of %d threads: %s", processes, threads, why);
}

static struct collet_comm *comm_create(struct ranks *ranks, int rank) {
    struct collet_config config = {.size = sizeof(config), .transports = COLLET_TRANSPORT_TCP};
    return ranks_comm(ranks, rank, &config);
}

/* ---- threads of this process, as the kernel lists them ---- */

static bool read_line(const char *task, const char *file, const char *key, char *line, size_t room) {
    char path[300];
    snprintf(path, sizeof(path), "/proc/self/task/%s/%s", task, file);
    FILE *f = fopen(path, "r");
    bool found = false;
    while (f != NULL && !found && fgets(line, (int)room, f) != NULL)
        found = strncmp(line, key, strlen(key)) == 0;
    if (f != NULL)
        fclose(f);
    return found;
}

/* How many are called collet-proxy, and how often the last of them went to sleep until now. */
static int find_proxies(long *sleeps) {
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
        char line[128];
        if (!read_line(task->d_name, "comm", "collet-proxy", line, sizeof(line)))
            continue;
        n++;
        if (read_line(task->d_name, "status", "voluntary_ctxt_switches:", line, sizeof(line)))
            *sleeps = strtol(strchr(line, ':') + 1, NULL, 10);
    }
    if (tasks != NULL)
        closedir(tasks);
    return n;
}

/* ---- what works ---- */

static void run_calls(struct ranks *ranks, int rank, struct collet_comm *comm, int times) {
    static const size_t counts[] = {1, 100, 5000, 300000};
    for (int k = 0; k < times; k++) {
        struct trial_call call = {.collective = (enum prog_collective)(k % PROG_SEND),
                                  .type = COLLET_INT32,
                                  .count = counts[k % 4],
                                  .nranks = ranks->nranks,
                                  .seed = (uint64_t)k};
        char why[TRIAL_WHY_BYTES];
        struct trial trial;
        trial_prepare(&trial, &call, rank);
        ranks_try(ranks, rank, trial_run(&trial, comm));
        if (!trial_check(&trial, why))
            ranks_fail(ranks, "call %d: %s", k, why);
        trial_destroy(&trial);
    }
}

static int proxies_wanted = 1;

static void use_and_leave(struct ranks *ranks, int rank) {
    long sleeps;
    for (int round = 0; round < 3; round++) {
        struct collet_comm *comm = comm_create(ranks, rank);
        run_calls(ranks, rank, comm, 24);
        if (ranks->nthreads == 1)
            ranks_check(ranks, rank, find_proxies(&sleeps) == proxies_wanted);
        ranks_try(ranks, rank, collet_comm_destroy(comm));
        ranks_barrier(ranks);
        ranks_check(ranks, rank, find_proxies(&sleeps) == 0);
        ranks_barrier(ranks);
    }
}

static void a_process_has_one_proxy_while_it_has_connections(void **state) {
    (void)state;
    run_job(use_and_leave, 3, 1);
    run_job(use_and_leave, 2, 2);
    run_job(use_and_leave, 1, 4);
}

static void it_is_as_many_threads_as_asked_for(void **state) {
    (void)state;
    setenv("COLLET_PROXY", "3", 1);
    proxies_wanted = 3;
    run_job(use_and_leave, 4, 1);
    run_job(use_and_leave, 2, 2);
    proxies_wanted = 1;
    setenv("COLLET_PROXY", "1", 1);
}

/* Two communicators share it, and calls of both run in one group. */
static void share(struct ranks *ranks, int rank) {
    struct collet_comm *comms[2] = {comm_create(ranks, rank), comm_create(ranks, rank)};
    static int32_t data[2][LARGE];
    long sleeps;
    for (int round = 0; round < 4; round++) {
        for (int c = 0; c < 2; c++)
            for (int k = 0; k < LARGE; k++)
                data[c][k] = k + rank + c;
        ranks_try(ranks, rank, collet_group_start());
        for (int c = 0; c < 2; c++)
            ranks_try(ranks, rank, collet_allreduce(data[c], data[c], LARGE, COLLET_INT32, COLLET_SUM, comms[c], NULL));
        ranks_try(ranks, rank, collet_group_end());
        for (int c = 0; c < 2; c++)
            for (int k = 0; k < LARGE; k++)
                ranks_check(ranks, rank, data[c][k] == 2 * (k + c) + 1);
    }
    ranks_check(ranks, rank, find_proxies(&sleeps) == 1);
    ranks_try(ranks, rank, collet_comm_destroy(comms[rank])); /* in different order */
    ranks_try(ranks, rank, collet_comm_destroy(comms[1 - rank]));
}

static void communicators_share_it(void **state) {
    (void)state;
    run_job(share, 2, 1);
}

/* A thread that sleeps for good is not scheduled any more: soon two looks see the same number. */
static void sleep_between(struct ranks *ranks, int rank) {
    struct collet_comm *comm = comm_create(ranks, rank);
    for (int round = 0; round < 3; round++) {
        long before = -1, after = -2;
        run_calls(ranks, rank, comm, 4);
        for (int looks = 0; looks < 100 && before != after; looks++) {
            ranks_check(ranks, rank, find_proxies(&before) == 1);
            ranks_sleep_ms(50); /* in which one that is awake pauses many times */
            ranks_check(ranks, rank, find_proxies(&after) == 1);
        }
        ranks_check(ranks, rank, before == after);
    }
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void it_sleeps_when_there_is_nothing_to_do(void **state) {
    (void)state;
    run_job(sleep_between, 2, 1);
}

/* A call returns when its slots are published; leaving waits until they are sent. */
static void send_and_leave(struct ranks *ranks, int rank) {
    static int32_t data[LARGE / 4]; /* one FIFO full, more than sockets take at once */
    struct collet_comm *comm = comm_create(ranks, rank);
    int32_t word = 0;
    ranks_try(ranks, rank, collet_broadcast(&word, &word, 1, COLLET_INT32, 0, comm, NULL));
    for (int k = 0; rank == 0 && k < LARGE / 4; k++)
        data[k] = k;
    if (rank == 0)
        ranks_try(ranks, rank, collet_send(data, LARGE / 4, COLLET_INT32, 1, comm, NULL));
    else
        ranks_try(ranks, rank, collet_recv(data, LARGE / 4, COLLET_INT32, 0, comm, NULL));
    if (rank == 0)
        ranks_try(ranks, rank, collet_comm_destroy(comm));
    for (int k = 0; rank == 1 && k < LARGE / 4; k++)
        ranks_check(ranks, rank, data[k] == k);
    if (rank == 1)
        ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void what_was_published_arrives_after_its_sender_left(void **state) {
    (void)state;
    run_job(send_and_leave, 2, 1);
}

/* ---- failures ---- */

static void *abort_soon(void *comm) {
    ranks_sleep_ms(30);
    collet_comm_abort(comm);
    return NULL;
}

/* Rank 0 aborts from another thread while all move data. */
static void abort_amid(struct ranks *ranks, int rank) {
    static float data[LARGE];
    struct collet_comm *comm = comm_create(ranks, rank);
    enum collet_result result = COLLET_SUCCESS;
    pthread_t thread;
    ranks_try(ranks, rank, collet_allreduce(data, data, 10, COLLET_FLOAT32, COLLET_SUM, comm, NULL));
    ranks_barrier(ranks); /* else a rank that is slow may still be in the call that must succeed */
    if (rank == 0)
        pthread_create(&thread, NULL, abort_soon, comm);
    while (result == COLLET_SUCCESS)
        result = collet_allreduce(data, data, LARGE, COLLET_FLOAT32, COLLET_SUM, comm, NULL);
    if (rank == 0)
        pthread_join(thread, NULL);
    else
        ranks_expect(ranks, rank, result, COLLET_ERR_ABORTED, "a call during an abort elsewhere");
    if (rank != 0)
        ranks_try(ranks, rank, collet_comm_abort(comm));
}

static void an_abort_ends_calls_while_it_moves_data(void **state) {
    (void)state;
    run_job(abort_amid, 2, 1);
    run_job(abort_amid, 4, 1);
}

static void die_amid(struct ranks *ranks, int rank) {
    static float data[LARGE];
    struct collet_comm *comm = comm_create(ranks, rank);
    enum collet_result result = COLLET_SUCCESS;
    ranks->expendable[1] = 1;
    ranks_try(ranks, rank, collet_allreduce(data, data, LARGE, COLLET_FLOAT32, COLLET_SUM, comm, NULL));
    ranks_barrier(ranks); /* what a proxy still holds dies with its process: all have their result first */
    if (rank == 1)
        raise(SIGKILL);
    while (result == COLLET_SUCCESS)
        result = collet_allreduce(data, data, LARGE, COLLET_FLOAT32, COLLET_SUM, comm, NULL);
    ranks_expect(ranks, rank, result, COLLET_ERR_REMOTE, "a call after a death");
    ranks_check(ranks, rank, strstr(collet_last_error(comm), "rank 1") != NULL);
    ranks_try(ranks, rank, collet_comm_abort(comm));
}

static void a_death_is_named(void **state) {
    (void)state;
    run_job(die_amid, 3, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_has_one_proxy_while_it_has_connections),
        cmocka_unit_test(it_is_as_many_threads_as_asked_for),
        cmocka_unit_test(communicators_share_it),
        cmocka_unit_test(it_sleeps_when_there_is_nothing_to_do),
        cmocka_unit_test(what_was_published_arrives_after_its_sender_left),
        cmocka_unit_test(an_abort_ends_calls_while_it_moves_data),
        cmocka_unit_test(a_death_is_named),
    };
    setenv("COLLET_PROXY", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
