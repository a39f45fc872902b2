/* SPDX-License-Identifier: Apache-2.0
 *
 * The control plane and what is not of its job: strangers, ports and secrets, and nonsense from the wire.
 */
#include "boot/hub.c"
#include "common/boot_case.h"

#include "base/config_read.h"
#include "layers/launchers/local_meeting.h"

#include <stddef.h>
#include <sys/prctl.h>
#include <sys/un.h>

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
    EXPECT(fair_since_ns(begun_ns) < 4 * SECOND);
    meet(1, 3);
    boot_destroy(member.boot);
}

static void silent_clients_and_an_http_client_do_not_hinder(void **state) {
    (void)state;
    run(4, beside_strangers);
}

#define CROWD 1000 /* are there before the job begins; it keeps coming */

static void beside_a_crowd(int index) {
    struct member member;
    if (index == 2) {
        await(&shared->id_ready, 1);
        char garbage[200];
        for (int i = 0; i < CROWD + 200; i++) {
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
    EXPECT(fair_since_ns(begun_ns) < 4 * SECOND);
    meet(1, 2);
    boot_destroy(member.boot);
}

static void a_thousand_connections_of_garbage_do_no_harm(void **state) {
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

/* Index 0 has a character too few, index 1 just enough. */
static void with_a_short_secret(int index) {
    struct collet_unique_id id;
    setenv("COLLET_SECRET", index == 0 ? "a swordfish, 15" : "a swordfish, 16.", 1);
    enum collet_result result = boot_unique_id_at("127.0.0.1", 29500, getenv("COLLET_SECRET"), &id);
    EXPECT(result == (index == 0 ? COLLET_ERR_INVALID_USAGE : COLLET_SUCCESS));
    if (index == 0)
        EXPECT(strstr(err_last(), "COLLET_SECRET has 15 characters: use 16 or more") != NULL &&
               strstr(err_last(), "swordfish") == NULL);
}

static void a_secret_that_is_easy_to_guess_is_refused(void **state) {
    (void)state;
    run(2, with_a_short_secret);
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
    REFUSED(bad.nranks = BOOT_RANKS_MAX + 1);
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

/* A process of the same user that comes again and again, with a rank that the job does not have. */
static void pester(const char *job) {
    const int32_t rank = 99;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int length = snprintf(to.sun_path + 1, sizeof to.sun_path - 1, "collet/%u/%s", (unsigned)getuid(), job);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&to,
                    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)length) == 0)
            (void)!send(fd, &rank, sizeof rank, MSG_NOSIGNAL);
        close(fd);
    }
}

/* Another user's process that has taken the name of a job of this one. It says when by its end of a pipe. */
static void squat(const char *job, unsigned owner, int ready) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int length = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "collet/%u/%s", owner, job);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (setuid(65534) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 ||
        bind(fd, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)length) ||
        listen(fd, 8) != 0)
        _exit(1);
    close(ready);
    for (;;)
        pause();
}

static void both_sides_name_a_stranger_that_has_taken_the_name_of_a_job(void **state) {
    (void)state;
    struct collet_unique_id id;
    char job[32], name[64], none;
    int ready[2];
    if (geteuid() != 0)
        skip(); /* only root can become somebody else */
    snprintf(job, sizeof job, "squatted-%d", (int)getpid());
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0)
        squat(job, (unsigned)getuid(), ready[1]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &none, 1), 0);
    snprintf(name, sizeof name, "is taken on this host by process %d of user 65534", (int)child);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(local_meeting(job, 2, rank, &(struct config){.init_timeout = 600}, &id), COLLET_ERR_SYSTEM);
        assert_non_null(strstr(err_last(), name));
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
}

static void strangers_do_not_keep_a_job_waiting_for_its_ranks(void **state) {
    (void)state;
    struct collet_unique_id id;
    char job[32];
    snprintf(job, sizeof job, "pestered-%d", (int)getpid());
    const pid_t child = fork();
    if (child == 0)
        pester(job);
    const enum collet_result result = local_meeting(job, 2, 0, &(struct config){.init_timeout = 1}, &id);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(result, COLLET_ERR_TIMEOUT);
    assert_non_null(strstr(err_last(), "these ranks of the job have not come: 1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(ports_are_of_the_range_that_is_given),
        CASE(a_secret_that_is_easy_to_guess_is_refused),
        CASE(a_client_by_an_interface_that_is_excluded_gets_no_word),
        CASE(silent_clients_and_an_http_client_do_not_hinder),
        CASE(a_thousand_connections_of_garbage_do_no_harm),
        CASE(who_does_not_know_the_secret_is_refused),
        CASE(a_fault_in_the_watch_reaches_a_crash_handler),
        CASE(strangers_do_not_keep_a_job_waiting_for_its_ranks),
        CASE(both_sides_name_a_stranger_that_has_taken_the_name_of_a_job),
        CASE(a_card_that_cannot_be_is_refused),
        CASE(a_table_whose_ranks_are_out_of_place_is_refused),
        CASE(a_table_that_moves_a_rank_of_this_process_is_refused),
        CASE(nodes_and_failures_that_cannot_be_are_refused),
        CASE(agreed_knobs_out_of_bounds_are_refused),
    };
    return cmocka_run_group_tests_name("boot: strangers", tests, NULL, NULL);
}
