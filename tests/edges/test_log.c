/* SPDX-License-Identifier: Apache-2.0
 *
 * Standard error is a pipe that nobody empties: a pager that was paused. Whoever wrote a line of the log waited without end: a failing call,
 * an abort, and the thread that sees deaths, which a stranger made write. Now lines are lost, and counted.
 *
 *      the library ── lines ──▶ ▓▓▓▓▓▓▓▓ full            this program, which reads when a case says so
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/os.h"
#include "boot/id.h"
#include "collet.h"
#include "common/child.h"
#include "common/fair.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND 1000000000ull

static int reader; /* of standard error; −1: nobody reads */

static void make_stderr_a_pipe(void) {
    int ends[2];
    EXPECT(pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    close(ends[1]);
    reader = ends[0];
}

/* Nothing more goes in; the descriptor stays as the program has it, one that waits. */
static void fill_stderr(void) {
    static const char much[1 << 16];
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
    while (write(STDERR_FILENO, much, sizeof(much)) > 0 || write(STDERR_FILENO, much, 1) > 0)
        ;
    fcntl(STDERR_FILENO, F_SETFL, flags);
}

/* What came since, without the filling. */
static void read_stderr(char *text, size_t room) {
    size_t used = 0;
    char byte;
    fcntl(reader, F_SETFL, O_NONBLOCK);
    while (read(reader, &byte, 1) == 1)
        if (byte != '\0' && used < room - 1)
            text[used++] = byte;
    text[used] = '\0';
}

static struct collet_comm *comm_alone(void) {
    struct collet_unique_id id;
    struct collet_comm *comm;
    EXPECT(collet_get_unique_id(&id) == COLLET_SUCCESS);
    EXPECT(collet_comm_init_rank(&comm, 1, id, 0) == COLLET_SUCCESS);
    return comm;
}

/* ---- lines ---- */

static void lose_lines(void) {
    char text[4096];
    make_stderr_a_pipe();
    fill_stderr();
    for (int k = 0; k < 7; k++)
        log_always(ENV, "line %d", k);
    EXPECT((fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK) == 0);
    read_stderr(text, sizeof(text));
    EXPECT(text[0] == '\0');
    log_always(ENV, "the next line");
    read_stderr(text, sizeof(text));
    EXPECT(strstr(text, "7 lines were lost, since the log took no more\n") != NULL);
    EXPECT(strstr(text, "the next line\n") > strstr(text, "7 lines"));
    log_always(ENV, "another line");
    read_stderr(text, sizeof(text));
    EXPECT(strstr(text, "lost") == NULL && strstr(text, "another line\n") != NULL);
}
static void lines_that_a_full_log_does_not_take_are_counted(void **state) {
    (void)state;
    child_run(lose_lines);
}

static void fill_a_socket(void) {
    int ends[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    fill_stderr();
    log_always(ENV, "a line");
    close(ends[0]);
    log_always(ENV, "a line to nobody");
}
static void a_log_that_is_a_full_socket_holds_up_nobody(void **state) {
    (void)state;
    child_run(fill_a_socket);
}

static void log_to_nobody(void) {
    make_stderr_a_pipe();
    close(reader);
    log_always(ENV, "a line");
    signal(SIGPIPE, SIG_IGN);
    log_always(ENV, "a line");
    sigset_t blocked, pending;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGPIPE);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    log_always(ENV, "a line");
    EXPECT(sigpending(&pending) == 0 && !sigismember(&pending, SIGPIPE));
    EXPECT(collet_comm_dump(comm_alone(), STDERR_FILENO) == COLLET_ERR_SYSTEM);
}
static void a_log_that_nobody_reads_kills_nobody(void **state) {
    (void)state;
    child_run(log_to_nobody);
}

static void record_to_nobody(void) {
    char path[64];
    int32_t value = 1;
    snprintf(path, sizeof(path), "/tmp/collet-edges-%d", getpid());
    EXPECT(mkfifo(path, 0600) == 0);
    setenv("COLLET_RECORD", path, 1);
    const int fd = open(path, O_RDONLY | O_NONBLOCK);
    struct collet_comm *comm = comm_alone();
    EXPECT(fd >= 0 && unlink(path) == 0);
    close(fd);
    EXPECT(collet_allreduce(&value, &value, 1, COLLET_INT32, COLLET_SUM, comm, NULL) == COLLET_SUCCESS);
    EXPECT(collet_comm_destroy(comm) == COLLET_SUCCESS);
}
static void records_that_nobody_reads_kill_nobody(void **state) {
    (void)state;
    child_run(record_to_nobody);
}

/* ---- duties ---- */

/* Rank 0 waits for rank 1, which does not call. That it fails is said in the log. */
static void *call(void *comm) {
    int32_t value = 1;
    EXPECT(collet_allreduce(&value, &value, 1, COLLET_INT32, COLLET_SUM, comm, NULL) == COLLET_ERR_TIMEOUT);
    return NULL;
}

static void abort_with_a_full_log(void) {
    struct collet_unique_id id;
    struct collet_comm *comms[2];
    pthread_t thread;
    setenv("COLLET_DEBUG", "INFO", 1);
    setenv("COLLET_TIMEOUT", "1", 1);
    make_stderr_a_pipe();
    EXPECT(collet_get_unique_id(&id) == COLLET_SUCCESS && collet_group_start() == COLLET_SUCCESS);
    for (int rank = 0; rank < 2; rank++)
        EXPECT(collet_comm_init_rank(&comms[rank], 2, id, rank) == COLLET_SUCCESS);
    EXPECT(collet_group_end() == COLLET_SUCCESS);
    EXPECT(pthread_create(&thread, NULL, call, comms[0]) == 0);
    fill_stderr();
    usleep(1600000);
    for (int rank = 0; rank < 2; rank++) {
        const uint64_t begun_ns = os_now_ns();
        EXPECT(collet_comm_abort(comms[rank]) == COLLET_SUCCESS);
        EXPECT(fair_since_ns(begun_ns) < 2 * SECOND);
    }
    pthread_join(thread, NULL);
}
static void an_abort_returns_whatever_the_log_does(void **state) {
    (void)state;
    child_run(abort_with_a_full_log);
}

/* A pipe by name, which somebody has open and does not read: then nobody has it open. */
static void abort_with_a_dump_into_a_pipe(void) {
    char path[64];
    snprintf(path, sizeof(path), "/tmp/collet-edges-%d", getpid());
    EXPECT(mkfifo(path, 0600) == 0);
    setenv("COLLET_DUMP_FILE", path, 1);
    for (int opened = 1; opened >= 0; opened--) {
        const int fd = opened ? open(path, O_RDWR | O_NONBLOCK) : -1;
        static const char much[1 << 16];
        while (opened && (write(fd, much, sizeof(much)) > 0 || write(fd, much, 1) > 0))
            ;
        struct collet_comm *comm = comm_alone();
        const uint64_t begun_ns = os_now_ns();
        EXPECT(collet_comm_abort(comm) == COLLET_SUCCESS);
        EXPECT(fair_since_ns(begun_ns) < 2 * SECOND);
        close(fd);
    }
    unlink(path);
}
static void an_abort_returns_whatever_its_dump_does(void **state) {
    (void)state;
    child_run(abort_with_a_dump_into_a_pipe);
}

static int visit(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval patience = {.tv_sec = 3};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
}

/* What the server says first. */
static void take_greeting(int fd) {
    char byte;
    EXPECT(recv(fd, &byte, 1, 0) == 1);
}

static void refuse_strangers_with_a_full_log(void) {
    struct collet_unique_id packed;
    struct id id;
    setenv("COLLET_DEBUG", "INFO", 1);
    make_stderr_a_pipe();
    EXPECT(collet_get_unique_id(&packed) == COLLET_SUCCESS && id_unpack(&packed, &id) == COLLET_SUCCESS);
    fill_stderr();
    for (int k = 0; k < 3; k++) {
        char nonsense[256] = {0}, rest[256];
        const int fd = visit(id.set.port);
        take_greeting(fd);
        EXPECT(send(fd, nonsense, sizeof(nonsense), MSG_NOSIGNAL) == (ssize_t)sizeof(nonsense));
        while (recv(fd, rest, sizeof(rest), 0) > 0) /* until it is refused, which the log would say */
            ;
    }
    take_greeting(visit(id.set.port));
}
static void a_stranger_does_not_stop_the_watch_with_a_full_log(void **state) {
    (void)state;
    child_run(refuse_strangers_with_a_full_log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_that_a_full_log_does_not_take_are_counted),
        cmocka_unit_test(a_log_that_is_a_full_socket_holds_up_nobody),
        cmocka_unit_test(a_log_that_nobody_reads_kills_nobody),
        cmocka_unit_test(records_that_nobody_reads_kill_nobody),
        cmocka_unit_test(an_abort_returns_whatever_the_log_does),
        cmocka_unit_test(an_abort_returns_whatever_its_dump_does),
        cmocka_unit_test(a_stranger_does_not_stop_the_watch_with_a_full_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
