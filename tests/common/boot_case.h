/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the control plane share: real processes on loopback. Each case that needs more than one forks them before
 * any thread exists; rank 0 makes the id and hands it over in a page that all share.
 */
#ifndef COLLET_TESTS_BOOT_CASE_H
#define COLLET_TESTS_BOOT_CASE_H

#include "base/config_read.h"
#include "base/err.h"
#include "boot/boot.h"
#include "boot/hub.h"
#include "boot/id.h"
#include "boot/tree.h"
#include "boot/watch.h"
#include "common/fair.h"
#include "common/local_boots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* There if the sanitizer is. */
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));

#define PROCESSES_MAX 16
#define SECOND 1000000000ull
#define LIMIT_NS (20 * SECOND) /* of any wait in a child */

/* What the processes of a case share. */
struct shared {
    struct collet_unique_id id;
    int id_ready, reached[8]; /* barriers */
    int grandchild, port;
};

static struct shared *shared;

/* ------------------------------------------------------------------------------------------------ processes of a case */

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: process %d: expected %s (last error: %s)\n", __FILE__, __LINE__, my_index,         \
                    #condition, err_last());                                                                           \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static int my_index;

static inline void nap(void) { usleep(1000); }

static inline void reach(int barrier) { __atomic_fetch_add(&shared->reached[barrier], 1, __ATOMIC_SEQ_CST); }

static inline void await(const int *word, int value) {
    uint64_t deadline_ns = fair_now_ns() + LIMIT_NS;
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) < value) {
        EXPECT(fair_now_ns() < deadline_ns);
        nap();
    }
}

static inline void meet(int barrier, int count) {
    reach(barrier);
    await(&shared->reached[barrier], count);
}

static inline void publish_id(void) {
    EXPECT(boot_unique_id(&shared->id) == COLLET_SUCCESS);
    __atomic_store_n(&shared->id_ready, 1, __ATOMIC_SEQ_CST);
}

static inline pid_t start(int index, void (*body)(int index)) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        my_index = index;
        body(index);
        exit(0);
    }
    return pid;
}

/* Runs body in n processes; each must exit with 0, but for the victim, which must be killed by SIGKILL. */
static inline void run_with_victim(int n, int victim, void (*body)(int index)) {
    pid_t pids[PROCESSES_MAX];
    for (int i = 0; i < n; i++)
        pids[i] = start(i, body);
    int failed = 0;
    for (int i = 0; i < n; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        bool right = i == victim ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                 : WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (!right)
            print_error("process %d ended with status 0x%x\n", i, status);
        failed += !right;
    }
    if (shared->grandchild != 0)
        kill(shared->grandchild, SIGKILL);
    assert_int_equal(failed, 0);
}

static inline void run(int n, void (*body)(int index)) { run_with_victim(n, -1, body); }

static inline int set_up(void **state) {
    (void)state;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED;
}

static inline int tear_down(void **state) {
    (void)state;
    return munmap(shared, sizeof *shared);
}

/* ---------------------------------------------------------------------------------------------------------- one rank */

struct member {
    struct config config;
    struct boot *boot;
    enum collet_result result;
};

static inline void configure(struct member *member) {
    EXPECT(config_read(&member->config) == COLLET_SUCCESS);
    member->config.init_timeout = 15;
}

static inline enum collet_result poll_init(struct member *member) {
    uint64_t deadline_ns = fair_now_ns() + LIMIT_NS;
    while ((member->result = boot_try_init(member->boot)) == COLLET_IN_PROGRESS) {
        EXPECT(fair_now_ns() < deadline_ns);
        nap();
    }
    return member->result;
}

static const struct boot_self on_host = {.device = COLLET_DEVICE_HOST};

static inline void join(struct member *member, int nranks, int rank) {
    const struct boot_self self = {.device = rank + 100};
    await(&shared->id_ready, 1);
    EXPECT(boot_join(&shared->id, nranks, rank, &self, &member->config, &member->boot) == COLLET_SUCCESS);
}

/* Rank `index` of n, in its own process, with an id by rank 0. */
static inline void begin(struct member *member, int n, int index) {
    configure(member);
    if (index == 0)
        publish_id();
    join(member, n, index);
    EXPECT(poll_init(member) == COLLET_SUCCESS);
}

static inline void send_number(struct member *member, int to, uint64_t key, int number) {
    EXPECT(boot_send(member->boot, to, key, &number, sizeof number) == COLLET_SUCCESS);
}

static inline int recv_number(struct member *member, int from, uint64_t key) {
    int number;
    size_t bytes = 0;
    uint64_t deadline_ns = fair_now_ns() + LIMIT_NS;
    enum collet_result result;
    while ((result = boot_try_recv(member->boot, from, key, &number, sizeof number, &bytes)) == COLLET_IN_PROGRESS) {
        EXPECT(fair_now_ns() < deadline_ns);
        EXPECT(boot_failed(member->boot) == 0);
        nap();
    }
    EXPECT(result == COLLET_SUCCESS && bytes == sizeof number);
    return number;
}

static inline void exchange_all(struct member *member, int n, int rank, uint64_t key) {
    for (int to = 0; to < n; to++)
        for (int i = 0; i < 3; i++)
            send_number(member, to, key, 1000 * rank + 10 * to + i);
    for (int from = 0; from < n; from++)
        for (int i = 0; i < 3; i++)
            EXPECT(recv_number(member, from, key) == 1000 * from + 10 * rank + i);
}

static inline void await_state(struct member *member, int rank, enum peer_state state, uint64_t within_ns) {
    uint64_t deadline_ns = fair_now_ns() + within_ns, since_ns = 0;
    while (boot_peer_state(member->boot, rank, &since_ns) == PEER_ALIVE) {
        EXPECT(fair_now_ns() < deadline_ns);
        nap();
    }
    EXPECT(boot_peer_state(member->boot, rank, &since_ns) == state);
    EXPECT(since_ns != 0 && boot_missing_count(member->boot) >= 1);
}

static inline void await_failure(struct member *member, enum collet_result code, const char *text) {
    uint64_t deadline_ns = fair_now_ns() + 2 * SECOND;
    while (boot_failed(member->boot) == 0) {
        EXPECT(fair_now_ns() < deadline_ns);
        nap();
    }
    EXPECT(boot_failed(member->boot) == (int)code);
    EXPECT(strcmp(boot_failed_text(member->boot), text) == 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
