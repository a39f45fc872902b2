/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process keeps of a communicator that its ranks have left: it goes when all others have left, or died, and know of each other.
 */
#include "common/boot_case.h"

/* Doors for children in the tree, among others. */
static int listening_sockets(void) {
    int n = 0;
    for (int fd = 0; fd < 256; fd++) {
        int domain = 0, listens = 0;
        socklen_t bytes = sizeof domain;
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 &&
            getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0)
            n += listens && (domain == AF_INET || domain == AF_INET6);
    }
    return n;
}

static void stop(pid_t pid) {
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    EXPECT(kill(pid, SIGSTOP) == 0);
    for (uint64_t deadline_ns = os_now_ns() + LIMIT_NS; state != 'T'; nap()) {
        FILE *file = fopen(path, "r");
        EXPECT(file != NULL && fscanf(file, "%*d %*s %c", &state) == 1);
        fclose(file);
        EXPECT(os_now_ns() < deadline_ns);
    }
}

/* Rank 0 is the root. Rank 1's goodbye has come to rank 2 by way of it; that of rank 2 dies with it. */
static void goodbyes_cross_a_death(int index) {
    struct member member;
    if (index == 0)
        shared->port = getpid();
    begin(&member, 3, index);
    meet(0, 3);
    if (index == 0)
        for (;;)
            pause();
    if (index == 2) {
        await_state(&member, 1, PEER_LEFT, LIMIT_NS);
        stop(shared->port);
    }
    boot_destroy(member.boot);
    if (index == 2)
        EXPECT(kill(shared->port, SIGKILL) == 0);
    for (uint64_t deadline_ns = os_now_ns() + LIMIT_NS; listening_sockets() > 0; nap())
        EXPECT(os_now_ns() < deadline_ns);
    meet(1, 2); /* the processes live on */
}

static void a_goodbye_that_dies_with_the_root_is_said_again(void **state) {
    (void)state;
    run_with_victim(3, 0, goodbyes_cross_a_death);
}

int main(void) {
    const struct CMUnitTest tests[] = {CASE(a_goodbye_that_dies_with_the_root_is_said_again)};
    return cmocka_run_group_tests_name("boot_goodbyes", tests, NULL, NULL);
}
