/* SPDX-License-Identifier: Apache-2.0
 *
 * What collet-status is told of a job that stands still, and what a rank leaves behind when its communicator fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/os.h"
#include "common/world.h"
#include "layers/tools/status/ask.h"
#include "layers/tools/status/blame.h"
#include "layers/tools/status/screen.c"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 4
#define KEPT 1024        /* operations, in a dump */
#define BYTES (1u << 20) /* more than a connection's slots take: no rank can be done without the others */

static const char *const ring[] = {"COLLET_ALGO", "ring", "COLLET_PROTO", "Simple", NULL};

struct stage {
    int stopped, late, asked; /* ranks; −1: none */
    pid_t pids[RANKS];
    const char *words; /* that the blame contains */
    int culprit;
    int told;  /* 1: the late rank may go on */
    int hasty; /* so many ask first, and do not wait for the answer */
};

static void sum(struct ranks *ranks, struct collet_comm *comm, int *data, bool may_fail) {
    enum collet_result result = collet_allreduce(data, data, BYTES / 4, COLLET_INT32, COLLET_SUM, comm, NULL);
    if (result != COLLET_SUCCESS && !may_fail)
        ranks_fail(ranks, "%s", collet_last_error(NULL));
}

/* ---------------------------------------------------------------------------------------------------- who is to blame */

static bool is_as_expected(const struct stage *stage, struct status_job *job, char why[512]) {
    snprintf(why, 512, "%d ranks of %s", job->nranks, job->name);
    if (job->nranks != RANKS || strcmp(job->name, "world") != 0)
        return false;
    for (int rank = 0; rank < RANKS; rank++) {
        const struct status_rank *r = &job->ranks[rank];
        const bool silent = rank == stage->stopped;
        snprintf(why, 512, "rank %d: answered %d, stopped %d, %llu calls", rank, r->rank.answered, r->rank.stopped,
                 (unsigned long long)r->status.calls);
        if (silent ? !r->rank.stopped : !r->has_status || r->status.calls != (rank == stage->late ? 1 : 2))
            return false;
    }
    snprintf(why, 512, "nobody is to blame");
    if (blame_find(job) == 0 || job->ranks[stage->culprit].blocks == 0)
        return false;
    blame_describe(&job->ranks[stage->culprit], why, 512);
    return strstr(why, stage->words) != NULL;
}

/* A process answers when all ranks have, or after a second. Whoever has hung up by then is still there to be answered. */
static void look_in(const struct stage *stage) {
    for (int k = 0; k < stage->hasty; k++) {
        struct status_jobs jobs = {0};
        const char *why = "";
        ask_process(stage->pids[stage->asked], os_now_ns() + 50000000u, &jobs, &why);
        status_jobs_free(&jobs);
    }
}

/* Another thread, as another process would: until the picture is complete. */
static void *look(void *ranks_) {
    struct ranks *ranks = ranks_;
    struct stage *stage = ranks->argument;
    const uint64_t limit_ns = os_now_ns() + 30000000000u;
    bool found = false;
    char seen[512] = "nothing";
    look_in(stage);
    while (!found && os_now_ns() < limit_ns) {
        struct status_jobs jobs = {0};
        const char *why = "";
        ranks_doing(ranks, "asking process %d", (int)stage->pids[stage->asked]);
        ask_process(stage->pids[stage->asked], os_now_ns() + 5000000000u, &jobs, &why);
        found = jobs.count == 1 && is_as_expected(stage, &jobs.job[0], seen);
        status_jobs_free(&jobs);
        ranks_sleep_ms(50);
    }
    if (!found)
        ranks_fail(ranks, "the status of the job is not as it should be: %s", seen);
    __atomic_store_n(&stage->told, 1, __ATOMIC_RELEASE);
    if (stage->stopped >= 0)
        kill(stage->pids[stage->stopped], SIGKILL);
    return NULL;
}

static void stand_still(struct ranks *ranks, int rank) {
    struct stage *stage = ranks->argument;
    struct collet_config config = {.size = sizeof(config), .name = "world"};
    struct collet_comm *comm = ranks_comm(ranks, rank, &config);
    int *data = calloc(1, BYTES);
    const int looker = stage->stopped == RANKS - 1 ? 0 : RANKS - 1;
    pthread_t thread;
    stage->pids[rank] = getpid();
    sum(ranks, comm, data, false);
    ranks_barrier(ranks);
    if (rank == stage->stopped) {
        __atomic_store_n(&ranks->expendable[rank], 1, __ATOMIC_RELEASE);
        raise(SIGSTOP);
        for (;;)
            pause();
    }
    if (rank == looker && pthread_create(&thread, NULL, look, ranks) != 0)
        ranks_fail(ranks, "no thread");
    while (rank == stage->late && !__atomic_load_n(&stage->told, __ATOMIC_ACQUIRE))
        ranks_sleep_ms(10);
    sum(ranks, comm, data, stage->stopped >= 0);
    if (rank == looker)
        pthread_join(thread, NULL);
    collet_comm_destroy(comm);
    free(data);
}

static void run_stage(int world, struct stage stage) {
    struct stage *shared = ranks_share(sizeof(*shared));
    *shared = stage;
    world_run(&worlds[world], RANKS, ring, stand_still, shared);
    ranks_unshare(shared, sizeof(*shared));
}

static void a_rank_that_is_stopped_is_named(void **state) {
    (void)state;
    run_stage(WORLD_SHM, (struct stage){.stopped = 2, .late = -1, .asked = 1, .culprit = 2, .words = "is stopped"});
}

static void askers_that_hang_up_before_the_answer_do_no_harm(void **state) {
    (void)state;
    run_stage(WORLD_SHM,
              (struct stage){.stopped = 2, .late = -1, .asked = 1, .culprit = 2, .words = "is stopped", .hasty = 20});
}

static void others_answer_although_the_root_of_the_tree_is_stopped(void **state) {
    (void)state;
    run_stage(WORLD_TCP, (struct stage){.stopped = 0, .late = -1, .asked = 2, .culprit = 0, .words = "is stopped"});
}

static void a_rank_that_has_not_made_the_call_is_named(void **state) {
    (void)state;
    run_stage(WORLD_SHM, (struct stage){.stopped = -1,
                                        .late = 1,
                                        .asked = 3,
                                        .culprit = 1,
                                        .words = "has not made call 2, allreduce (its last is call 1)"});
}

/* Rank 3 waits for 2, which is late, and nobody waits for rank 0, which is stopped: both are seen. */
static void one_is_stopped_and_one_is_late(void **state) {
    (void)state;
    run_stage(WORLD_SHM,
              (struct stage){.stopped = 0, .late = 2, .asked = 3, .culprit = 2, .words = "has not made call 2"});
}

/* ------------------------------------------------------------------------------------------- communicators come and go */

static void *ask_all_the_time(void *stop) {
    while (!__atomic_load_n((int *)stop, __ATOMIC_ACQUIRE)) {
        struct status_jobs jobs = {0};
        const char *why = "";
        ask_process((int)getpid(), os_now_ns() + 1000000000u, &jobs, &why);
        status_jobs_free(&jobs);
    }
    return NULL;
}

static void use_and_end(bool aborts) {
    struct collet_comm *comms[2];
    struct collet_unique_id id;
    int x[2] = {1, 2};
    assert_int_equal(collet_get_unique_id(&id), COLLET_SUCCESS);
    collet_group_start();
    for (int rank = 0; rank < 2; rank++)
        collet_comm_init_rank(&comms[rank], 2, id, rank);
    assert_int_equal(collet_group_end(), COLLET_SUCCESS);
    collet_group_start();
    for (int rank = 0; rank < 2; rank++)
        collet_allreduce(&x[rank], &x[rank], 1, COLLET_INT32, COLLET_SUM, comms[rank], NULL);
    assert_int_equal(collet_group_end(), COLLET_SUCCESS);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal((aborts ? collet_comm_abort : collet_comm_destroy)(comms[rank]), COLLET_SUCCESS);
}

static void a_status_beside_the_end_of_communicators_is_harmless(void **state) {
    (void)state;
    pthread_t thread;
    int stop = 0;
    assert_int_equal(pthread_create(&thread, NULL, ask_all_the_time, &stop), 0);
    for (int k = 0; k < 40; k++)
        use_and_end(k % 2);
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
}

static void another_user_is_told_nothing(void **state) {
    (void)state;
    struct collet_comm *comm;
    struct collet_unique_id id;
    if (geteuid() != 0)
        skip(); /* only root can become somebody else */
    assert_int_equal(collet_get_unique_id(&id), COLLET_SUCCESS);
    assert_int_equal(collet_comm_init_rank(&comm, 1, id, 0), COLLET_SUCCESS);
    for (int other = 0; other < 2; other++) {
        int status;
        const int pid = (int)getpid();
        const pid_t child = fork();
        if (child == 0) {
            struct status_jobs jobs = {0};
            const char *why = "";
            if (other && setuid(65534) != 0)
                _exit(2);
            _exit(ask_process(pid, os_now_ns() + 5000000000u, &jobs, &why) && jobs.count == 1 ? 1 : 0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), other ? 0 : 1);
    }
    assert_int_equal(collet_comm_destroy(comm), COLLET_SUCCESS);
}

/* -------------------------------------------------------------------------------------------------- what is left behind */

static void fail_on_purpose(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    int *data = calloc(1, BYTES);
    for (int k = 0; k < KEPT; k++) /* so many are kept, and more come */
        ranks_try(ranks, rank, collet_allreduce(data, data, 1, COLLET_INT32, COLLET_SUM, comm, NULL));
    for (int k = 0; k < 3; k++)
        sum(ranks, comm, data, false);
    ranks_barrier(ranks);
    if (rank == 1) {
        collet_comm_abort(comm);
    } else {
        while (collet_allreduce(data, data, 1, COLLET_INT32, COLLET_SUM, comm, NULL) == COLLET_SUCCESS)
            ;
        collet_comm_destroy(comm);
    }
    free(data);
}

/* How often a file that its owner alone may read has these words. */
static int file_has(const char *path, const char *words) {
    static char text[1 << 20];
    int times = 0;
    struct stat about;
    FILE *file = fopen(path, "r");
    const size_t bytes = file != NULL ? fread(text, 1, sizeof(text) - 1, file) : 0;
    text[bytes] = '\0';
    if (file != NULL)
        fclose(file);
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
        times++;
    return stat(path, &about) == 0 && (about.st_mode & 0777) == 0600 ? times : 0;
}

static void every_rank_writes_its_operations_when_the_communicator_fails(void **state) {
    (void)state;
    char pattern[64], path[80];
    snprintf(pattern, sizeof(pattern), "/tmp/collet-test-dump-%d.%%r", (int)getpid());
    const char *const variables[] = {"COLLET_ALGO", "ring", "COLLET_DUMP_FILE", pattern, NULL};
    world_run(&worlds[WORLD_SHM], 3, variables, fail_on_purpose, NULL);
    for (int rank = 0; rank < 3; rank++) {
        snprintf(path, sizeof(path), "/tmp/collet-test-dump-%d.%d", (int)getpid(), rank);
        assert_true(file_has(path, "rank 1 called collet_comm_abort()"));
        assert_int_equal(file_has(path, "\"seq\": "), KEPT);
        assert_true(file_has(path, "\"seq\": 1027,\"collective\": \"allreduce\",\"bytes\": 1048576"));
        assert_false(file_has(path, "\"seq\": 3,"));
        assert_true(file_has(path, "\"state\": \"done\",\"began_ns\": "));
        unlink(path);
    }
}

static void assert_fits(const char *text, int rows, const char *expected) {
    char *copy = strdup(text);
    screen_fit(copy, rows, "  held up");
    assert_string_equal(copy, expected);
    free(copy);
}

static void a_small_screen_leaves_out_ranks_but_not_who_holds_them_up(void **state) {
    (void)state;
    const char *const text = "communicator a\n  rank 0\n  rank 1\n  rank 2\n  held up by rank 2\n";
    assert_fits(text, 5, text);
    assert_fits(text, 4, "communicator a\n  rank 0\n  held up by rank 2\n");
    assert_fits(text, 1, "communicator a\n  held up by rank 2\n");
    assert_fits("", 0, "");
}

/* All that a job may write goes to a disk that is full. */
static void fail_without_disk(struct ranks *ranks, int rank) {
    if (freopen(ranks->argument, "a", stderr) == NULL)
        ranks_fail(ranks, "cannot write %s", (const char *)ranks->argument);
    fail_on_purpose(ranks, rank);
}

static void a_full_disk_is_said_and_harms_no_call(void **state) {
    (void)state;
    static const char *const variables[] = {"COLLET_ALGO",
                                            "ring",
                                            "COLLET_DUMP_FILE",
                                            "/dev/full",
                                            "COLLET_RECORD",
                                            "/dev/full",
                                            "COLLET_TRACE",
                                            "/dev/full",
                                            "COLLET_DEBUG",
                                            "TRACE",
                                            "COLLET_DEBUG_FILE",
                                            "/dev/full",
                                            NULL};
    char log[64];
    snprintf(log, sizeof(log), "/tmp/collet-test-full-%d", (int)getpid());
    unlink(log); /* of an earlier process with this number */
    world_run(&worlds[WORLD_SHM], 3, variables, fail_without_disk, log);
    assert_int_equal(ranks_log_lines(log, "cannot write COLLET_DUMP_FILE=/dev/full: No space left on device"), 3);
    assert_int_equal(ranks_log_lines(log, "cannot write COLLET_RECORD: No space left on device"), 3);
    assert_int_equal(ranks_log_lines(log, "cannot write COLLET_TRACE=/dev/full"), 3);
    unlink(log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_screen_leaves_out_ranks_but_not_who_holds_them_up),
        cmocka_unit_test(a_rank_that_is_stopped_is_named),
        cmocka_unit_test(askers_that_hang_up_before_the_answer_do_no_harm),
        cmocka_unit_test(others_answer_although_the_root_of_the_tree_is_stopped),
        cmocka_unit_test(a_rank_that_has_not_made_the_call_is_named),
        cmocka_unit_test(one_is_stopped_and_one_is_late),
        cmocka_unit_test(every_rank_writes_its_operations_when_the_communicator_fails),
        cmocka_unit_test(a_full_disk_is_said_and_harms_no_call),
        /* These two make threads in this process: a thread sanitizer forbids processes with threads after that. */
        cmocka_unit_test(another_user_is_told_nothing),
        cmocka_unit_test(a_status_beside_the_end_of_communicators_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
