/* SPDX-License-Identifier: Apache-2.0
 *
 * A fork() in the middle of a process's first init, while a thread has a lock of the process: the child may make a communicator of
 * its own, and that works.
 *
 *    thread 1    init ─▶ loads a net plugin, which is not there ─▶ goes on without it
 *    thread 2                └─▶ fork() ─▶ child: an init and a sum of its own; SIGALRM if it hangs
 */
#include "collet.h"
#include "common/fair.h"
#include "common/level.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HANG_S (20 * LEVEL_SLOWER)
#define PLUGIN "there-is-none"
#define NAPS 100 /* of a millisecond, for a fork() that does not wait */

static int loading, forking, forked; /* how far the threads are */

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }
static int is_set(const int *flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }
static void set(int *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELEASE); }

/* The linker leads the library's calls here (mk/programs.mk). */
void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags) {
    if (name != NULL && strstr(name, PLUGIN) != NULL && !is_set(&loading)) {
        set(&loading);
        while (!is_set(&forking))
            nap();
        for (int k = 0; k < NAPS && !is_set(&forked); k++)
            nap();
    }
    return __real_dlopen(name, flags);
}

static int live_as_child(void) {
    struct collet_comm *own;
    int one = 1, got = 0;
    fair_alarm(HANG_S);
    if (collet_comm_init_all(&own, 1, NULL) != COLLET_SUCCESS)
        return 1;
    if (collet_allreduce(&one, &got, 1, COLLET_INT32, COLLET_SUM, own, NULL) != COLLET_SUCCESS || got != 1)
        return 2;
    return collet_comm_destroy(own) != COLLET_SUCCESS;
}

static void *fork_while_loading(void *status_) {
    int *status = status_;
    while (!is_set(&loading))
        nap();
    set(&forking);
    const pid_t child = fork();
    if (child == 0)
        _exit(live_as_child());
    set(&forked);
    if (child < 0 || waitpid(child, status, 0) != child)
        *status = -1;
    return NULL;
}

int main(void) {
    struct collet_unique_id id;
    struct collet_comm *comm;
    pthread_t thread;
    int status = -1;
    if (LEVEL_WATCHES_THREADS)
        return 77; /* it forbids the child threads of its own */
    setenv("COLLET_NET_PLUGIN", PLUGIN, 1);
    const int begun = pthread_create(&thread, NULL, fork_while_loading, &status) == 0 &&
                      collet_get_unique_id(&id) == COLLET_SUCCESS &&
                      collet_comm_init_rank(&comm, 1, id, 0) == COLLET_SUCCESS;
    if (begun)
        pthread_join(thread, NULL);
    const int failed = !begun || status != 0 || collet_comm_destroy(comm) != COLLET_SUCCESS;
    if (failed)
        printf("the init %s; the child has status 0x%x\n", begun ? "worked" : "failed", (unsigned)status);
    printf("%d passed, %d failed\n", !failed, failed);
    return failed;
}
