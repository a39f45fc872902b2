/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that die, leave, or fall silent: what the others hear of it, and how they stay connected.
 */
#include "common/boot_case.h"

#include <sys/stat.h>
#include <sys/syscall.h>

/* ------------------------------------------------------------------------------------------------------ deaths, goodbyes */

static int death_nranks, death_victim;
static bool death_leaves_a_child, death_across_hosts;

static void one_dies(int index) {
    struct member member;
    configure(&member);
    member.config.heartbeat = 100;
    member.config.heartbeat_timeout = 500;
    if (death_across_hosts)
        snprintf(member.config.hostid, sizeof member.config.hostid, "host %d", index);
    if (index == 0)
        publish_id();
    join(&member, death_nranks, index);
    EXPECT(poll_init(&member) == COLLET_SUCCESS);
    meet(0, death_nranks);
    if (index == death_victim) {
        if (death_leaves_a_child) {
            int child = fork();
            while (child == 0)
                pause();
            shared->grandchild = child;
        }
        kill(getpid(), SIGKILL);
    }
    await_state(&member, death_victim, death_across_hosts ? PEER_LOST : PEER_DEAD, 2 * SECOND);
    EXPECT(boot_failed(member.boot) == 0); /* a death alone does not fail the communicator */

    /* The others still reach each other, wherever the dead one stood. */
    int number = 0, survivors = death_nranks - 1;
    EXPECT(boot_send(member.boot, death_victim, 8, &number, sizeof number) == COLLET_SUCCESS);
    for (int to = 0; to < death_nranks; to++)
        if (to != death_victim)
            send_number(&member, to, 4, index);
    for (int from = 0; from < death_nranks; from++)
        if (from != death_victim)
            EXPECT(recv_number(&member, from, 4) == from);
    EXPECT(boot_missing_count(member.boot) == 1);
    meet(1, survivors);
    if (index == (death_victim + 1) % death_nranks)
        boot_fail(member.boot, COLLET_ERR_REMOTE, "it died");
    await_failure(&member, COLLET_ERR_REMOTE, "it died");
    meet(2, survivors);
    boot_destroy(member.boot);
}

static void check_death(int nranks, int victim, bool leaves_a_child, bool across_hosts) {
    death_nranks = nranks;
    death_victim = victim;
    death_leaves_a_child = leaves_a_child;
    death_across_hosts = across_hosts;
    run_with_victim(nranks, victim, one_dies);
}

static void a_killed_leaf_is_dead_for_all(void **state) {
    (void)state;
    check_death(5, 4, false, false);
}

static void a_killed_root_of_the_tree_is_dead_for_all_and_replaced(void **state) {
    (void)state;
    check_death(5, 0, false, false);
}

static void a_killed_inner_process_is_dead_for_all_and_its_children_move_up(void **state) {
    (void)state;
    check_death(11, 1, false, false);
}

static void a_killed_process_is_dead_though_its_child_holds_its_sockets(void **state) {
    (void)state;
    check_death(4, 2, true, false);
}

static void a_silent_process_on_another_host_is_lost_though_its_child_holds_its_sockets(void **state) {
    (void)state;
    check_death(4, 0, true, true);
}

/* ------------------------------------------------------------------------------------------- a host that falls silent */

#define SILENT_PROCESSES 6 /* 0 … 5, on one host; two more are on another one, below place 0 in the tree */
#define SILENT_WITHIN_NS (15 * SECOND)

static void watch_a_host_fall_silent(int index) {
    struct member member;
    const int n = SILENT_PROCESSES + 2;
    configure(&member);
    member.config.heartbeat = 100;
    member.config.heartbeat_timeout = 1000;
    snprintf(member.config.hostid, sizeof member.config.hostid, "host %d", index >= SILENT_PROCESSES);
    if (index == 0)
        publish_id();
    join(&member, n, index);
    EXPECT(poll_init(&member) == COLLET_SUCCESS);
    meet(0, n);
    if (index < SILENT_PROCESSES) {
        await(&shared->reached[1], 1);
        raise(SIGSTOP);
        for (;;)
            pause();
    }
    reach(1);
    uint64_t begun_ns = os_now_ns();
    for (int rank = 0; rank < SILENT_PROCESSES; rank++)
        await_state(&member, rank, PEER_LOST, SILENT_WITHIN_NS);
    EXPECT(fair_since_ns(begun_ns) < SILENT_WITHIN_NS);
    EXPECT(boot_peer_state(member.boot, index == n - 1 ? n - 2 : n - 1, NULL) == PEER_ALIVE);
    EXPECT(boot_first_gone(member.boot) >= 0);
    meet(2, 2);
    boot_destroy(member.boot);
}

static void a_silent_host_is_lost_at_once_however_many_processes_it_has(void **state) {
    (void)state;
    pid_t pids[SILENT_PROCESSES + 2];
    int failed = 0;
    for (int i = SILENT_PROCESSES + 1; i >= 0; i--)
        pids[i] = start(i, watch_a_host_fall_silent);
    for (int i = SILENT_PROCESSES + 1; i >= 0; i--) { /* the stopped ones last: only a kill ends them */
        int status;
        if (i < SILENT_PROCESSES)
            kill(pids[i], SIGKILL);
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        failed += i >= SILENT_PROCESSES && status != 0;
    }
    assert_int_equal(failed, 0);
}

/* --------------------------------------------------------------------------------- a network that dies, beside one that lives */

#define SOCKETS_MAX 64
static ino_t dead_sockets[SOCKETS_MAX]; /* of this process */
static int ndead;

/* By name: the watch thread may close a descriptor at any time, and the thread sanitizer takes fstat() of it for a race. */
static ino_t inode_of(int fd) {
    struct stat what;
    char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return stat(name, &what) == 0 && S_ISSOCK(what.st_mode) ? what.st_ino : 0;
}

/* What is sent by those sockets that are open now gets lost. */
static void let_the_network_die(void) {
    int n = 0;
    for (int fd = 0; fd < 1024 && n < SOCKETS_MAX; fd++)
        if (inode_of(fd) != 0)
            dead_sockets[n++] = inode_of(fd);
    __atomic_store_n(&ndead, n, __ATOMIC_RELEASE);
}

ssize_t send(int fd, const void *data, size_t bytes, int flags) {
    const int n = __atomic_load_n(&ndead, __ATOMIC_ACQUIRE);
    for (int k = 0; k < n; k++)
        if (inode_of(fd) == dead_sockets[k])
            return (ssize_t)bytes;
    return syscall(SYS_sendto, fd, data, bytes, flags, NULL, 0);
}

/* Letters that the dead network has swallowed come too. */
static void network_dies(int index) {
    struct member member;
    const int n = 3;
    configure(&member);
    member.config.heartbeat = 100;
    member.config.heartbeat_timeout = 6000;
    snprintf(member.config.hostid, sizeof member.config.hostid, "host %d", index);
    if (index == 0)
        publish_id();
    join(&member, n, index);
    EXPECT(poll_init(&member) == COLLET_SUCCESS);
    meet(0, n);
    exchange_all(&member, n, index, 4); /* now there are links */
    let_the_network_die();
    meet(1, n);
    exchange_all(&member, n, index, 5);
    EXPECT(boot_missing_count(member.boot) == 0 && boot_failed(member.boot) == 0);
    meet(2, n);
    boot_destroy(member.boot);
}

static void processes_whose_network_dies_stay_connected_by_another_one(void **state) {
    (void)state;
    run(3, network_dies);
}

static void one_leaves(int index) {
    struct member member;
    begin(&member, 4, index);
    meet(0, 4);
    if (index == 0) {
        send_number(&member, 3, 5, 42);
        boot_destroy(member.boot);
        return; /* and exits at once: the root of the tree */
    }
    await_state(&member, 0, PEER_LEFT, 2 * SECOND);
    if (index == 3)
        EXPECT(recv_number(&member, 0, 5) == 42); /* what it sent is there */
    for (int to = 1; to < 4; to++)
        send_number(&member, to, 6, index);
    for (int from = 1; from < 4; from++)
        EXPECT(recv_number(&member, from, 6) == from);
    EXPECT(boot_missing_count(member.boot) == 1 && boot_failed(member.boot) == 0);
    EXPECT(boot_peer_state(member.boot, 0, NULL) == PEER_LEFT);
    meet(1, 3);
    boot_destroy(member.boot);
}

static void a_goodbye_is_not_a_death_and_the_others_go_on(void **state) {
    (void)state;
    run(4, one_leaves);
}

static void one_exits_without_a_word(int index) {
    struct member member;
    begin(&member, 3, index);
    meet(0, 3);
    if (index == 1)
        exit(0);
    await_state(&member, 1, PEER_DEAD, 2 * SECOND);
    boot_destroy(member.boot);
}

static void an_exit_without_goodbye_is_a_death(void **state) {
    (void)state;
    run(3, one_exits_without_a_word);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_killed_leaf_is_dead_for_all),
        CASE(a_killed_root_of_the_tree_is_dead_for_all_and_replaced),
        CASE(a_killed_inner_process_is_dead_for_all_and_its_children_move_up),
        CASE(a_killed_process_is_dead_though_its_child_holds_its_sockets),
        CASE(a_silent_process_on_another_host_is_lost_though_its_child_holds_its_sockets),
        CASE(a_silent_host_is_lost_at_once_however_many_processes_it_has),
        CASE(processes_whose_network_dies_stay_connected_by_another_one),
        CASE(a_goodbye_is_not_a_death_and_the_others_go_on),
        CASE(an_exit_without_goodbye_is_a_death),
    };
    return cmocka_run_group_tests_name("boot: deaths", tests, NULL, NULL);
}
