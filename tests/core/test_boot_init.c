/* SPDX-License-Identifier: Apache-2.0
 *
 * Init that fails, or nearly: contradictions, ids of the past, no memory, no descriptors, no /proc. Nothing stays behind.
 */
#include "common/boot_case.h"

#include <sys/syscall.h>

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
    EXPECT(fair_since_ns(begun_ns) < 3 * SECOND); /* the one that would wait longer hears of it too */
    EXPECT(strstr(err_last(), "have not come: 1") != NULL);
    boot_destroy(member.boot);
}

static void an_init_that_takes_too_long_names_the_missing_rank(void **state) {
    (void)state;
    run(2, one_never_comes);
}

enum { STOPPER = 2 }; /* a process that is no rank */

/* Rank 2, of the second process, stands still when it should ask who is missing, and goes on behind its deadline. */
static void one_asks_late(int index) {
    struct member member;
    if (index == STOPPER) {
        await(&shared->grandchild, 1);
        usleep(1500000);
        kill(shared->grandchild, SIGSTOP);
        usleep(2000000);
        kill(shared->grandchild, SIGCONT);
        shared->grandchild = 0;
        return;
    }
    configure(&member);
    member.config.init_timeout = index == 0 ? 20 : 3;
    if (index == 0)
        publish_id();
    join(&member, 3, index * 2);
    if (index == 1)
        __atomic_store_n(&shared->grandchild, getpid(), __ATOMIC_SEQ_CST);
    EXPECT(poll_init(&member) == COLLET_ERR_TIMEOUT);
    EXPECT(strstr(err_last(), "have not come: 1") != NULL);
    boot_destroy(member.boot);
}

static void a_rank_that_stood_still_at_its_deadline_names_the_missing_rank(void **state) {
    (void)state;
    run(3, one_asks_late);
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

/* The watch finds a failure, and has no CPU before it can tell the others. */
struct discovery {
    struct watch_task task;
    struct hub *hub;
};

static void discover(struct watch_task *task) {
    hub_give_up(WATCH_OWNER(task, struct discovery, task)->hub, COLLET_ERR_SYSTEM, "rank 0 found the cause");
    usleep(BOOT_TELL_NS / 1000 / 4);
}

static void one_hears_of_it_and_exits(int index) {
    static struct discovery discovery;
    struct member member;
    configure(&member);
    if (index == 0)
        publish_id();
    join(&member, 3, index); /* rank 2 never comes */
    if (index == 0) {
        usleep(300000);
        discovery.hub = member.boot->hub;
        watch_task_init(&discovery.task, discovery.hub->watch, discover);
        watch_post(&discovery.task);
    }
    EXPECT(poll_init(&member) == COLLET_ERR_SYSTEM);
    EXPECT(strstr(err_last(), "rank 0 found the cause") != NULL);
    boot_destroy(member.boot);
    if (index == 0)
        _exit(0);
}

static void a_rank_that_hears_of_a_failure_and_exits_does_not_take_the_news_with_it(void **state) {
    (void)state;
    run(2, one_hears_of_it_and_exits);
}

static void id_of_the_past(int index) {
    struct member member;
    begin(&member, 2, index);
    boot_destroy(member.boot);
    meet(0, 2);
    join(&member, 2, index);
    EXPECT(poll_init(&member) == COLLET_ERR_REMOTE);
    EXPECT(strstr(err_last(), "nobody of this job listens at the meeting point any more") != NULL);
    boot_destroy(member.boot);
}

static void an_id_cannot_be_used_twice(void **state) {
    (void)state;
    run(2, id_of_the_past);
}

/* ---------------------------------------------------------------------------------- meeting points of a failed init */

static int only_port; /* connections of this process to others are refused; 0: none are */

int connect(int fd, const struct sockaddr *to, socklen_t bytes) {
    const bool is_tcp = to->sa_family == AF_INET || to->sa_family == AF_INET6; /* the port lies at one place in both */
    if (only_port != 0 && is_tcp && ntohs(((const struct sockaddr_in *)(const void *)to)->sin_port) != only_port) {
        errno = ECONNREFUSED;
        return -1;
    }
    return (int)syscall(SYS_connect, fd, to, bytes);
}

static int port_of_id(void) {
    struct id id;
    EXPECT(id_unpack(&shared->id, &id) == COLLET_SUCCESS);
    return id.set.port;
}

static bool somebody_listens(int port) {
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool listens = connect(fd, (const struct sockaddr *)&to, sizeof to) == 0;
    close(fd);
    return listens;
}

static void await_closed(int port) {
    const uint64_t deadline_ns = fair_now_ns() + LIMIT_NS;
    while (somebody_listens(port)) {
        EXPECT(fair_now_ns() < deadline_ns);
        nap();
    }
}

static bool all_have_come(const struct member *member) {
    SCOPED_LOCK(&member->boot->hub->lock);
    return member->boot->hub->phase == HUB_LINKS;
}

/* Both come to the meeting point, and cannot connect to each other. */
static void fail_to_link(int index) {
    struct member member;
    configure(&member);
    if (index == 0)
        publish_id();
    await(&shared->id_ready, 1);
    if (index == 1)
        only_port = port_of_id();
    join(&member, 2, index);
    const uint64_t limit_ns = fair_now_ns() + LIMIT_NS;
    while (index == 0 && !all_have_come(&member)) {
        EXPECT(fair_now_ns() < limit_ns);
        nap();
    }
    if (index == 0)
        boot_fail(member.boot, COLLET_ERR_ABORTED, "rank 0 gave up");
    EXPECT(poll_init(&member) == COLLET_ERR_ABORTED);
    boot_destroy(member.boot);
    if (index == 0)
        await_closed(port_of_id());
}

static void a_meeting_point_to_which_all_have_come_closes_when_init_fails(void **state) {
    (void)state;
    run(2, fail_to_link);
}

static void come_to_a_cancelled_id(int index) {
    struct member member;
    if (index == 0) {
        publish_id();
        EXPECT(somebody_listens(port_of_id()));
        boot_cancel_id(&shared->id, COLLET_ERR_NO_MEMORY, "rank 0 has no memory");
        reach(0);
        await(&shared->reached[1], 1);
        return;
    }
    await(&shared->reached[0], 1);
    configure(&member);
    join(&member, 2, 1);
    EXPECT(poll_init(&member) == COLLET_ERR_NO_MEMORY);
    EXPECT(strstr(err_last(), "rank 0 has no memory") != NULL);
    boot_destroy(member.boot);
    reach(1);
}

static void nobody_comes_to_a_cancelled_id(int index) {
    (void)index;
    setenv("COLLET_INIT_TIMEOUT", "1", 1);
    publish_id();
    boot_cancel_id(&shared->id, COLLET_ERR_NO_MEMORY, "rank 0 has no memory");
    await_closed(port_of_id());
}

static void the_meeting_point_of_a_cancelled_id_says_why_and_closes(void **state) {
    (void)state;
    run(2, come_to_a_cancelled_id);
    run(1, nobody_comes_to_a_cancelled_id);
}

/* ------------------------------------------------------------------------------------------------- ids by host and port */

/* The same listed id again and again. Each time the keys are others, so a connection that comes late is refused. */
static void listed_three_times(int index) {
    enum { TIMES = 3 };
    struct member member;
    uint8_t keys[TIMES][BOOT_KEY_BYTES];
    uint64_t tags[TIMES];
    configure(&member);
    EXPECT(boot_unique_id_at("127.0.0.1", shared->port, "the secret", &shared->id) == COLLET_SUCCESS);
    shared->id_ready = 1;
    if (index == 0)
        usleep(200000); /* the others have to try for a while */
    for (int i = 0; i < TIMES; i++) {
        join(&member, 3, index);
        EXPECT(poll_init(&member) == COLLET_SUCCESS);
        exchange_all(&member, 3, index, 1);
        boot_derive_key(member.boot, "tree", NULL, 0, keys[i]);
        tags[i] = boot_tag(member.boot);
        for (int earlier = 0; earlier < i; earlier++)
            EXPECT(memcmp(keys[earlier], keys[i], BOOT_KEY_BYTES) != 0 && tags[earlier] != tags[i]);
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

/* ----------------------------------------------------------------------------------------------------------- no memory */

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
    join(&member, BOOT_RANKS_MAX, 1);
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
    const uint64_t begun_ns = os_now_ns(), limit_ns = fair_now_ns() + LIMIT_NS;
    member.result = boot_join(&shared->id, 2, index, &on_host, &member.config, &member.boot);
    while (member.boot != NULL && (member.result = boot_try_init(member.boot)) == COLLET_IN_PROGRESS &&
           (index == limited || shared->reached[0] == 0)) {
        EXPECT(fair_now_ns() < limit_ns);
        nap();
    }
    if (index == limited) {
        EXPECT(fair_since_ns(begun_ns) < 5 * SECOND);
        EXPECT(member.result == COLLET_SUCCESS ||
               (member.result == COLLET_ERR_SYSTEM && strstr(err_last(), "ulimit -n") != NULL && !may_raise));
        if (member.result == COLLET_SUCCESS) /* it has found out who is of its host */
            EXPECT(boot_peers(member.boot)[0].node == 0 && boot_peers(member.boot)[1].node == 0);
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

/* As if there is no /proc. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_rank_taken_twice_ends_init_for_all),
        CASE(a_different_nranks_ends_init_for_all),
        CASE(an_outsider_that_comes_when_all_have_come_disturbs_nobody),
        CASE(a_process_cannot_create_a_rank_twice),
        CASE(an_init_that_takes_too_long_names_the_missing_rank),
        CASE(a_rank_that_stood_still_at_its_deadline_names_the_missing_rank),
        CASE(a_failure_during_init_reaches_those_that_have_come),
        CASE(a_death_during_init_is_named),
        CASE(a_rank_that_hears_of_a_failure_and_exits_does_not_take_the_news_with_it),
        CASE(an_id_cannot_be_used_twice),
        CASE(a_meeting_point_to_which_all_have_come_closes_when_init_fails),
        CASE(the_meeting_point_of_a_cancelled_id_says_why_and_closes),
        CASE(ranks_meet_at_the_same_host_and_port_again_and_again),
        CASE(a_table_too_large_for_the_meeting_point_ends_init_and_not_the_process),
        CASE(init_without_descriptors_says_so_at_once_unless_it_may_have_more),
        CASE(the_watch_starts_where_threads_cannot_be_named),
    };
    return cmocka_run_group_tests_name("boot: init", tests, NULL, NULL);
}
