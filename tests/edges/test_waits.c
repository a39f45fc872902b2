/* SPDX-License-Identifier: Apache-2.0
 *
 * No wait is silent: each case leaves one rank out, and the others must say so within COLLET_WARN_AFTER, without COLLET_DEBUG. All
 * cases run side by side, each rank a process with a log of its own; then the logs are read. Before, init and everything that makes
 * one communicator out of another were silent for COLLET_INIT_TIMEOUT. test_waits.sh has the ways of launchers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collet.h"
#include "common/fair.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS_MAX 3
#define ABSENCE_S 3 /* longer than COLLET_WARN_AFTER, which is 1 s */

struct wait_case {
    int nranks;
    void (*body)(const struct wait_case *c, int rank);
    struct collet_unique_id *id; /* shared */
    int *id_is_there;
    pid_t pids[RANKS_MAX];
    char log[RANKS_MAX][64];
};

static struct collet_comm *join(const struct wait_case *c, int rank) {
    struct collet_comm *comm = NULL;
    struct collet_config config = {.size = sizeof config, .name = "waits"};
    if (rank == 0)
        collet_get_unique_id(c->id);
    if (rank == 0)
        __atomic_store_n(c->id_is_there, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(c->id_is_there, __ATOMIC_ACQUIRE))
        usleep(1000);
    if (collet_comm_init_rank_config(&comm, c->nranks, *c->id, rank, &config) != COLLET_SUCCESS)
        fprintf(stderr, "init: %s\n", collet_last_error(NULL));
    return comm;
}

/* ---- the cases ---- */

static void one_does_not_come(const struct wait_case *c, int rank) {
    if (rank == c->nranks - 1)
        return;
    join(c, rank);
}

static void one_does_not_split(const struct wait_case *c, int rank) {
    struct collet_comm *comm = join(c, rank), *child;
    if (rank >= 1)
        sleep(ABSENCE_S);
    else
        collet_comm_split(comm, 0, 0, &child, NULL);
}

static void one_does_not_shrink(const struct wait_case *c, int rank) {
    struct collet_comm *comm = join(c, rank), *child;
    if (rank == c->nranks - 1)
        sleep(ABSENCE_S);
    else
        collet_comm_shrink(comm, NULL, 0, &child, NULL);
}

static void nobody_new_comes(const struct wait_case *c, int rank) {
    struct collet_comm *comm = join(c, rank), *child;
    struct collet_unique_id id;
    collet_get_unique_id(&id);
    collet_comm_grow(comm, c->nranks + 1, rank == 0 ? &id : NULL, &child, NULL);
}

static void *split_alone(void *comm) {
    struct collet_comm *child;
    collet_comm_split(comm, 0, 0, &child, NULL);
    return NULL;
}

static void destroy_beside_a_split(const struct wait_case *c, int rank) {
    struct collet_comm *comm = join(c, rank);
    pthread_t thread;
    if (rank == 1)
        sleep(ABSENCE_S);
    if (rank == 0 && pthread_create(&thread, NULL, split_alone, comm) == 0) {
        usleep(300000);
        collet_comm_destroy(comm);
    }
}

static void one_does_not_register(const struct wait_case *c, int rank) {
    static float buffer[16];
    struct collet_comm *comm = join(c, rank);
    struct collet_window *window;
    if (rank == c->nranks - 1)
        sleep(ABSENCE_S);
    else
        collet_win_register(comm, buffer, sizeof buffer, &window);
}

static void one_does_not_signal(const struct wait_case *c, int rank) {
    static float buffer[16];
    struct collet_comm *comm = join(c, rank);
    struct collet_window *window = NULL;
    collet_win_register(comm, buffer, sizeof buffer, &window);
    if (rank == c->nranks - 1)
        sleep(ABSENCE_S);
    else
        collet_wait_signal(c->nranks - 1, 1, window, comm, NULL);
}

static void one_splits_alone_in_its_process(const struct wait_case *c, int rank) {
    struct collet_comm *comms[2], *child;
    (void)c;
    (void)rank;
    collet_comm_init_all(comms, 2, NULL);
    collet_comm_split(comms[0], 0, 0, &child, NULL);
}

/* A launcher of PMI-1 whose barrier does not end. */
static void *serve_pmi(void *fd_) {
    const int fd = *(int *)fd_;
    char line[512];
    for (ssize_t n; (n = read(fd, line, sizeof line - 1)) > 0;) {
        line[n] = '\0';
        if (strstr(line, "cmd=init") != NULL)
            dprintf(fd, "cmd=response_to_init rc=0\n");
        else if (strstr(line, "cmd=get_my_kvsname") != NULL)
            dprintf(fd, "cmd=my_kvsname kvsname=store\n");
        else if (strstr(line, "cmd=put") != NULL)
            dprintf(fd, "cmd=put_result rc=0\n");
    }
    return NULL;
}

static void the_barrier_of_pmi_does_not_end(const struct wait_case *c, int rank) {
    struct collet_comm *comm;
    int pair[2];
    char fd[16];
    pthread_t thread;
    (void)c;
    (void)rank;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || pthread_create(&thread, NULL, serve_pmi, &pair[1]) != 0)
        abort();
    snprintf(fd, sizeof fd, "%d", pair[0]);
    setenv("PMI_FD", fd, 1);
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "2", 1);
    if (collet_comm_init_from_env(&comm, NULL) != COLLET_SUCCESS)
        fprintf(stderr, "init: %s\n", collet_last_error(NULL));
}

enum { COME, SPLIT, SHRINK, GROW, DESTROY, REGISTER, SIGNAL, ALONE, PMI, CASES };
static struct wait_case cases[CASES] = {
    [COME] = {3, one_does_not_come},
    [SPLIT] = {3, one_does_not_split},
    [SHRINK] = {3, one_does_not_shrink},
    [GROW] = {2, nobody_new_comes},
    [DESTROY] = {2, destroy_beside_a_split},
    [REGISTER] = {2, one_does_not_register},
    [SIGNAL] = {2, one_does_not_signal},
    [ALONE] = {1, one_splits_alone_in_its_process},
    [PMI] = {1, the_barrier_of_pmi_does_not_end},
};

/* ---- all of them at once ---- */

static void run_rank(const struct wait_case *c, int rank) {
    const int log = open(c->log[rank], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(log, STDERR_FILENO);
    fair_alarm(30);
    c->body(c, rank);
    _exit(0);
}

static int run_all(void **state) {
    (void)state;
    setenv("COLLET_WARN_AFTER", "1", 1);
    setenv("COLLET_INIT_TIMEOUT", "3", 1);
    unsetenv("COLLET_DEBUG");
    for (int k = 0; k < CASES; k++) {
        struct wait_case *c = &cases[k];
        char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
            return -1;
        c->id_is_there = (int *)(void *)shared;
        c->id = (struct collet_unique_id *)(void *)(shared + 64);
        for (int rank = 0; rank < c->nranks; rank++) {
            snprintf(c->log[rank], sizeof c->log[rank], "/tmp/collet-waits.%d.%d.%d", (int)getpid(), k, rank);
            if ((c->pids[rank] = fork()) == 0)
                run_rank(c, rank);
        }
    }
    for (int k = 0; k < CASES; k++)
        for (int rank = 0; rank < cases[k].nranks; rank++)
            waitpid(cases[k].pids[rank], NULL, 0);
    return 0;
}

static int remove_logs(void **state) {
    (void)state;
    for (int k = 0; k < CASES; k++)
        for (int rank = 0; rank < cases[k].nranks; rank++)
            remove(cases[k].log[rank]);
    return 0;
}

/* The log of this rank has exactly one line of a wait for `whom`. It may have other lines. */
static void assert_said(int which, int rank, const char *whom) {
    char line[1200], all[8192] = "";
    int said = 0;
    FILE *log = fopen(cases[which].log[rank], "r");
    assert_non_null(log);
    while (fgets(line, sizeof line, log) != NULL) {
        said += strstr(line, "has waited for ") != NULL && strstr(line, "since ") != NULL && strstr(line, whom) != NULL;
        strncat(all, line, sizeof all - strlen(all) - 1);
    }
    fclose(log);
    if (said != 1)
        fail_msg("rank %d said \"%s\" %d times: %s", rank, whom, said, all);
}

static void init_names_the_ranks_that_have_not_come_and_what_makes_it_believe_in_them(void **state) {
    (void)state;
    assert_said(COME, 0, "of 3 ranks these have not come: 2 (by the argument nranks)");
    assert_said(COME, 1, "of 3 ranks these have not come: 2 (by the argument nranks)");
}

static void split_names_all_ranks_that_have_not_called_it(void **state) {
    (void)state;
    assert_said(SPLIT, 0, "to call collet_comm_split(); these have not: 1, 2");
}

static void split_in_one_process_names_the_rank_that_has_not_called_it(void **state) {
    (void)state;
    assert_said(ALONE, 0, "to call collet_comm_split(); these have not: 1");
}

static void shrink_names_the_rank_that_has_not_called_it(void **state) {
    (void)state;
    assert_said(SHRINK, 0, "for collet_comm_shrink() of rank 2");
    assert_said(SHRINK, 1, "for collet_comm_shrink() of rank 0, which has not said yet who lives");
}

static void grow_names_the_new_rank_that_has_not_come(void **state) {
    (void)state;
    assert_said(GROW, 0, "of 3 ranks these have not come: 2 (by collet_comm_grow())");
}

static void destroy_says_that_another_thread_is_in_a_call(void **state) {
    (void)state;
    assert_said(DESTROY, 0, "to end communicator waits: a call of another thread on it has not returned");
}

static void registering_a_window_names_the_rank_that_does_not(void **state) {
    (void)state;
    assert_said(REGISTER, 0, "rank 1 of 2 has not made it");
}

static void a_wait_for_a_signal_names_the_rank(void **state) {
    (void)state;
    assert_said(SIGNAL, 0, "for a signal of rank 1");
}

static void a_barrier_of_a_launcher_that_does_not_end_is_said(void **state) {
    (void)state;
    assert_said(PMI, 0, "the launcher (PMI_FD) has not answered in time: a rank may be missing (PMI_SIZE=2)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_names_the_ranks_that_have_not_come_and_what_makes_it_believe_in_them),
        cmocka_unit_test(split_names_all_ranks_that_have_not_called_it),
        cmocka_unit_test(split_in_one_process_names_the_rank_that_has_not_called_it),
        cmocka_unit_test(shrink_names_the_rank_that_has_not_called_it),
        cmocka_unit_test(grow_names_the_new_rank_that_has_not_come),
        cmocka_unit_test(destroy_says_that_another_thread_is_in_a_call),
        cmocka_unit_test(registering_a_window_names_the_rank_that_does_not),
        cmocka_unit_test(a_wait_for_a_signal_names_the_rank),
        cmocka_unit_test(a_barrier_of_a_launcher_that_does_not_end_is_said),
    };
    return cmocka_run_group_tests(tests, run_all, remove_logs);
}
