/* SPDX-License-Identifier: Apache-2.0
 *
 * The control plane among real processes on loopback. Each case that needs more than one forks them before any thread
 * exists; rank 0 makes the id and hands it over in a page that all share.
 */
#include "base/config.h"
#include "base/err.h"
#include "base/os.h"
#include "boot/boot.h"
#include "boot/courier.h"
#include "boot/hub.h"
#include "boot/id.h"
#include "boot/places.h"
#include "boot/watch.h"
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

static void nap(void) { usleep(1000); }

static void reach(int barrier) { __atomic_fetch_add(&shared->reached[barrier], 1, __ATOMIC_SEQ_CST); }

static void await(const int *word, int value) {
    uint64_t deadline_ns = os_now_ns() + LIMIT_NS;
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) < value) {
        EXPECT(os_now_ns() < deadline_ns);
        nap();
    }
}

static void meet(int barrier, int count) {
    reach(barrier);
    await(&shared->reached[barrier], count);
}

static void publish_id(void) {
    EXPECT(boot_unique_id(&shared->id) == COLLET_SUCCESS);
    __atomic_store_n(&shared->id_ready, 1, __ATOMIC_SEQ_CST);
}

static pid_t start(int index, void (*body)(int index)) {
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
static void run_with_victim(int n, int victim, void (*body)(int index)) {
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

static void run(int n, void (*body)(int index)) { run_with_victim(n, -1, body); }

static int set_up(void **state) {
    (void)state;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED;
}

static int tear_down(void **state) {
    (void)state;
    return munmap(shared, sizeof *shared);
}

/* ---------------------------------------------------------------------------------------------------------- one rank */

struct member {
    struct config config;
    struct boot *boot;
    enum collet_result result;
};

static void configure(struct member *member) {
    EXPECT(config_read(&member->config) == COLLET_SUCCESS);
    member->config.init_timeout = 15;
}

static enum collet_result poll_init(struct member *member) {
    uint64_t deadline_ns = os_now_ns() + LIMIT_NS;
    while ((member->result = boot_try_init(member->boot)) == COLLET_IN_PROGRESS) {
        EXPECT(os_now_ns() < deadline_ns);
        nap();
    }
    return member->result;
}

static const struct boot_self on_host = {.device = COLLET_DEVICE_HOST};

static void join(struct member *member, int nranks, int rank) {
    const struct boot_self self = {.device = rank + 100};
    await(&shared->id_ready, 1);
    EXPECT(boot_join(&shared->id, nranks, rank, &self, &member->config, &member->boot) == COLLET_SUCCESS);
}

/* Rank `index` of n, in its own process, with an id by rank 0. */
static void begin(struct member *member, int n, int index) {
    configure(member);
    if (index == 0)
        publish_id();
    join(member, n, index);
    EXPECT(poll_init(member) == COLLET_SUCCESS);
}

static void send_number(struct member *member, int to, uint64_t key, int number) {
    EXPECT(boot_send(member->boot, to, key, &number, sizeof number) == COLLET_SUCCESS);
}

static int recv_number(struct member *member, int from, uint64_t key) {
    int number;
    size_t bytes = 0;
    uint64_t deadline_ns = os_now_ns() + LIMIT_NS;
    enum collet_result result;
    while ((result = boot_try_recv(member->boot, from, key, &number, sizeof number, &bytes)) == COLLET_IN_PROGRESS) {
        EXPECT(os_now_ns() < deadline_ns);
        EXPECT(boot_failed(member->boot) == 0);
        nap();
    }
    EXPECT(result == COLLET_SUCCESS && bytes == sizeof number);
    return number;
}

static void exchange_all(struct member *member, int n, int rank, uint64_t key) {
    for (int to = 0; to < n; to++)
        for (int i = 0; i < 3; i++)
            send_number(member, to, key, 1000 * rank + 10 * to + i);
    for (int from = 0; from < n; from++)
        for (int i = 0; i < 3; i++)
            EXPECT(recv_number(member, from, key) == 1000 * from + 10 * rank + i);
}

static void await_state(struct member *member, int rank, enum peer_state state, uint64_t within_ns) {
    uint64_t deadline_ns = os_now_ns() + within_ns, since_ns = 0;
    while (boot_peer_state(member->boot, rank, &since_ns) == PEER_ALIVE) {
        EXPECT(os_now_ns() < deadline_ns);
        nap();
    }
    EXPECT(boot_peer_state(member->boot, rank, &since_ns) == state);
    EXPECT(since_ns != 0 && boot_missing_count(member->boot) >= 1);
}

static void await_failure(struct member *member, enum collet_result code, const char *text) {
    uint64_t deadline_ns = os_now_ns() + 2 * SECOND;
    while (boot_failed(member->boot) == 0) {
        EXPECT(os_now_ns() < deadline_ns);
        nap();
    }
    EXPECT(boot_failed(member->boot) == (int)code);
    EXPECT(strcmp(boot_failed_text(member->boot), text) == 0);
}

/* -------------------------------------------------------------------------------------------------------- one process */

static void local_ranks_get_messages_of_one_key_in_order(void **state) {
    (void)state;
    struct member members[3];
    struct config configs[3];
    struct boot *boots[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(config_read(&configs[i]), COLLET_SUCCESS);
        configs[i].first_step = i;
    }
    snprintf(configs[2].hostid, sizeof configs[2].hostid, "elsewhere");
    assert_int_equal(boot_join_local(3, (struct boot_self[]){{7, {0}}, {8, {0}}, {9, {0}}}, configs, boots),
                     COLLET_SUCCESS);
    for (int i = 0; i < 3; i++) {
        members[i].boot = boots[i];
        assert_int_equal(boot_try_init(boots[i]), COLLET_SUCCESS);
        assert_int_equal(configs[i].first_step, 0);
    }
    const struct peer_info *peers = boot_peers(boots[1]);
    assert_int_equal(peers[1].node, 0);
    assert_int_equal(peers[2].node, 2);
    assert_int_equal(peers[2].device, 9);
    assert_memory_equal(peers[0].process, peers[2].process, sizeof peers[0].process);

    int number;
    size_t bytes;
    send_number(&members[0], 2, 5, 1);
    send_number(&members[1], 2, 5, 11);
    send_number(&members[0], 2, 6, 3);
    send_number(&members[0], 2, 5, 2);
    send_number(&members[2], 2, 5, 21);
    assert_int_equal(recv_number(&members[2], 0, 6), 3);
    assert_int_equal(recv_number(&members[2], 0, 5), 1);
    assert_int_equal(recv_number(&members[2], 0, 5), 2);
    assert_int_equal(recv_number(&members[2], 1, 5), 11);
    assert_int_equal(recv_number(&members[2], 2, 5), 21);
    assert_int_equal(boot_try_recv(boots[2], 0, 5, &number, sizeof number, &bytes), COLLET_IN_PROGRESS);
    assert_int_equal(boot_try_recv(boots[1], 0, 5, &number, sizeof number, &bytes), COLLET_IN_PROGRESS);
    send_number(&members[0], 1, 9, 1);
    assert_int_equal(boot_send(boots[0], 3, 5, &number, sizeof number), COLLET_ERR_INTERNAL);
    for (int i = 0; i < 3; i++)
        boot_destroy(boots[i]);
}

static void local_ranks_share_failures_and_goodbyes(void **state) {
    (void)state;
    struct config configs[3];
    struct boot *boots[3];
    int number = 0;
    for (int i = 0; i < 3; i++)
        assert_int_equal(config_read(&configs[i]), COLLET_SUCCESS);
    assert_int_equal(boot_join_local(3, NULL, configs, boots), COLLET_SUCCESS);
    assert_int_equal(boot_missing_count(boots[0]), 0);
    assert_int_equal(boot_peer_state(boots[0], 2, NULL), PEER_ALIVE);
    boot_destroy(boots[2]);
    assert_int_equal(boot_missing_count(boots[0]), 1);
    assert_int_equal(boot_peer_state(boots[0], 2, NULL), PEER_LEFT);
    assert_int_equal(boot_send(boots[0], 2, 1, &number, sizeof number), COLLET_SUCCESS);

    assert_int_equal(boot_failed(boots[0]), 0);
    assert_string_equal(boot_failed_text(boots[0]), "");
    boot_fail(boots[0], COLLET_ERR_ABORTED, "first");
    boot_fail(boots[1], COLLET_ERR_REMOTE, "second");
    assert_int_equal(boot_failed(boots[1]), COLLET_ERR_ABORTED);
    assert_string_equal(boot_failed_text(boots[1]), "first");
    assert_int_equal(boot_send(boots[0], 1, 1, &number, sizeof number), COLLET_ERR_ABORTED);
    boot_destroy(boots[0]);
    boot_destroy(boots[1]);
    boot_destroy(NULL);
}

static void bad_arguments_are_named(void **state) {
    (void)state;
    struct collet_unique_id id = {{0}};
    struct config config;
    struct boot *boot = NULL;
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    assert_int_equal(boot_join(&id, 2, 0, &on_host, &config, &boot), COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err_last(), "not a unique id"));
    assert_int_equal(boot_unique_id_at("127.0.0.1", 29500, "x", &id), COLLET_SUCCESS);
    assert_int_equal(boot_join(&id, 0, 0, &on_host, &config, &boot), COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err_last(), "nranks is 0"));
    assert_int_equal(boot_join(&id, 2, 2, &on_host, &config, &boot), COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err_last(), "rank is 2"));
    id.bytes[100] ^= 1;
    assert_int_equal(boot_join(&id, 2, 0, &on_host, &config, &boot), COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err_last(), "damaged"));
    assert_int_equal(boot_unique_id_at("127.0.0.1", 0, NULL, &id), COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err_last(), "port is 0"));
    assert_null(boot);
}

static void interfaces_are_chosen_by_their_names(void **state) {
    (void)state;
    assert_true(address_interface_allowed("", "eth0"));
    assert_true(address_interface_allowed("ib,eth", "eth0"));
    assert_false(address_interface_allowed("ib", "eth0"));
    assert_false(address_interface_allowed("=eth", "eth0"));
    assert_true(address_interface_allowed("=lo,eth0", "eth0"));
    assert_true(address_interface_allowed("^docker,lo", "eth0"));
    assert_false(address_interface_allowed("^docker,lo", "docker0"));
    assert_true(address_interface_allowed("^=docker", "docker0"));

    char host[ADDRESS_HOST_BYTES];
    int port;
    assert_int_equal(address_parse("X", "[::1]:80", host, &port), COLLET_SUCCESS);
    assert_string_equal(host, "::1");
    assert_int_equal(port, 80);
    assert_int_equal(address_parse("X", "node7:29500", host, &port), COLLET_SUCCESS);
    assert_string_equal(host, "node7");
    assert_int_equal(port, 29500);
    assert_int_equal(address_parse("X", "node7", host, &port), COLLET_ERR_INVALID_USAGE);
    assert_int_equal(address_parse("X", "node7:0x1", host, &port), COLLET_ERR_INVALID_USAGE);
    assert_int_equal(address_parse("X", ":1", host, &port), COLLET_ERR_INVALID_USAGE);
}

/* Makes *places those of process `self`, connected to its parent and children. Returns its parent. */
static int stand_at(struct places *places, int self) {
    static char edge; /* only compared with NULL */
    for (int child = 0; child < places->count; child++) {
        places->self = child;
        bool connected = !places->list[child].gone && places_choose_parent(places, child) == self;
        places->list[child].edge = connected ? (struct edge *)(void *)&edge : NULL;
    }
    places->self = self;
    int parent = places_choose_parent(places, self);
    if (parent >= 0)
        places->list[parent].edge = (struct edge *)(void *)&edge;
    return parent;
}

static void letters_find_their_way_whoever_is_gone(void **state) {
    (void)state;
    const int counts[] = {1, 2, 9, 10, 40, 75};
    srand(1);
    for (int round = 0; round < 24; round++) {
        int n = counts[round % 6];
        struct card *cards = calloc((size_t)n, sizeof *cards);
        struct places places;
        for (int i = 0; i < n; i++)
            cards[i].process[0] = 1000u + (unsigned)i;
        assert_int_equal(places_create(&places, cards, n), COLLET_SUCCESS);
        assert_int_equal(places.count, n);
        for (int i = 0; i < n; i++)
            places.list[i].gone = round >= 6 && rand() % 3 == 0;
        for (int from = 0; from < n; from++) {
            for (int to = 0; to < n; to++) {
                if (places.list[from].gone || places.list[to].gone)
                    continue;
                int at = from, hops = 0;
                while (at != to && at >= 0 && hops++ < n)
                    at = places_next_hop(&places, stand_at(&places, at), to);
                assert_int_equal(at, to);
            }
        }
        places_destroy(&places);
        free(cards);
    }
}

static int carried; /* parcels */

static void count_parcel(struct courier *courier, struct parcel *parcel, const void *data, size_t bytes) {
    (void)courier, (void)parcel, (void)data, (void)bytes;
    carried++;
}

/* This thread is no watch, so a timer that was set would be the end of it. */
static void letters_over_edges_that_live_need_no_timer(void **state) {
    (void)state;
    struct courier courier = {.carry = count_parcel};
    const struct parcel confirmation = {.to_place = 0, .from_place = 2, .to = -1, .next = 1};
    assert_int_equal(courier_init(&courier, 0, 3), COLLET_SUCCESS);
    courier_send(&courier, 2, letter_create(2, 0, 1, "a", 1));
    courier_send(&courier, 2, letter_create(2, 0, 1, "b", 1));
    assert_null(courier.timer.link);
    assert_true(courier_receive(&courier, &confirmation, NULL, 0));
    assert_int_equal(carried, 2);
    courier_fini(&courier);
}

/* ----------------------------------------------------------------------------------------------------- many processes */

static void five_exchange(int index) {
    struct member member;
    begin(&member, 5, index);
    for (int rank = 0; rank < 5; rank++) {
        const struct peer_info *peer = &boot_peers(member.boot)[rank];
        EXPECT(peer->rank == rank && peer->node == 0 && peer->device == rank + 100 && peer->host[0] != '\0');
    }
    EXPECT(boot_peers(member.boot)[index].pid == getpid());
    exchange_all(&member, 5, index, 77);
    meet(0, 5);
    if (index == 2)
        boot_fail(member.boot, COLLET_ERR_MISMATCH, "rank 2 did not like it");
    await_failure(&member, COLLET_ERR_MISMATCH, "rank 2 did not like it");
    EXPECT(boot_missing_count(member.boot) == 0);
    meet(1, 5);
    boot_destroy(member.boot);
}

static void five_processes_exchange_messages_and_hear_of_a_failure(void **state) {
    (void)state;
    run(5, five_exchange);
}

static void take_rank_zeros_values(int index) {
    struct member member;
    configure(&member);
    member.config.buffsize = 4096 * (index + 1);
    member.config.spin = index;
    snprintf(member.config.hostid, sizeof member.config.hostid, "%s", index < 2 ? "left" : "right");
    if (index == 0)
        publish_id();
    join(&member, 4, index);
    EXPECT(poll_init(&member) == COLLET_SUCCESS);
    EXPECT(member.config.buffsize == 4096 && member.config.spin == index);
    for (int rank = 0; rank < 4; rank++)
        EXPECT(boot_peers(member.boot)[rank].node == (rank < 2 ? 0 : 2));
    boot_destroy(member.boot);
}

static void agreed_knobs_are_rank_zeros_and_host_ids_make_nodes(void **state) {
    (void)state;
    run(4, take_rank_zeros_values);
}

static void two_ranks_in_one_thread(int index) {
    struct member members[2];
    if (index == 0)
        publish_id();
    for (int i = 0; i < 2; i++) {
        configure(&members[i]);
        join(&members[i], 4, index + 2 * i);
    }
    int pending = 2;
    for (uint64_t deadline_ns = os_now_ns() + LIMIT_NS; pending > 0; nap()) {
        pending = 0;
        for (int i = 0; i < 2; i++) {
            members[i].result = boot_try_init(members[i].boot);
            EXPECT(members[i].result >= 0 && os_now_ns() < deadline_ns);
            pending += members[i].result == COLLET_IN_PROGRESS;
        }
    }
    for (int i = 0; i < 2; i++)
        for (int to = 0; to < 4; to++)
            send_number(&members[i], to, 3, 10 * (index + 2 * i) + to);
    for (int i = 0; i < 2; i++)
        for (int from = 0; from < 4; from++)
            EXPECT(recv_number(&members[i], from, 3) == 10 * from + index + 2 * i);
    EXPECT(boot_peers(members[0].boot)[2].pid == boot_peers(members[0].boot)[0].pid);
    meet(0, 2);
    boot_destroy(members[0].boot);
    boot_destroy(members[1].boot);
}

static void two_processes_of_two_ranks_are_polled_in_one_thread(void **state) {
    (void)state;
    run(2, two_ranks_in_one_thread);
}

extern void __tsan_init(void) __attribute__((weak)); /* there if the thread sanitizer is */

static void parent_of_ranks(int index) {
    (void)index;
    pid_t children[2];
    publish_id();
    usleep(100000); /* sanitizers want no fork while another thread allocates */
    for (int i = 0; i < 2; i++) {
        children[i] = fork();
        if (children[i] != 0)
            continue;
        struct member member;
        await(&shared->reached[0], 1);
        configure(&member);
        join(&member, 2, i);
        EXPECT(poll_init(&member) == COLLET_SUCCESS);
        exchange_all(&member, 2, i, 1);
        EXPECT(boot_peers(member.boot)[i].pid == getpid() && boot_peers(member.boot)[1].node == 0);
        EXPECT(memcmp(boot_peers(member.boot)[0].process, boot_peers(member.boot)[1].process, 16) != 0);
        boot_destroy(member.boot);
        exit(0);
    }
    reach(0);
    for (int i = 0; i < 2; i++) {
        int status;
        EXPECT(waitpid(children[i], &status, 0) == children[i] && status == 0);
    }
}

static void a_process_that_made_the_id_may_fork_its_ranks(void **state) {
    (void)state;
    if (__tsan_init != NULL)
        skip(); /* it allows no thread in a child of a process with threads */
    run(1, parent_of_ranks);
}

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
    EXPECT(os_now_ns() - begun_ns < SILENT_WITHIN_NS);
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

/* ------------------------------------------------------------------------------------------------------------ strangers */

static int try_connect(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(fd >= 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connect_to(int port) {
    int fd = try_connect(port);
    EXPECT(fd >= 0);
    return fd;
}

static int port_of_id(void) {
    struct id id;
    EXPECT(id_unpack(&shared->id, &id) == COLLET_SUCCESS);
    return id.set.port;
}

/* Index 3 are the strangers. */
static void beside_strangers(int index) {
    struct member member;
    uint64_t begun_ns = os_now_ns();
    if (index == 3) {
        await(&shared->id_ready, 1);
        connect_to(port_of_id());
        connect_to(port_of_id());
        int http = connect_to(port_of_id());
        const char *request = "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n";
        EXPECT(send(http, request, strlen(request), MSG_NOSIGNAL) == (ssize_t)strlen(request));
        reach(0);
        await(&shared->reached[1], 3);
        char answer[256];
        EXPECT(recv(http, answer, 4, MSG_WAITALL) == 4 && memcmp(answer, "HTTP", 4) != 0);
        return;
    }
    configure(&member);
    if (index == 0)
        publish_id();
    await(&shared->reached[0], 1);
    join(&member, 3, index);
    EXPECT(poll_init(&member) == COLLET_SUCCESS);
    EXPECT(os_now_ns() - begun_ns < 4 * SECOND);
    meet(1, 3);
    boot_destroy(member.boot);
}

static void silent_clients_and_an_http_client_do_not_hinder(void **state) {
    (void)state;
    run(4, beside_strangers);
}

#define CROWD 400 /* are there before the job begins; it keeps coming */

static void beside_a_crowd(int index) {
    struct member member;
    if (index == 2) {
        await(&shared->id_ready, 1);
        char garbage[200];
        for (int i = 0; i < 600; i++) {
            int fd = try_connect(port_of_id());
            if (fd < 0) {
                EXPECT(i > CROWD); /* the job is complete, and the door shut */
                break;
            }
            os_random(garbage, sizeof garbage);
            if (i % 3 != 0)
                send(fd, garbage, (size_t)(i % (int)sizeof garbage), MSG_NOSIGNAL | MSG_DONTWAIT);
            if (i % 3 == 2)
                close(fd);
            if (i == CROWD)
                reach(0);
        }
        await(&shared->reached[1], 2);
        return;
    }
    configure(&member);
    if (index == 0)
        publish_id();
    await(&shared->reached[0], 1);
    uint64_t begun_ns = os_now_ns();
    join(&member, 2, index);
    EXPECT(poll_init(&member) == COLLET_SUCCESS);
    EXPECT(os_now_ns() - begun_ns < 4 * SECOND);
    meet(1, 2);
    boot_destroy(member.boot);
}

static void hundreds_of_connections_of_garbage_do_no_harm(void **state) {
    (void)state;
    run(3, beside_a_crowd);
}

/* Index 2 knows where, but not the secret. */
static void beside_a_spy(int index) {
    struct member member;
    configure(&member);
    if (index == 2) {
        struct id id;
        await(&shared->id_ready, 1);
        EXPECT(id_unpack(&shared->id, &id) == COLLET_SUCCESS);
        id.secret[5] ^= 1;
        struct collet_unique_id forged;
        id_pack(&id, &forged);
        member.config.init_timeout = 1;
        EXPECT(boot_join(&forged, 2, 1, &on_host, &member.config, &member.boot) == COLLET_SUCCESS);
        EXPECT(poll_init(&member) == COLLET_ERR_TIMEOUT);
        EXPECT(strstr(err_last(), "no meeting point answers") != NULL && strstr(err_last(), "secret") != NULL);
        reach(0);
    } else {
        if (index == 0)
            publish_id();
        await(&shared->reached[0], index); /* rank 1 comes after the spy was turned away */
        join(&member, 2, index);
        EXPECT(poll_init(&member) == COLLET_SUCCESS);
        exchange_all(&member, 2, index, 1);
    }
    boot_destroy(member.boot);
}

static void who_does_not_know_the_secret_is_refused(void **state) {
    (void)state;
    run(3, beside_a_spy);
}

/* ------------------------------------------------------------------------------------------------- ports and secrets */

static void in_a_range_of_ports(int index) {
    struct member member;
    struct id id;
    setenv("COLLET_PORT_RANGE", "21000-21099", 1);
    begin(&member, 2, index);
    EXPECT(id_unpack(&shared->id, &id) == COLLET_SUCCESS);
    EXPECT(id.set.port >= 21000 && id.set.port <= 21099);
    exchange_all(&member, 2, index, 1);
    meet(0, 2);
    boot_destroy(member.boot);
}

static void with_a_range_that_is_none(int index) {
    struct config config;
    (void)index;
    setenv("COLLET_PORT_RANGE", "300-200", 1);
    EXPECT(config_read(&config) == COLLET_ERR_INVALID_USAGE);
    EXPECT(strstr(err_last(), "COLLET_PORT_RANGE") != NULL);
}

static void ports_are_of_the_range_that_is_given(void **state) {
    (void)state;
    run(2, in_a_range_of_ports);
    run(1, with_a_range_that_is_none);
}

static void with_a_short_secret(int index) {
    struct collet_unique_id id;
    (void)index;
    setenv("COLLET_SECRET", "swordfish", 1);
    EXPECT(boot_unique_id_at("127.0.0.1", 29500, "swordfish", &id) == COLLET_ERR_INVALID_USAGE);
    EXPECT(strstr(err_last(), "COLLET_SECRET has 9 characters") != NULL && strstr(err_last(), "swordfish") == NULL);
}

static void a_secret_that_is_easy_to_guess_is_refused(void **state) {
    (void)state;
    run(1, with_a_short_secret);
}

/* A client that comes by the loopback interface gets no greeting. */
static void without_loopback(int index) {
    struct id id;
    char byte;
    (void)index;
    setenv("COLLET_SOCKET_IFNAME", "^lo", 1);
    if (boot_unique_id(&shared->id) != COLLET_SUCCESS) /* this machine has no other interface */
        return;
    EXPECT(id_unpack(&shared->id, &id) == COLLET_SUCCESS);
    int fd = try_connect(id.set.port);
    EXPECT(fd >= 0);
    EXPECT(read(fd, &byte, 1) <= 0);
    close(fd);
}

static void a_client_by_an_interface_that_is_excluded_gets_no_word(void **state) {
    (void)state;
    run(1, without_loopback);
}

/* The signals that this process's second thread blocks; 0: there is none. */
static unsigned long long blocked_by_second_thread(void) {
    char path[300], line[128];
    unsigned long long mask = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = atoi(task->d_name) > 0 && atoi(task->d_name) != getpid() ? fopen(path, "r") : NULL;
        while (status != NULL && fgets(line, sizeof line, status) != NULL)
            sscanf(line, "SigBlk: %llx", &mask);
        if (status != NULL)
            fclose(status);
    }
    if (tasks != NULL)
        closedir(tasks);
    return mask;
}

static bool is_blocked(unsigned long long mask, int signal) { return mask >> (signal - 1) & 1; }

/* A thread that is only beginning still blocks all. */
static void look_at_the_watchs_signals(int index) {
    (void)index;
    publish_id();
    for (int k = 0; k < 5000 && is_blocked(blocked_by_second_thread(), SIGSEGV); k++)
        nap();
    EXPECT(is_blocked(blocked_by_second_thread(), SIGINT));
    EXPECT(!is_blocked(blocked_by_second_thread(), SIGSEGV));
}

static void a_fault_in_the_watch_reaches_a_crash_handler(void **state) {
    (void)state;
    run(1, look_at_the_watchs_signals);
}

/* --------------------------------------------------------------------------------------------------- init that fails */

/* Index 1 is late, and contradicts those that have come. Rank 2 never comes: nobody may wait for it. */
static bool contradiction_is_nranks;

static void contradict(int index) {
    struct member member;
    const char *text = contradiction_is_nranks ? "nranks differs: 4 on rank 1" : "rank 0 is taken";
    configure(&member);
    member.config.init_timeout = 1000;
    if (index == 0)
        publish_id();
    if (index == 1) {
        await(&shared->reached[0], 1);
        usleep(300000); /* rank 0 should be the first to come; if it is not, the text still names both */
    }
    join(&member, index == 1 && contradiction_is_nranks ? 4 : 3, contradiction_is_nranks ? index : 0);
    if (index == 0)
        reach(0);
    EXPECT(poll_init(&member) == COLLET_ERR_INVALID_ARGUMENT);
    EXPECT(strstr(err_last(), text) != NULL);
    meet(1, 2);
    boot_destroy(member.boot);
}

static void a_rank_taken_twice_ends_init_for_all(void **state) {
    (void)state;
    contradiction_is_nranks = false;
    run(2, contradict);
}

static void a_different_nranks_ends_init_for_all(void **state) {
    (void)state;
    contradiction_is_nranks = true;
    run(2, contradict);
}

/* Index 2 comes as rank 1 too, when all ranks have come; the job of two is unharmed. */
static void with_a_late_outsider(int index) {
    struct member member;
    configure(&member);
    if (index == 0)
        publish_id();
    if (index == 2)
        await(&shared->reached[0], 2);
    join(&member, 2, index == 0 ? 0 : 1);
    if (index < 2) {
        EXPECT(poll_init(&member) == COLLET_SUCCESS);
        reach(0);
        await(&shared->reached[1], 1);
        exchange_all(&member, 2, index, 1);
    } else {
        EXPECT(poll_init(&member) < 0);
        boot_fail(member.boot, COLLET_ERR_ABORTED, "an outsider's opinion");
        reach(1);
    }
    boot_destroy(member.boot);
}

static void an_outsider_that_comes_when_all_have_come_disturbs_nobody(void **state) {
    (void)state;
    run(3, with_a_late_outsider);
}

static void same_rank_twice_in_one_process(int index) {
    struct member first, second;
    (void)index;
    configure(&first);
    configure(&second);
    publish_id();
    join(&first, 2, 0);
    EXPECT(boot_join(&shared->id, 2, 0, &on_host, &second.config, &second.boot) == COLLET_ERR_INVALID_ARGUMENT);
    EXPECT(strstr(err_last(), "rank 0 is taken") != NULL);
    EXPECT(boot_join(&shared->id, 3, 1, &on_host, &second.config, &second.boot) == COLLET_ERR_INVALID_ARGUMENT);
    EXPECT(strstr(err_last(), "nranks differs") != NULL);
    boot_destroy(first.boot);
}

static void a_process_cannot_create_a_rank_twice(void **state) {
    (void)state;
    run(1, same_rank_twice_in_one_process);
}

static void one_never_comes(int index) {
    struct member member;
    uint64_t begun_ns = os_now_ns();
    configure(&member);
    member.config.init_timeout = index == 0 ? 1 : 10;
    if (index == 0)
        publish_id();
    join(&member, 3, index * 2); /* 0 and 2: rank 1 is missing */
    EXPECT(poll_init(&member) == COLLET_ERR_TIMEOUT);
    EXPECT(os_now_ns() - begun_ns < 3 * SECOND); /* the one that would wait longer hears of it too */
    EXPECT(strstr(err_last(), "have not come: 1") != NULL);
    boot_destroy(member.boot);
}

static void an_init_that_takes_too_long_names_the_missing_rank(void **state) {
    (void)state;
    run(2, one_never_comes);
}

static void one_gives_up(int index) {
    struct member member;
    configure(&member);
    if (index == 0)
        publish_id();
    join(&member, 4, index); /* rank 3 never comes */
    if (index == 1) {
        usleep(300000);
        boot_fail(member.boot, COLLET_ERR_ABORTED, "rank 1 gave up");
    }
    EXPECT(poll_init(&member) == COLLET_ERR_ABORTED);
    EXPECT(strcmp(err_last(), index == 1 ? "rank 1 gave up" : "learnt from rank 1: rank 1 gave up") == 0);
    meet(0, 3);
    boot_destroy(member.boot);
}

static void a_failure_during_init_reaches_those_that_have_come(void **state) {
    (void)state;
    run(3, one_gives_up);
}

static void one_dies_early(int index) {
    struct member member;
    configure(&member);
    if (index == 0)
        publish_id();
    join(&member, 4, index);
    if (index == 2) {
        usleep(300000);
        kill(getpid(), SIGKILL);
    }
    EXPECT(poll_init(&member) == COLLET_ERR_REMOTE);
    EXPECT(strstr(err_last(), "rank 2 (host") != NULL);
    boot_destroy(member.boot);
}

static void a_death_during_init_is_named(void **state) {
    (void)state;
    run_with_victim(3, 2, one_dies_early);
}

static void id_of_the_past(int index) {
    struct member member;
    begin(&member, 2, index);
    boot_destroy(member.boot);
    meet(0, 2);
    join(&member, 2, index);
    EXPECT(poll_init(&member) == COLLET_ERR_REMOTE);
    EXPECT(strstr(err_last(), "nobody listens at the meeting point any more") != NULL);
    boot_destroy(member.boot);
}

static void an_id_cannot_be_used_twice(void **state) {
    (void)state;
    run(2, id_of_the_past);
}

/* ------------------------------------------------------------------------------------------------- ids by host and port */

/* The same listed id again and again. */
static void listed_three_times(int index) {
    struct member member;
    configure(&member);
    EXPECT(boot_unique_id_at("127.0.0.1", shared->port, "the secret", &shared->id) == COLLET_SUCCESS);
    shared->id_ready = 1;
    if (index == 0)
        usleep(200000); /* the others have to try for a while */
    for (int i = 0; i < 3; i++) {
        join(&member, 3, index);
        EXPECT(poll_init(&member) == COLLET_SUCCESS);
        exchange_all(&member, 3, index, 1);
        boot_destroy(member.boot);
    }
}

/* A port of loopback that was free a moment ago, or still is held. */
static int hold_port(int *port) {
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t length = sizeof any;
    int holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(holder, (struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(listen(holder, 16), 0);
    assert_int_equal(getsockname(holder, (struct sockaddr *)&any, &length), 0);
    *port = ntohs(any.sin_port);
    return holder;
}

static void ranks_meet_at_the_same_host_and_port_again_and_again(void **state) {
    (void)state;
    close(hold_port(&shared->port));
    run(3, listed_three_times);
}

/* ------------------------------------------------------------------------------------------- nonsense from the wire */

static struct card a_card(int rank, int nranks) {
    struct card card = {.rank = rank, .nranks = nranks, .self.device = COLLET_DEVICE_HOST, .host = "n1"};
    card.listener = (struct address_set){.count = 1, .port = 1234};
    card.listener.addresses[0].family = 4;
    return card;
}

static void a_card_that_cannot_be_is_refused(void **state) {
    (void)state;
    struct card card, good = a_card(1, 2), bad;
    assert_true(card_read(&good, &card));
#define REFUSED(change)                                                                                                \
    do {                                                                                                               \
        bad = good;                                                                                                    \
        change;                                                                                                        \
        assert_false(card_read(&bad, &card));                                                                          \
    } while (0)
    REFUSED(bad.rank = -1);
    REFUSED(bad.rank = 2);
    REFUSED(bad.nranks = 0);
    REFUSED(bad.nranks = NRANKS_MAX + 1);
    REFUSED(memset(bad.host, 'x', sizeof bad.host));
    REFUSED(bad.listener.count = 0);
    REFUSED(bad.listener.count = ADDRESS_MAX + 1);
    REFUSED(bad.listener.port = 0);
    REFUSED(bad.listener.addresses[0].family = 9);
#undef REFUSED
}

/* Takes a table of 3 ranks, in parts of one card and then two; nnodes of the nodes. */
static enum table_step take_table(const struct card *cards, const int32_t *nodes, int nnodes) {
    struct config config, agreed;
    struct table table;
    memset(&agreed, 0, sizeof agreed);
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    config_adopt(&agreed, &config);
    const struct frame frames[] = {
        {TABLE_KNOBS, sizeof agreed, (const char *)&agreed},
        {TABLE_CARDS, sizeof *cards, (const char *)cards},
        {TABLE_CARDS, 2 * sizeof *cards, (const char *)(cards + 1)},
        {TABLE_NODES, (size_t)nnodes * sizeof *nodes, (const char *)nodes},
    };
    static const enum table_step steps[] = {TABLE_PART, TABLE_PART, TABLE_KNOWN, TABLE_COMPLETE};
    assert_int_equal(table_create(&table, 3), COLLET_SUCCESS);
    enum table_step step = TABLE_PART;
    for (int k = 0; k < 4 && step != TABLE_NONSENSE; k++) {
        step = table_take(&table, &frames[k]);
        assert_true(step == steps[k] || step == TABLE_NONSENSE || nnodes < 3);
    }
    table_free(&table);
    return step;
}

static void a_table_whose_ranks_are_out_of_place_is_refused(void **state) {
    (void)state;
    struct card cards[3] = {a_card(0, 3), a_card(1, 3), a_card(2, 3)};
    const int32_t nodes[3] = {0, 0, 2};
    assert_int_equal(take_table(cards, nodes, 3), TABLE_COMPLETE);
    cards[1].rank = 2;
    assert_int_equal(take_table(cards, nodes, 3), TABLE_NONSENSE);
    cards[1] = a_card(1, 4);
    assert_int_equal(take_table(cards, nodes, 3), TABLE_NONSENSE);
}

static void a_table_that_moves_a_rank_of_this_process_is_refused(void **state) {
    (void)state;
    struct card cards[2] = {a_card(0, 2), a_card(1, 2)};
    struct config config;
    struct hub *hub;
    struct boot *boot;
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    assert_int_equal(hub_create(2, NULL, &hub), COLLET_SUCCESS);
    assert_int_equal(hub_add(hub, 1, &cards[1].self, &config, &boot), COLLET_SUCCESS);
    memcpy(cards[1].process, process_identity(), sizeof cards[1].process);
    assert_true(hub_knows_itself(hub, cards));
    cards[1].self.device = COLLET_DEVICE_CUDA(0);
    assert_false(hub_knows_itself(hub, cards));
    cards[1].self.device = COLLET_DEVICE_HOST;
    memcpy(cards[0].process, process_identity(), sizeof cards[0].process);
    assert_false(hub_knows_itself(hub, cards));
    memset(cards[0].process, 0, sizeof cards[0].process);
    memset(cards[1].process, 0, sizeof cards[1].process);
    assert_false(hub_knows_itself(hub, cards));
    hub_remove(boot);
    hub_release(hub);
}

static void nodes_and_failures_that_cannot_be_are_refused(void **state) {
    (void)state;
    const struct card cards[3] = {a_card(0, 3), a_card(1, 3), a_card(2, 3)};
    struct failure failure, good = {.code = COLLET_ERR_REMOTE, .text = "it died"};
    assert_int_equal(take_table(cards, (int32_t[]){0, 0, 2}, 3), TABLE_COMPLETE);
    assert_int_equal(take_table(cards, (int32_t[]){0, 0, 2}, 2), TABLE_PART);
    assert_int_equal(take_table(cards, (int32_t[]){0, 0, 2, 3}, 4), TABLE_NONSENSE);
    assert_int_equal(take_table(cards, (int32_t[]){0, 2, 2}, 3), TABLE_NONSENSE);
    assert_int_equal(take_table(cards, (int32_t[]){0, -1, 2}, 3), TABLE_NONSENSE);
    assert_int_equal(take_table(cards, (int32_t[]){0, 0, 1}, 3), TABLE_NONSENSE);
    assert_true(failure_read(&good, sizeof good, &failure));
    assert_false(failure_read(&good, sizeof good - 1, &failure));
    good.code = COLLET_SUCCESS;
    assert_false(failure_read(&good, sizeof good, &failure));
    good.code = COLLET_ERR_INTERNAL - 1;
    assert_false(failure_read(&good, sizeof good, &failure));
    good.code = COLLET_ERR_REMOTE;
    memset(good.text, 'x', sizeof good.text);
    assert_false(failure_read(&good, sizeof good, &failure));
}

static void agreed_knobs_out_of_bounds_are_refused(void **state) {
    (void)state;
    struct config config, agreed;
    memset(&agreed, 0, sizeof agreed);
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    config_adopt(&agreed, &config);
    assert_true(config_agreed_valid(&agreed));
    agreed.heartbeat = -1;
    assert_false(config_agreed_valid(&agreed));
    config_adopt(&agreed, &config);
    memset(agreed.algo, 'x', sizeof agreed.algo);
    assert_false(config_agreed_valid(&agreed));
}

/* ----------------------------------------------------------------------------------------------------------- no memory */

extern void __asan_init(void) __attribute__((weak)); /* there if the address sanitizer is */

/* Index 0 keeps the meeting point, for more ranks than it has memory for. */
static void without_memory_for_the_table(int index) {
    struct member member;
    if (index == 0) {
        publish_id();
        const struct rlimit scarce = {.rlim_cur = 100 << 20, .rlim_max = 100 << 20};
        EXPECT(setrlimit(RLIMIT_AS, &scarce) == 0);
        reach(0);
        await(&shared->reached[1], 1);
        usleep(100000); /* the guest has gone, and the meeting point goes on */
        return;
    }
    configure(&member);
    await(&shared->reached[0], 1);
    join(&member, NRANKS_MAX, 1);
    EXPECT(poll_init(&member) == COLLET_ERR_NO_MEMORY);
    EXPECT(strstr(err_last(), "table of ranks") != NULL);
    boot_destroy(member.boot);
    reach(1);
}

static void a_table_too_large_for_the_meeting_point_ends_init_and_not_the_process(void **state) {
    (void)state;
    if (__asan_init != NULL || __tsan_init != NULL)
        skip(); /* they need more than any limit leaves them */
    run(2, without_memory_for_the_table);
}

/* ------------------------------------------------------------------------------------------------------ no descriptors */

static int spare, limited; /* descriptors of the process with this index */
static bool may_raise;     /* its own limit */

static void limit_descriptors(void) {
    const int lowest = dup(0);
    const rlim_t most = (rlim_t)(lowest + spare);
    const struct rlimit limit = {.rlim_cur = most, .rlim_max = may_raise ? most + 64 : most};
    close(lowest);
    EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void with_few_descriptors(int index) {
    struct member member = {.boot = NULL};
    configure(&member);
    if (index == 0)
        publish_id();
    await(&shared->id_ready, 1);
    if (index == limited)
        limit_descriptors();
    uint64_t begun_ns = os_now_ns();
    member.result = boot_join(&shared->id, 2, index, &on_host, &member.config, &member.boot);
    while (member.boot != NULL && (member.result = boot_try_init(member.boot)) == COLLET_IN_PROGRESS &&
           (index == limited || shared->reached[0] == 0))
        nap();
    if (index == limited) {
        EXPECT(os_now_ns() - begun_ns < 5 * SECOND);
        EXPECT(member.result == COLLET_SUCCESS ||
               (member.result == COLLET_ERR_SYSTEM && strstr(err_last(), "ulimit -n") != NULL && !may_raise));
        shared->port = member.result == COLLET_SUCCESS; /* for the parent */
        reach(0);
    }
    boot_destroy(member.boot);
    if (index == limited)
        _exit(0); /* a leak checker at exit() would need descriptors */
}

static void run_with_few_descriptors(int index, int count, bool raise) {
    limited = index;
    spare = count;
    may_raise = raise;
    shared->id_ready = shared->reached[0] = 0;
    run(2, with_few_descriptors);
}

static void init_without_descriptors_says_so_at_once_unless_it_may_have_more(void **state) {
    (void)state;
    for (int index = 0; index < 2; index++) {
        int count = -1;
        do
            run_with_few_descriptors(index, ++count, false);
        while (shared->port == 0);
        assert_in_range(count, 2, 16);
        run_with_few_descriptors(index, 0, true);
        run_with_few_descriptors(index, count - 1, true);
    }
}

/* ----------------------------------------------------------------------------------------------------------- no /proc */

/* As where there is no /proc. */
int pthread_setname_np(pthread_t thread, const char *name) {
    (void)thread;
    (void)name;
    return errno = ENOENT;
}

static void the_watch_starts_where_threads_cannot_be_named(void **state) {
    (void)state;
    struct watch *watch;
    errno = 0;
    assert_int_not_equal(pthread_setname_np(pthread_self(), "name"), 0);
    assert_int_equal(watch_start(&watch), COLLET_SUCCESS);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        /* First: the knobs of a process are read once, and these cases' processes must be the first to do so. */
        CASE(ports_are_of_the_range_that_is_given),
        CASE(a_secret_that_is_easy_to_guess_is_refused),
        CASE(a_client_by_an_interface_that_is_excluded_gets_no_word),
        CASE(local_ranks_get_messages_of_one_key_in_order),
        CASE(local_ranks_share_failures_and_goodbyes),
        CASE(bad_arguments_are_named),
        CASE(interfaces_are_chosen_by_their_names),
        CASE(letters_find_their_way_whoever_is_gone),
        cmocka_unit_test(letters_over_edges_that_live_need_no_timer),
        CASE(five_processes_exchange_messages_and_hear_of_a_failure),
        CASE(agreed_knobs_are_rank_zeros_and_host_ids_make_nodes),
        CASE(two_processes_of_two_ranks_are_polled_in_one_thread),
        CASE(a_process_that_made_the_id_may_fork_its_ranks),
        CASE(a_killed_leaf_is_dead_for_all),
        CASE(a_killed_root_of_the_tree_is_dead_for_all_and_replaced),
        CASE(a_killed_inner_process_is_dead_for_all_and_its_children_move_up),
        CASE(a_killed_process_is_dead_though_its_child_holds_its_sockets),
        CASE(a_silent_process_on_another_host_is_lost_though_its_child_holds_its_sockets),
        CASE(a_silent_host_is_lost_at_once_however_many_processes_it_has),
        CASE(a_goodbye_is_not_a_death_and_the_others_go_on),
        CASE(an_exit_without_goodbye_is_a_death),
        CASE(silent_clients_and_an_http_client_do_not_hinder),
        CASE(hundreds_of_connections_of_garbage_do_no_harm),
        CASE(who_does_not_know_the_secret_is_refused),
        CASE(a_fault_in_the_watch_reaches_a_crash_handler),
        CASE(a_rank_taken_twice_ends_init_for_all),
        CASE(a_different_nranks_ends_init_for_all),
        CASE(an_outsider_that_comes_when_all_have_come_disturbs_nobody),
        CASE(a_process_cannot_create_a_rank_twice),
        CASE(an_init_that_takes_too_long_names_the_missing_rank),
        CASE(a_failure_during_init_reaches_those_that_have_come),
        CASE(a_death_during_init_is_named),
        CASE(an_id_cannot_be_used_twice),
        CASE(ranks_meet_at_the_same_host_and_port_again_and_again),
        CASE(a_card_that_cannot_be_is_refused),
        CASE(a_table_whose_ranks_are_out_of_place_is_refused),
        CASE(a_table_that_moves_a_rank_of_this_process_is_refused),
        CASE(nodes_and_failures_that_cannot_be_are_refused),
        CASE(agreed_knobs_out_of_bounds_are_refused),
        CASE(a_table_too_large_for_the_meeting_point_ends_init_and_not_the_process),
        CASE(init_without_descriptors_says_so_at_once_unless_it_may_have_more),
        CASE(the_watch_starts_where_threads_cannot_be_named),
    };
    return cmocka_run_group_tests_name("boot", tests, NULL, NULL);
}
