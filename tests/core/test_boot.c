/* SPDX-License-Identifier: Apache-2.0
 *
 * The control plane at work: letters, the links by which they go, and agreed knobs.
 */
#include "base/config_read.h"
#include "common/boot_case.h"
#include "common/refuse.h"

#include <sys/syscall.h>

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

/* Whom: boots[0] and a number of looks. At the third, rank 1 says what it found. */
struct late_news {
    struct boot **boots;
    int *nlooks;
};

static enum collet_result look_three_times(const void *whom) {
    const struct late_news *late = (const struct late_news *)whom;
    if (++*late->nlooks == 3)
        boot_fail(late->boots[1], COLLET_ERR_REMOTE, "the cause");
    return boot_check(late->boots[0]);
}

static enum collet_result look_in_vain(const void *whom) {
    ++*((const struct late_news *)whom)->nlooks;
    return COLLET_IN_PROGRESS;
}

static void a_broken_wire_is_explained_by_news_that_come_later(void **state) {
    (void)state;
    struct config configs[2];
    struct boot *boots[2];
    int nlooks = 0;
    const struct late_news late = {boots, &nlooks};
    for (int i = 0; i < 2; i++)
        assert_int_equal(config_read(&configs[i]), COLLET_SUCCESS);
    assert_int_equal(boot_join_local(2, NULL, configs, boots), COLLET_SUCCESS);
    enum collet_result result = err_set(COLLET_ERR_INVALID_ARGUMENT, "root");
    assert_int_equal(boot_explain(result, look_in_vain, &late), COLLET_ERR_INVALID_ARGUMENT);
    assert_int_equal(nlooks, 0); /* no wire */
    result = err_set(COLLET_ERR_REMOTE, "the connection broke");
    assert_int_equal(boot_explain(result, look_in_vain, &late), COLLET_ERR_REMOTE);
    assert_string_equal(err_last(), "the connection broke");
    assert_true(nlooks > 3);
    nlooks = 0;
    result = err_set(COLLET_ERR_SYSTEM, "the connection broke");
    assert_int_equal(boot_explain(result, look_three_times, &late), COLLET_ERR_REMOTE);
    assert_non_null(strstr(err_last(), "the cause"));
    boot_destroy(boots[0]);
    boot_destroy(boots[1]);
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

static void a_table_that_finds_no_memory_is_not_called_wrong(void **state) {
    (void)state;
    struct card cards[3] = {{.process = {5}}, {.process = {6}}, {.process = {5}}};
    struct places places;
    assert_int_equal(places_create(&places, cards, 3), COLLET_SUCCESS);
    refuse(MEMORY, 1, INT64_MAX);
    enum collet_result result = places_fill(&places, cards, 3);
    refuse(NO_RESOURCE, 0, 0);
    assert_int_equal(result, COLLET_ERR_NO_MEMORY);
    assert_int_equal(places_fill(&places, cards, 3), COLLET_SUCCESS);
    places.list[1].edge = (void *)&places; /* process 6 is connected, and said who it is */
    cards[1].process[0] = 7;
    assert_int_equal(places_fill(&places, cards, 3), COLLET_ERR_REMOTE);
    places_destroy(&places);
}

static void all_that_live_are_below_one_root_whoever_is_gone(void **state) {
    (void)state;
    const int counts[] = {1, 2, 9, 10, 40, 75};
    srand(1);
    for (int round = 0; round < 24; round++) {
        int n = counts[round % 6], lowest = 0;
        struct card *cards = calloc((size_t)n, sizeof *cards);
        struct places places;
        for (int i = 0; i < n; i++)
            cards[i].process[0] = 1000u + (unsigned)i;
        assert_int_equal(places_create(&places, cards, n), COLLET_SUCCESS);
        assert_int_equal(places.count, n);
        for (int i = 0; i < n; i++)
            places.list[i].gone = round >= 6 && rand() % 3 == 0;
        while (lowest < n && places.list[lowest].gone)
            lowest++;
        for (int from = lowest; from < n; from++) {
            int at = from, hops = 0;
            for (int parent; !places.list[from].gone && (parent = places_choose_parent(&places, at)) >= 0;
                 at = parent) {
                assert_true(!places.list[parent].gone && parent < at && hops++ < n);
            }
            assert_int_equal(at, places.list[from].gone ? from : lowest);
        }
        places_destroy(&places);
        free(cards);
    }
}

/* ----------------------------------------------------------------------------------------------------- many processes */

static size_t sent_bytes; /* by this process */

ssize_t send(int fd, const void *data, size_t bytes, int flags) {
    const ssize_t sent = syscall(SYS_sendto, fd, data, bytes, flags, NULL, 0);
    if (sent > 0)
        __atomic_fetch_add(&sent_bytes, (size_t)sent, __ATOMIC_RELAXED);
    return sent;
}

enum { FAR_PROCESSES = 16, FAR_LETTERS = 4 };

/* Do 1 and the root stand between these two in the tree? Below 1 are 9 to 15. */
static bool are_far(int a, int b) { return (a >= 9) != (b >= 9) && a > 1 && b > 1; }

/* So long that heartbeats are few bytes beside it, also on a machine where an exchange takes seconds. */
struct far_letter {
    int number;
    char rest[BOOT_MESSAGE_BYTES - sizeof(int)];
};

static void send_far(struct member *member, int to, uint64_t key, int number) {
    const struct far_letter letter = {.number = number};
    EXPECT(boot_send(member->boot, to, key, &letter, sizeof letter) == COLLET_SUCCESS);
}

static int recv_far(struct member *member, int from, uint64_t key) {
    struct far_letter letter = {.number = -1};
    size_t bytes = 0;
    const uint64_t deadline_ns = fair_now_ns() + LIMIT_NS;
    while (boot_try_recv(member->boot, from, key, &letter, sizeof letter, &bytes) == COLLET_IN_PROGRESS) {
        EXPECT(fair_now_ns() < deadline_ns);
        nap();
    }
    EXPECT(bytes == sizeof letter);
    return letter.number;
}

static void exchange_far(struct member *member, int index, uint64_t key) {
    for (int number = 0; number < FAR_LETTERS; number++)
        for (int rank = 0; rank < FAR_PROCESSES; rank++)
            if (are_far(index, rank))
                send_far(member, rank, key, 100 * index + number);
    for (int number = 0; number < FAR_LETTERS; number++)
        for (int rank = 0; rank < FAR_PROCESSES; rank++)
            if (are_far(index, rank))
                EXPECT(recv_far(member, rank, key) == 100 * rank + number);
}

/* All letters of an exchange: between 2 … 8 and 9 … 15, in both directions. */
static const size_t FAR_BYTES = 2 * 7 * 7 * FAR_LETTERS * sizeof(struct far_letter);

/* Of the root, in an exchange of all that are far from each other. */
static size_t bytes_of_exchange(struct member *member, int index, uint64_t key, int barrier) {
    size_t before = __atomic_load_n(&sent_bytes, __ATOMIC_RELAXED);
    exchange_far(member, index, key);
    meet(barrier, FAR_PROCESSES);
    return __atomic_load_n(&sent_bytes, __ATOMIC_RELAXED) - before;
}

static int open_descriptors(void) {
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    EXPECT(dir != NULL);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static void await_descriptors(int most) {
    const uint64_t deadline_ns = fair_now_ns() + LIMIT_NS;
    while (open_descriptors() > most) {
        EXPECT(fair_now_ns() < deadline_ns);
        nap();
    }
}

/* The last letters come when links have been idle, and are closed. */
static void far_exchange(int index) {
    struct member member;
    configure(&member);
    member.config.heartbeat = 500; /* on a busy machine many beats would count as bytes, too */
    if (index == 0)
        publish_id();
    join(&member, FAR_PROCESSES, index);
    EXPECT(poll_init(&member) == COLLET_SUCCESS);
    meet(0, FAR_PROCESSES);
    const int before = open_descriptors();
    meet(1, FAR_PROCESSES);
    const size_t by_root = bytes_of_exchange(&member, index, 7, 2);
    if (index == 0 && by_root > FAR_BYTES / 4)
        fprintf(stderr, "the root sent %zu bytes of %zu\n", by_root, FAR_BYTES);
    EXPECT(index != 0 || by_root <= FAR_BYTES / 4); /* a busy machine sends beats while it waits */
    await_descriptors(before);
    meet(4, FAR_PROCESSES);
    exchange_far(&member, index, 8);
    EXPECT(boot_missing_count(member.boot) == 0);
    meet(5, FAR_PROCESSES);
    boot_destroy(member.boot);
}

static void letters_do_not_pass_the_root(void **state) {
    (void)state;
    run(FAR_PROCESSES, far_exchange);
}

enum { FEW = 2, NONE = 3, FEW_DESCRIPTORS = 24 }; /* processes that have room for few links, and for one */

static void limit_descriptors(int most) {
    const struct rlimit limit = {.rlim_cur = (rlim_t)most, .rlim_max = (rlim_t)most};
    EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* Beats come so late that none helps. */
static void far_exchange_without_room(int index) {
    struct member member;
    const uint64_t key = boot_key(BOOT_OFFER, 7);
    for (int fd = 3; index == FEW && fd < 4 * FEW_DESCRIPTORS; fd++) /* of whoever started this test */
        close(fd);
    if (index == FEW)
        limit_descriptors(FEW_DESCRIPTORS);
    configure(&member);
    member.config.heartbeat = 60000;
    if (index == 0)
        publish_id();
    join(&member, FAR_PROCESSES, index);
    EXPECT(poll_init(&member) == COLLET_SUCCESS);
    meet(0, FAR_PROCESSES);
    if (index == NONE) {
        limit_descriptors(4 * FEW_DESCRIPTORS);
        while (dup(0) >= 0)
            ;
    }
    meet(1, FAR_PROCESSES);
    for (int to = FEW; to <= NONE; to++)
        if (are_far(index, to))
            send_number(&member, to, key, index);
    for (int from = 9; (index == FEW || index == NONE) && from < FAR_PROCESSES; from++)
        EXPECT(recv_number(&member, from, key) == from);
    for (int to = 0; (index == FEW || index == NONE) && to < FAR_PROCESSES; to++)
        send_number(&member, to, key + 1, index);
    EXPECT(recv_number(&member, FEW, key + 1) == FEW && recv_number(&member, NONE, key + 1) == NONE);
    EXPECT(boot_failed(member.boot) == 0);
    meet(2, FAR_PROCESSES);
    if (index == FEW || index == NONE)
        _exit(0); /* a leak checker at exit() would need descriptors */
    boot_destroy(member.boot);
}

static void letters_find_processes_that_have_no_room_for_links(void **state) {
    (void)state;
    run(FAR_PROCESSES, far_exchange_without_room);
}

/* All pairs dial at the same time. Of each two connections one stays. */
static void dial_at_once(int index) {
    struct member member;
    configure(&member);
    member.config.heartbeat = 60000; /* no link is idle for two beats */
    if (index == 0)
        publish_id();
    join(&member, FAR_PROCESSES, index);
    EXPECT(poll_init(&member) == COLLET_SUCCESS);
    meet(0, FAR_PROCESSES);
    const int before = open_descriptors();
    meet(1, FAR_PROCESSES);
    exchange_all(&member, FAR_PROCESSES, index, 7);
    meet(2, FAR_PROCESSES);
    await_descriptors(before + FAR_PROCESSES - 1);
    meet(3, FAR_PROCESSES);
    boot_destroy(member.boot);
}

static void of_two_that_dial_at_once_one_link_stays(void **state) {
    (void)state;
    run(FAR_PROCESSES, dial_at_once);
}

enum { BREAKS = 40, LETTERS_A_BREAK = 20, DESCRIPTORS_MOST = 256 };

static bool is_tcp(int fd) {
    int domain = 0, listens = 1;
    socklen_t bytes = sizeof domain;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && (domain == AF_INET || domain == AF_INET6) &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && !listens;
}

/* Both ends send, and both break each connection that was not there before, in the midst of it. */
static void break_links(int index) {
    struct member member;
    bool before[DESCRIPTORS_MOST];
    begin(&member, 2, index);
    meet(0, 2);
    usleep(100000); /* the meeting point has closed its connections */
    for (int fd = 0; fd < DESCRIPTORS_MOST; fd++)
        before[fd] = is_tcp(fd);
    meet(1, 2);
    for (int round = 0; round < BREAKS; round++) {
        for (int k = 0; k < LETTERS_A_BREAK; k++)
            send_number(&member, 1 - index, 7, round * LETTERS_A_BREAK + k);
        usleep((useconds_t)(rand() % 3000));
        for (int fd = 0; fd < DESCRIPTORS_MOST; fd++)
            if (!before[fd] && is_tcp(fd))
                shutdown(fd, SHUT_RDWR);
    }
    for (int k = 0; k < BREAKS * LETTERS_A_BREAK; k++)
        EXPECT(recv_number(&member, 1 - index, 7) == k);
    int number;
    size_t bytes;
    meet(2, 2);
    EXPECT(boot_try_recv(member.boot, 1 - index, 7, &number, sizeof number, &bytes) == COLLET_IN_PROGRESS);
    EXPECT(boot_missing_count(member.boot) == 0);
    meet(3, 2);
    boot_destroy(member.boot);
}

static void letters_come_once_and_in_order_when_links_break(void **state) {
    (void)state;
    run(2, break_links);
}

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
    for (uint64_t deadline_ns = fair_now_ns() + LIMIT_NS; pending > 0; nap()) {
        pending = 0;
        for (int i = 0; i < 2; i++) {
            members[i].result = boot_try_init(members[i].boot);
            EXPECT(members[i].result >= 0 && fair_now_ns() < deadline_ns);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(local_ranks_get_messages_of_one_key_in_order),
        CASE(local_ranks_share_failures_and_goodbyes),
        CASE(a_broken_wire_is_explained_by_news_that_come_later),
        CASE(a_table_that_finds_no_memory_is_not_called_wrong),
        CASE(all_that_live_are_below_one_root_whoever_is_gone),
        CASE(five_processes_exchange_messages_and_hear_of_a_failure),
        CASE(agreed_knobs_are_rank_zeros_and_host_ids_make_nodes),
        CASE(two_processes_of_two_ranks_are_polled_in_one_thread),
        CASE(letters_do_not_pass_the_root),
        CASE(letters_find_processes_that_have_no_room_for_links),
        CASE(of_two_that_dial_at_once_one_link_stays),
        CASE(letters_come_once_and_in_order_when_links_break),
        CASE(a_process_that_made_the_id_may_fork_its_ranks),
    };
    return cmocka_run_group_tests_name("boot", tests, NULL, NULL);
}
