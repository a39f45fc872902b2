/* SPDX-License-Identifier: Apache-2.0
 *
 * How a rank ended: in order but without collet_comm_destroy(), killed, or destroyed. Before, a process that returned from main() had
 * "died", and nobody said what its last call was. And a rank that failed and ended at once had "died": the news of its failure was
 * not yet sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collet.h"
#include "common/fair.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 3
#define CALLS 3 /* that the last rank makes */

struct shared {
    struct collet_unique_id id;
    int id_is_there;
    char text[RANKS][512];
};

static void leave_in_order(struct collet_comm *comm) {
    (void)comm;
    exit(0);
}
static void be_killed(struct collet_comm *comm) {
    (void)comm;
    raise(SIGKILL);
}
static void destroy(struct collet_comm *comm) {
    collet_comm_destroy(comm);
    sleep(2);
    _exit(0);
}

/* The failure's news is sent by a thread that does not take the CPU from this one. */
static void fail_and_end_at_once(struct collet_comm *comm) {
    collet_comm_revoke(comm);
    _exit(1);
}
static void share_one_cpu(void) {
    const struct sched_param none = {.sched_priority = 0};
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    sched_setscheduler(0, SCHED_BATCH, &none);
}

static void run_rank(struct shared *shared, int rank, void (*end)(struct collet_comm *comm)) {
    struct collet_comm *comm;
    float data = 1;
    enum collet_result result;
    fair_alarm(30);
    if (end == fail_and_end_at_once)
        share_one_cpu();
    if (rank == 0)
        collet_get_unique_id(&shared->id);
    if (rank == 0)
        __atomic_store_n(&shared->id_is_there, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&shared->id_is_there, __ATOMIC_ACQUIRE))
        usleep(1000);
    result = collet_comm_init_rank(&comm, RANKS, shared->id, rank);
    for (int k = 0; result == COLLET_SUCCESS && (rank != RANKS - 1 || k < CALLS); k++)
        result = collet_allreduce(&data, &data, 1, COLLET_FLOAT32, COLLET_SUM, comm, NULL);
    if (result == COLLET_SUCCESS)
        end(comm);
    snprintf(shared->text[rank], sizeof shared->text[rank], "%s", collet_last_error(NULL));
    _exit(0);
}

/* Each rank but the last, which ends so, says both of these words. */
static void assert_says(void (*end)(struct collet_comm *comm), const char *transport, const char *whose,
                        const char *words) {
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[RANKS];
    assert_ptr_not_equal(shared, MAP_FAILED);
    setenv("COLLET_TRANSPORT", transport, 1);
    for (int rank = 0; rank < RANKS; rank++)
        if ((pids[rank] = fork()) == 0)
            run_rank(shared, rank, end);
    for (int rank = 0; rank < RANKS; rank++)
        waitpid(pids[rank], NULL, 0);
    for (int rank = 0; rank < RANKS - 1; rank++) {
        const char *text = shared->text[rank];
        if (strstr(text, whose) == NULL || strstr(text, words) == NULL)
            fail_msg("rank %d was told \"%s\", not \"%s\"", rank, text, words);
    }
    munmap(shared, sizeof *shared);
}

static void assert_told(void (*end)(struct collet_comm *comm), const char *transport, const char *fate,
                        const char *last) {
    char words[160];
    snprintf(words, sizeof words, "%s%s while rank", fate, last);
    assert_says(end, transport, "rank 2 (", words);
}

static void a_process_that_ends_in_order_has_ended_and_its_last_call_is_told(void **state) {
    (void)state;
    assert_told(leave_in_order, "shm", "ended (its process called exit() without collet_comm_destroy())",
                " after its call 3");
    assert_told(leave_in_order, "tcp", "ended (its process called exit() without collet_comm_destroy())",
                " after its call 3");
}

static void a_process_that_is_killed_has_died(void **state) {
    (void)state;
    assert_told(be_killed, "shm", "died (its process was killed, or ended without exit())", "");
}

static void a_rank_that_destroyed_its_communicator_has_left_and_its_last_call_is_told(void **state) {
    (void)state;
    assert_told(destroy, "shm", "left the communicator (it was destroyed there)", " after its call 3");
}

static void a_rank_that_failed_and_ended_at_once_has_said_why(void **state) {
    (void)state;
    assert_says(fail_and_end_at_once, "shm", "learnt from rank 2", "rank 2 called collet_comm_revoke()");
    assert_says(fail_and_end_at_once, "tcp", "learnt from rank 2", "rank 2 called collet_comm_revoke()");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_ends_in_order_has_ended_and_its_last_call_is_told),
        cmocka_unit_test(a_process_that_is_killed_has_died),
        cmocka_unit_test(a_rank_that_destroyed_its_communicator_has_left_and_its_last_call_is_told),
        cmocka_unit_test(a_rank_that_failed_and_ended_at_once_has_said_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
