/* SPDX-License-Identifier: Apache-2.0
 *
 * Strangers who connect and say nothing. A process gave each of its communicators' doors a quarter of its descriptors for them, so four doors
 * left it none. And sixteen of them kept everybody else from its metrics.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config_read.h"
#include "base/os.h"
#include "boot/id.h"
#include "collet.h"
#include "common/child.h"
#include "common/fair.h"
#include "common/ports.h"
#include "transport/tcp_socket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define DOORS 6
#define DESCRIPTORS 400 /* that the process may have */
#define STRANGERS 120   /* at each door */
#define CLIENTS 16      /* that a server has room for: SERVER_CLIENTS_MAX */
#define LISTENERS 12

static int descriptors(void) {
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    EXPECT(folder != NULL);
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n - 3;
}

static int visit(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    EXPECT(fd >= 0);
    EXPECT(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 || errno == EINPROGRESS);
    return fd;
}

/* A process that connects so often to each port, and is silent until it is killed. */
static pid_t strangers_at(const int *ports, int nports, int each) {
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid != 0)
        return pid;
    fair_alarm(CHILD_LIMIT_S);
    for (int k = 0; k < nports * each; k++)
        visit(ports[k % nports]);
    for (;;)
        pause();
}

static void limit_descriptors(void) {
    const struct rlimit limit = {DESCRIPTORS, DESCRIPTORS};
    EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* ---- doors ---- */

/* The process's own files can be opened all the time, and a rank that comes by any of the doors gets in. */
static void keep_doors(void) {
    struct collet_unique_id ids[DOORS];
    struct id id;
    int ports[DOORS], most = 0;
    for (int k = 0; k < DOORS; k++) {
        EXPECT(collet_get_unique_id(&ids[k]) == COLLET_SUCCESS && id_unpack(&ids[k], &id) == COLLET_SUCCESS);
        ports[k] = id.set.port;
    }
    const pid_t pid = strangers_at(ports, DOORS, STRANGERS);
    limit_descriptors();
    const uint64_t from_ns = os_now_ns(); /* strangers come late if the CPUs are busy */
    for (int k = 0; k < 60 || (most <= DESCRIPTORS / 8 && fair_since_ns(from_ns) < 20000000000u); k++) {
        usleep(50000);
        const int now = descriptors();
        most = now > most ? now : most;
    }
    EXPECT(most > DESCRIPTORS / 8 && most < DESCRIPTORS / 2);
    struct collet_comm *comm;
    const uint64_t begun_ns = os_now_ns();
    EXPECT(collet_comm_init_rank(&comm, 1, ids[DOORS - 1], 0) == COLLET_SUCCESS);
    EXPECT(fair_since_ns(begun_ns) < 5000000000u);
    EXPECT(collet_comm_destroy(comm) == COLLET_SUCCESS);
    kill(pid, SIGKILL);
}
static void strangers_at_all_doors_together_get_a_part_of_the_descriptors(void **state) {
    (void)state;
    child_run(keep_doors);
}

/* A child that was forked while they stood there knows nothing of them. */
static void fork_among_strangers(void) {
    struct collet_unique_id id;
    struct collet_comm *comm;
    struct id where;
    int status;
    EXPECT(collet_get_unique_id(&id) == COLLET_SUCCESS && id_unpack(&id, &where) == COLLET_SUCCESS);
    const pid_t pid = strangers_at((int[]){where.set.port}, 1, STRANGERS);
    usleep(300000);
    const pid_t child = fork();
    if (child == 0) {
        struct collet_unique_id own;
        EXPECT(collet_get_unique_id(&own) == COLLET_SUCCESS);
        EXPECT(collet_comm_init_rank(&comm, 1, own, 0) == COLLET_SUCCESS);
        EXPECT(collet_comm_destroy(comm) == COLLET_SUCCESS);
        _exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    kill(pid, SIGKILL);
}
static void a_forked_child_has_doors_of_its_own(void **state) {
    (void)state;
    child_run(fork_among_strangers);
}

/* ---- sockets of transports ---- */

static void listen_often(void) {
    static struct tcp_listener listeners[LISTENERS];
    struct tcp_offer offer;
    struct config config;
    int ports[LISTENERS], fds[TCP_SOCKETS_MAX];
    EXPECT(config_read(&config) == COLLET_SUCCESS);
    for (int k = 0; k < LISTENERS; k++) {
        EXPECT(tcp_listen_start(&listeners[k], &config, "", 2, &offer) == COLLET_SUCCESS);
        ports[k] = offer.set.port;
    }
    const int own = descriptors();
    const pid_t pid = strangers_at(ports, LISTENERS, 40);
    for (int turn = 0; turn < 200; turn++) {
        for (int k = 0; k < LISTENERS; k++)
            EXPECT(tcp_listen_try(&listeners[k], fds) == COLLET_IN_PROGRESS);
        usleep(5000);
    }
    EXPECT(descriptors() > own && descriptors() <= own + LISTENERS * 4);
    kill(pid, SIGKILL);
}
static void strangers_get_no_more_sockets_than_ranks(void **state) {
    (void)state;
    child_run(listen_often);
}

/* ---- metrics ---- */

static void show_metrics(void) {
    char where[16], page[4096] = "";
    struct collet_unique_id id;
    struct collet_comm *comm;
    const int port = port_free();
    snprintf(where, sizeof(where), "%d", port);
    setenv("COLLET_METRICS", where, 1);
    EXPECT(collet_get_unique_id(&id) == COLLET_SUCCESS);
    EXPECT(collet_comm_init_rank(&comm, 1, id, 0) == COLLET_SUCCESS);
    const pid_t pid = strangers_at(&port, 1, 2 * CLIENTS);
    usleep(500000);
    for (int k = 0; k < 3; k++) {
        const char *question = "GET /metrics HTTP/1.1\r\n\r\n";
        const struct timeval patience = {.tv_sec = 4};
        const int fd = visit(port);
        usleep(100000);
        fcntl(fd, F_SETFL, 0);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        EXPECT(send(fd, question, strlen(question), MSG_NOSIGNAL) == (ssize_t)strlen(question));
        EXPECT(recv(fd, page, sizeof(page) - 1, 0) > 0 && strncmp(page, "HTTP/1.1 200", 12) == 0);
        close(fd);
    }
    kill(pid, SIGKILL);
}
static void silent_clients_make_room_for_who_asks(void **state) {
    (void)state;
    child_run(show_metrics);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_at_all_doors_together_get_a_part_of_the_descriptors),
        cmocka_unit_test(a_forked_child_has_doors_of_its_own),
        cmocka_unit_test(strangers_get_no_more_sockets_than_ranks),
        cmocka_unit_test(silent_clients_make_room_for_who_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
