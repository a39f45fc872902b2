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
    for (uint64_t deadline_ns = fair_now_ns() + LIMIT_NS; state != 'T'; nap()) {
        FILE *file = fopen(path, "r");
        EXPECT(file != NULL && fscanf(file, "%*d %*s %c", &state) == 1);
        fclose(file);
        EXPECT(fair_now_ns() < deadline_ns);
    }
}

static void let_go(void) {
    for (uint64_t deadline_ns = fair_now_ns() + LIMIT_NS; listening_sockets() > 0; nap())
        EXPECT(fair_now_ns() < deadline_ns);
}

static bool root_leaves_first;

/* Rank 0 is the root. Rank 1's goodbye has come to rank 2 by way of it; that of rank 2 dies with it. */
static void goodbyes_cross_a_death(int index) {
    struct member member;
    if (index == 0)
        shared->port = getpid();
    begin(&member, 3, index);
    meet(0, 3);
    if (index == 0 && root_leaves_first)
        boot_destroy(member.boot);
    while (index == 0)
        pause();
    if (root_leaves_first)
        await_state(&member, 0, PEER_LEFT, LIMIT_NS);
    if (index == 2) {
        await_state(&member, 1, PEER_LEFT, LIMIT_NS);
        stop(shared->port);
    }
    boot_destroy(member.boot);
    if (index == 2 && root_leaves_first)
        let_go();
    if (index == 2)
        EXPECT(kill(shared->port, SIGKILL) == 0);
    let_go();
    meet(1, 2); /* the processes live on */
}

static void a_goodbye_that_dies_with_the_root_is_said_again(void **state) {
    (void)state;
    root_leaves_first = false;
    run_with_victim(3, 0, goodbyes_cross_a_death);
}

/* The root has its goodbye, and has passed nothing on. */
static void a_process_that_will_never_come_again_is_not_waited_for(void **state) {
    (void)state;
    root_leaves_first = true;
    run_with_victim(3, 0, goodbyes_cross_a_death);
}

enum { LAST_LETTERS = 100 };

/* Rank 2 leaves while its first connection to rank 1 is made. */
static void leave_after_letters(int index) {
    struct member member;
    begin(&member, 3, index);
    meet(0, 3);
    for (int k = 0; index == 2 && k < LAST_LETTERS; k++)
        send_number(&member, 1, 7, k);
    const uint64_t begun_ns = os_now_ns();
    if (index == 2) {
        boot_destroy(member.boot);
        shared->port = os_now_ns() - begun_ns < BOOT_LETTERS_NS; /* a goodbye waits no longer */
    }
    if (index == 1)
        await_state(&member, 2, PEER_LEFT, LIMIT_NS);
    int ncome = 0, number;
    size_t bytes;
    while (index == 1 && ncome < LAST_LETTERS &&
           boot_try_recv(member.boot, 2, 7, &number, sizeof number, &bytes) == COLLET_SUCCESS && number == ncome)
        ncome++;
    meet(1, 3);
    EXPECT(index != 1 || ncome == LAST_LETTERS || shared->port == 0);
    if (index != 2)
        boot_destroy(member.boot);
}

static void a_goodbye_comes_after_the_letters(void **state) {
    (void)state;
    run(3, leave_after_letters);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_goodbye_that_dies_with_the_root_is_said_again),
        CASE(a_process_that_will_never_come_again_is_not_waited_for),
        CASE(a_goodbye_comes_after_the_letters),
    };
    return cmocka_run_group_tests_name("boot_goodbyes", tests, NULL, NULL);
}
