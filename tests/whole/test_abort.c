/* SPDX-License-Identifier: Apache-2.0
 *
 * collet_comm_abort() by another thread, in each state that a communicator may be in: it returns soon, what it found under way
 * ends, and nothing stays behind.
 *
 *    thread 1    a call that waits for rank 1, which makes none ─ ─ ─ ─▶ COLLET_ERR_ABORTED
 *    thread 2                      abort ─▶ returns
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collet.h"
#include "common/fair.h"
#include "common/level.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ABORT_MS (2000 * LEVEL_SLOWER)

/* What the rank is in, and how that ends. */
struct state {
    const char *name;
    enum collet_result (*enter)(struct collet_comm *comm, struct collet_comm *other);
    enum collet_result ends;
};

static enum collet_result sum(struct collet_comm *comm, struct collet_stream *stream) {
    static __thread int x;
    return collet_allreduce(&x, &x, 1, COLLET_INT32, COLLET_SUM, comm, stream);
}

static enum collet_result be_idle(struct collet_comm *comm, struct collet_comm *other) {
    (void)comm, (void)other;
    return COLLET_SUCCESS;
}

static enum collet_result wait_in_a_call(struct collet_comm *comm, struct collet_comm *other) {
    (void)other;
    return sum(comm, NULL);
}

static enum collet_result wait_for_a_message(struct collet_comm *comm, struct collet_comm *other) {
    int x;
    (void)other;
    return collet_recv(&x, 1, COLLET_INT32, 1, comm, NULL);
}

/* The call of the other communicator could be made. */
static enum collet_result wait_in_a_group(struct collet_comm *comm, struct collet_comm *other) {
    collet_group_start();
    sum(comm, NULL);
    sum(other, NULL);
    return collet_group_end();
}

static enum collet_result wait_for_a_stream(struct collet_comm *comm, struct collet_comm *other) {
    struct collet_stream *stream;
    (void)other;
    enum collet_result result = collet_stream_create(&stream);
    for (int k = 0; k < 3 && result == COLLET_SUCCESS; k++)
        result = sum(comm, stream);
    if (result == COLLET_SUCCESS)
        result = collet_stream_synchronize(stream);
    collet_stream_destroy(stream);
    return result;
}

static enum collet_result wait_for_a_split(struct collet_comm *comm, struct collet_comm *other) {
    struct collet_comm *child;
    (void)other;
    return collet_comm_split(comm, 0, 0, &child, NULL);
}

static enum collet_result wait_for_a_window(struct collet_comm *comm, struct collet_comm *other) {
    static char memory[1 << 16];
    struct collet_window *window;
    (void)other;
    return collet_win_register(comm, memory, sizeof memory, &window);
}

static enum collet_result be_finalized(struct collet_comm *comm, struct collet_comm *other) {
    (void)other;
    return collet_comm_finalize(comm);
}

static enum collet_result be_revoked(struct collet_comm *comm, struct collet_comm *other) {
    (void)other;
    return collet_comm_revoke(comm);
}

static enum collet_result have_failed(struct collet_comm *comm, struct collet_comm *other) {
    int x;
    (void)other;
    collet_comm_revoke(comm);
    return collet_recv(&x, 1, COLLET_INT32, 1, comm, NULL);
}

static const struct state states[] = {
    {"idle", be_idle, COLLET_SUCCESS},
    {"in a call", wait_in_a_call, COLLET_ERR_ABORTED},
    {"in a receive", wait_for_a_message, COLLET_ERR_ABORTED},
    {"in a group with another", wait_in_a_group, COLLET_ERR_ABORTED},
    {"with calls on a stream", wait_for_a_stream, COLLET_ERR_ABORTED},
    {"in a split", wait_for_a_split, COLLET_ERR_ABORTED},
    {"while a window is registered", wait_for_a_window, COLLET_ERR_ABORTED},
    {"finalized", be_finalized, COLLET_SUCCESS},
    {"revoked", be_revoked, COLLET_SUCCESS},
    {"failed", have_failed, COLLET_ERR_ABORTED},
};
#define STATES (sizeof(states) / sizeof(*states))

struct visit {
    const struct state *state;
    struct collet_comm *comm, *other;
    enum collet_result result;
};

static void *enter(void *argument) {
    struct visit *visit = argument;
    visit->result = visit->state->enter(visit->comm, visit->other);
    return NULL;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void abort_in_time(struct collet_comm *comm, const char *name) {
    const uint64_t start_ns = now_ns();
    const enum collet_result result = collet_comm_abort(comm);
    const int ms = (int)(fair_since_ns(start_ns) / 1000000);
    if (result != COLLET_SUCCESS || ms > ABORT_MS)
        fail_msg("%s: abort took %d ms: %s", name, ms, collet_error_string(result));
}

/* Whether the thread has come to its wait by then or not: both must be fine. */
static void abort_while(const struct state *state, int delay_us) {
    struct collet_comm *comms[2], *other;
    pthread_t thread;
    assert_int_equal(collet_comm_init_all(comms, 2, NULL), COLLET_SUCCESS);
    assert_int_equal(collet_comm_init_all(&other, 1, NULL), COLLET_SUCCESS);
    struct visit visit = {.state = state, .comm = comms[0], .other = other};
    assert_int_equal(pthread_create(&thread, NULL, enter, &visit), 0);
    usleep((useconds_t)delay_us);
    if (state->ends == COLLET_SUCCESS)
        pthread_join(thread, NULL);
    abort_in_time(comms[0], state->name);
    if (state->ends != COLLET_SUCCESS)
        pthread_join(thread, NULL);
    const bool late = visit.result == COLLET_ERR_INVALID_ARGUMENT; /* it began when the communicator was no more */
    if (visit.result != state->ends && !late)
        fail_msg("%s: it ended with %s", state->name, collet_error_string(visit.result));
    abort_in_time(comms[1], state->name);
    assert_int_equal(collet_comm_destroy(other), COLLET_SUCCESS);
}

static void abort_while_joining(void) {
    struct collet_config config = {.size = sizeof(config), .nonblocking = 1};
    struct collet_unique_id id;
    struct collet_comm *comm;
    assert_int_equal(collet_get_unique_id(&id), COLLET_SUCCESS);
    assert_int_equal(collet_comm_init_rank_config(&comm, 2, id, 0, &config), COLLET_IN_PROGRESS);
    abort_in_time(comm, "while joining");
}

static int count(const char *folder) {
    DIR *directory = opendir(folder);
    int n = 0;
    while (directory != NULL && readdir(directory) != NULL)
        n++;
    if (directory != NULL)
        closedir(directory);
    return n;
}

/* Of descriptors and threads, some go a moment later. */
static void await_no_more_than(const char *folder, int most) {
    const uint64_t limit_ns = fair_now_ns() + LEVEL_SOON_NS;
    while (count(folder) > most && fair_now_ns() < limit_ns)
        usleep(10000);
    if (count(folder) > most)
        fail_msg("%s has %d entries, and had %d", folder, count(folder), most);
}

static void an_abort_returns_soon_in_each_state_and_leaves_nothing(void **state) {
    (void)state;
    int fds = 0, threads = 0;
    for (int round = 0; round < 4; round++) {
        for (size_t k = 0; k < STATES; k++)
            abort_while(&states[k], round % 2 ? 20000 : 0);
        if (round == 1) { /* what a process has one of is made */
            fds = count("/proc/self/fd");
            threads = count("/proc/self/task");
        }
    }
    await_no_more_than("/proc/self/fd", fds);
    await_no_more_than("/proc/self/task", threads);
}

/* ---- a call that does not come back ---- */

static int held, released;

/* In the thread of the call, in the middle of it: it goes no further, and keeps what it has. */
static void hold(int signal) {
    (void)signal;
    __atomic_store_n(&held, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&released, __ATOMIC_ACQUIRE))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void an_abort_returns_soon_though_a_call_does_not_come_back(void **state) {
    (void)state;
    struct collet_comm *comms[2];
    pthread_t thread;
    const struct sigaction action = {.sa_handler = hold};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    assert_int_equal(collet_comm_init_all(comms, 2, NULL), COLLET_SUCCESS);
    struct visit visit = {.state = &states[1], .comm = comms[0]};
    assert_int_equal(pthread_create(&thread, NULL, enter, &visit), 0);
    usleep(50000); /* for its way into the call; if it takes longer, nobody is held up */
    assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
    while (!__atomic_load_n(&held, __ATOMIC_ACQUIRE))
        usleep(1000);
    abort_in_time(comms[0], "in a call that does not come back");
    __atomic_store_n(&released, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    assert_int_equal(visit.result, COLLET_ERR_ABORTED);
    abort_in_time(comms[0], "with the memory that the first abort kept");
    abort_in_time(comms[1], "the other rank");
}

/* ---- a dump that nobody reads ---- */

struct dump {
    struct collet_comm *comm;
    int fd;
    enum collet_result result;
};

static void *write_dump(void *argument) {
    struct dump *dump = argument;
    dump->result = collet_comm_dump(dump->comm, dump->fd);
    return NULL;
}

/* No byte fits into it. */
static void make_full_pipe(int ends[2]) {
    static const char nothing[4096];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    for (size_t bytes = sizeof nothing; bytes > 0; bytes /= 2)
        while (write(ends[1], nothing, bytes) > 0)
            ;
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
}

static void an_abort_returns_soon_though_nobody_reads_a_dump(void **state) {
    (void)state;
    static char text[1 << 20]; /* as much as a pipe takes, and more */
    struct collet_comm *comms[2];
    pthread_t thread;
    int ends[2];
    make_full_pipe(ends);
    assert_int_equal(collet_comm_init_all(comms, 2, NULL), COLLET_SUCCESS);
    struct dump dump = {.comm = comms[0], .fd = ends[1]};
    assert_int_equal(pthread_create(&thread, NULL, write_dump, &dump), 0);
    usleep(50000); /* for its way into the dump; if it takes longer, nobody is held up */
    abort_in_time(comms[0], "in a dump that nobody reads");
    assert_true(read(ends[0], text, sizeof text) > 0);
    pthread_join(thread, NULL);
    assert_true(dump.result == COLLET_SUCCESS || dump.result == COLLET_ERR_INVALID_ARGUMENT); /* it began too late */
    abort_in_time(comms[1], "the other rank");
    close(ends[0]);
    close(ends[1]);
}

static void an_abort_returns_soon_while_ranks_are_missing(void **state) {
    (void)state;
    abort_while_joining();
    const int fds = count("/proc/self/fd"), threads = count("/proc/self/task");
    for (int k = 0; k < 5; k++)
        abort_while_joining();
    await_no_more_than("/proc/self/fd", fds);
    await_no_more_than("/proc/self/task", threads);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_abort_returns_soon_in_each_state_and_leaves_nothing),
        cmocka_unit_test(an_abort_returns_soon_while_ranks_are_missing),
        cmocka_unit_test(an_abort_returns_soon_though_a_call_does_not_come_back),
        cmocka_unit_test(an_abort_returns_soon_though_nobody_reads_a_dump),
    };
    setenv("COLLET_INIT_TIMEOUT", "1", 1); /* so long a meeting point stays for those that come late */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
