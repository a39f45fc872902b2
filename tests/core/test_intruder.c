/* SPDX-License-Identifier: Apache-2.0
 *
 * An attacker stands between the ranks and does not know the secret. It reads what passes, takes the port first, relays the
 * handshake, and then forges, repeats, changes or drops frames of the control plane. Afterwards it reads what is left in memory.
 *
 * This program's own send() stands on the way: every byte of the control plane goes through it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "boot/id.h"
#include "boot/table.h"
#include "common/level.h"
#include "common/ports.h"
#include "common/world.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ----------------------------------------------------------------------------------------------------------- on the way */

enum trick { NONE, FORGE, REPEAT, CHANGE, DROP };

/* Of this process. Some frames, since the first one may be the last of another connection, that with the meeting point. */
static enum trick trick;
static int tricks_left;
#define TRICKS 8

#define SNIFFED_BYTES (4u << 20)
struct sniffed {
    size_t bytes;
    char data[SNIFFED_BYTES];
};
static struct sniffed *sniffed; /* of all processes; NULL: nobody sniffs */

static void sniff(const void *data, size_t bytes) {
    size_t at = sniffed != NULL ? __atomic_fetch_add(&sniffed->bytes, bytes, __ATOMIC_RELAXED) : SNIFFED_BYTES;
    if (at + bytes <= SNIFFED_BYTES)
        memcpy(sniffed->data + at, data, bytes);
}

/* The first answer of a client in a handshake: a nonce, the proof that it knows the secret, and the opening of its stream. */
struct answer {
    int recorded;
    uint8_t words[88];
};
static struct answer *answer; /* of all processes; NULL: nobody records */

static void record(const void *data, size_t bytes) {
    int nobody = 0;
    if (answer == NULL || bytes != sizeof(answer->words) ||
        !__atomic_compare_exchange_n(&answer->recorded, &nobody, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    memcpy(answer->words, data, bytes);
    __atomic_store_n(&answer->recorded, 2, __ATOMIC_RELEASE); /* pairs with who replays it */
}

static ssize_t pass_on(int fd, const void *data, size_t bytes, int flags) {
    return syscall(SYS_sendto, fd, data, bytes, flags, NULL, 0);
}

/* The news of a failure, as a frame whose seal is only zeros. 4 is TREE_FAIL. */
static void send_forgery(int fd, int flags) {
    struct __attribute__((packed)) {
        uint32_t type, bytes;
        uint8_t tag;
        struct failure failure;
        uint8_t mac[16];
    } forgery = {4, sizeof(struct failure), 0, {COLLET_ERR_ABORTED, -1, "forged"}, {0}};
    pass_on(fd, &forgery, sizeof(forgery), flags);
}

static ssize_t send_changed(int fd, const void *data, size_t bytes, int flags) {
    char copy[4096];
    if (bytes > sizeof(copy))
        return pass_on(fd, data, bytes, flags);
    memcpy(copy, data, bytes);
    copy[bytes - 1] ^= 1;
    return pass_on(fd, copy, bytes, flags);
}

ssize_t send(int fd, const void *data, size_t bytes, int flags) {
    const enum trick now = __atomic_load_n(&trick, __ATOMIC_ACQUIRE);
    sniff(data, bytes);
    record(data, bytes);
    if (now == NONE || bytes <= 8)
        return pass_on(fd, data, bytes, flags);
    const int left = __atomic_fetch_sub(&tricks_left, 1, __ATOMIC_RELAXED);
    if (left <= 0 || (now == DROP && left % 2 != 0))
        return pass_on(fd, data, bytes, flags);
    if (now == DROP)
        return (ssize_t)bytes;
    if (now == CHANGE)
        return send_changed(fd, data, bytes, flags);
    ssize_t sent = pass_on(fd, data, bytes, flags);
    if (now == FORGE)
        send_forgery(fd, flags);
    else
        pass_on(fd, data, bytes, flags);
    return sent;
}

/* ------------------------------------------------------------------------------------------------------------- reading */

static const char secret[] = "the secret of this job";
static const char knob[] = "ring,tree"; /* travels, as rank 0's agreed value */

static void check_it_works(struct ranks *ranks, int rank, struct collet_comm *comm) {
    int x = rank + 1, n = ranks->nranks;
    ranks_try(ranks, rank, collet_allreduce(&x, &x, 1, COLLET_INT32, COLLET_SUM, comm, NULL));
    ranks_check(ranks, rank, x == n * (n + 1) / 2);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void join_by_environment(struct ranks *ranks, int rank) {
    struct collet_comm *comm;
    ranks_try(ranks, rank, collet_get_unique_id(&ranks->id)); /* of COLLET_COMM_ID: the same on every rank */
    ranks_try(ranks, rank, collet_comm_init_rank(&comm, ranks->nranks, ranks->id, rank));
    struct id id;
    id_unpack(&ranks->id, &id);
    memcpy(ranks->argument, id.secret, SECRET_BYTES);
    check_it_works(ranks, rank, comm);
}

static bool was_sniffed(const void *what, size_t bytes) {
    return memmem(sniffed->data, sniffed->bytes, what, bytes) != NULL;
}

/* A listener of loopback. */
static int listen_somewhere(int *port) {
    *port = port_free();
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)*port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 16), 0);
    return fd;
}

static void neither_a_secret_nor_a_frame_can_be_read_on_the_way(void **state) {
    (void)state;
    char where[32];
    snprintf(where, sizeof(where), "127.0.0.1:%d", port_free());
    const char *const variables[] = {"COLLET_COMM_ID", where, "COLLET_SECRET", secret, "COLLET_ALGO", knob, NULL};
    uint8_t *id_secret = ranks_share(SECRET_BYTES);
    sniffed = ranks_share(sizeof(*sniffed));
    world_run(&worlds[WORLD_SHM], 3, variables, join_by_environment, id_secret);
    assert_in_range(sniffed->bytes, 1000, SNIFFED_BYTES);
    assert_true(was_sniffed("collet\0", 7)); /* so begins each handshake */
    assert_false(was_sniffed(secret, sizeof(secret) - 1));
    assert_false(was_sniffed(id_secret, SECRET_BYTES));
    assert_false(was_sniffed(knob, sizeof(knob) - 1));
    ranks_unshare(sniffed, sizeof(*sniffed));
    ranks_unshare(id_secret, SECRET_BYTES);
    sniffed = NULL;
}

/* ------------------------------------------------------------------------------------------------------------ relaying */

static void fail_at_a_taken_port(struct ranks *ranks, int rank) {
    struct collet_unique_id id;
    struct collet_comm *comm;
    ranks_try(ranks, rank, collet_get_unique_id(&id));
    enum collet_result expected = rank == 0 ? COLLET_ERR_SYSTEM : COLLET_ERR_TIMEOUT;
    ranks_expect(ranks, rank, collet_comm_init_rank(&comm, 2, id, rank), expected, "init");
    ranks_check(ranks, rank, strstr(collet_last_error(NULL), ranks->argument) != NULL);
}

static void a_port_that_somebody_took_first_is_an_error_that_names_it(void **state) {
    (void)state;
    char where[32];
    int port, taken = listen_somewhere(&port);
    snprintf(where, sizeof(where), "127.0.0.1:%d", port);
    const char *const variables[] = {"COLLET_COMM_ID", where, "COLLET_INIT_TIMEOUT", "1", NULL};
    world_run(&worlds[WORLD_SHM], 2, variables, fail_at_a_taken_port, strchr(where, ':') + 1);
    close(taken);
}

static int connect_to(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool copy_some(int from, int to) {
    char data[4096];
    ssize_t got = recv(from, data, sizeof(data), 0);
    return got > 0 && pass_on(to, data, (size_t)got, MSG_NOSIGNAL) == got;
}

/* Passes every byte on, in both directions, for one client after the other. */
static void relay(int listener, int port) {
    for (;;) {
        int client = accept(listener, NULL, NULL), server = connect_to(port);
        struct pollfd ends[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
        for (bool open = server >= 0; open;) {
            poll(ends, 2, -1);
            if (ends[0].revents != 0)
                open = copy_some(client, server);
            if (open && ends[1].revents != 0)
                open = copy_some(server, client);
        }
        close(client);
        close(server);
    }
}

struct relay_case {
    int listener, port;
};

/* Rank 1 believes that the meeting point is where the relay listens. */
static void join_through_a_relay(struct ranks *ranks, int rank) {
    const struct relay_case *c = ranks->argument;
    struct collet_comm *comm;
    struct id id;
    ranks_new_id(ranks, rank);
    struct collet_unique_id packed = ranks->id;
    id_unpack(&packed, &id);
    if (rank == 2) {
        pid_t child = fork();
        if (child == 0)
            relay(c->listener, id.set.port);
        ranks->leftover = child;
        return;
    }
    if (rank == 1)
        id.set = (struct address_set){
            .addresses = {{.family = 4, .ip = {127, 0, 0, 1}}}, .count = 1, .port = (uint16_t)c->port};
    id_pack(&id, &packed);
    ranks_expect(ranks, rank, collet_comm_init_rank(&comm, 2, packed, rank), COLLET_ERR_TIMEOUT, "init");
    ranks_check(ranks, rank,
                strstr(collet_last_error(NULL), rank == 0 ? "came with another secret" : "refuses") != NULL);
}

static void a_relay_on_another_port_is_refused(void **state) {
    (void)state;
    static const char *const variables[] = {"COLLET_INIT_TIMEOUT", "1", NULL};
    struct relay_case c;
    c.listener = listen_somewhere(&c.port);
    world_run(&worlds[WORLD_SHM], 3, variables, join_through_a_relay, &c);
    close(c.listener);
}

/* ------------------------------------------------------------------------------------------------------- other versions */

/* Greets everybody as collet greeted before its frames were a stream of libsodium. */
static void greet_as_version_3(int listener) {
    static const char greeting[8 + 32] = "collet\0\3";
    for (;;) {
        int client = accept(listener, NULL, NULL);
        pass_on(client, greeting, sizeof(greeting), MSG_NOSIGNAL);
    }
}

static void join_another_version(struct ranks *ranks, int rank) {
    const struct relay_case *c = ranks->argument;
    struct collet_comm *comm;
    struct collet_unique_id packed;
    struct id id = {.set = {.addresses = {{.family = 4, .ip = {127, 0, 0, 1}}}, .count = 1, .port = (uint16_t)c->port}};
    if (rank == 1) {
        pid_t child = fork();
        if (child == 0)
            greet_as_version_3(c->listener);
        ranks->leftover = child;
        return;
    }
    id_pack(&id, &packed);
    ranks_expect(ranks, rank, collet_comm_init_rank(&comm, 2, packed, rank), COLLET_ERR_REMOTE, "init");
    ranks_check(ranks, rank, strstr(collet_last_error(NULL), "another version of collet listens there") != NULL);
}

static void another_version_of_collet_is_refused_in_words(void **state) {
    (void)state;
    struct relay_case c;
    c.listener = listen_somewhere(&c.port);
    world_run(&worlds[WORLD_SHM], 2, NULL, join_another_version, &c);
    close(c.listener);
}

/* ------------------------------------------------------------------------------------------------------------ tampering */

/* From when the communicator is ready, somebody tampers with what rank 1 sends: its next heartbeat. */
static void be_tampered_with(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    int x = 1;
    ranks_try(ranks, rank, collet_allreduce(&x, &x, 1, COLLET_INT32, COLLET_SUM, comm, NULL));
    tricks_left = TRICKS;
    if (rank == 1)
        __atomic_store_n(&trick, *(const enum trick *)ranks->argument, __ATOMIC_RELEASE);
    if (rank == 0) {
        ranks_expect(ranks, rank, collet_allreduce(&x, &x, 1, COLLET_INT32, COLLET_SUM, comm, NULL), COLLET_ERR_REMOTE,
                     "allreduce");
        ranks_check(ranks, rank, strstr(collet_last_error(NULL), "rank 1") != NULL);
    }
    ranks_barrier(ranks);
    ranks_try(ranks, rank, collet_comm_abort(comm));
}

static void tamper(enum trick with) {
    static const char *const variables[] = {"COLLET_HEARTBEAT", "50", "COLLET_TIMEOUT", "5", NULL};
    world_run(&worlds[WORLD_SHM], 2, variables, be_tampered_with, &with);
}

static void a_forged_failure_is_not_believed(void **state) {
    (void)state;
    tamper(FORGE);
}

static void a_repeated_frame_ends_the_connection(void **state) {
    (void)state;
    tamper(REPEAT);
}

static void a_changed_frame_ends_the_connection(void **state) {
    (void)state;
    tamper(CHANGE);
}

static void a_missing_frame_ends_the_connection(void **state) {
    (void)state;
    tamper(DROP);
}

/* ------------------------------------------------------------------------------------------- who reads memory afterwards */

static bool part_has(const uint8_t *at, ssize_t bytes, const uint8_t hidden[SECRET_BYTES]) {
    for (const uint8_t *end = at + bytes; at + SECRET_BYTES <= end; at++) {
        int k = 0;
        while (k < SECRET_BYTES && (at[k] ^ hidden[k]) == 0xff)
            k++;
        if (k == SECRET_BYTES)
            return true;
    }
    return false;
}

/* Another thread may unmap the region: so the kernel reads it. */
static bool region_has(int memory, unsigned long begin, unsigned long end, const uint8_t hidden[SECRET_BYTES]) {
    uint8_t part[16384];
    ssize_t bytes = sizeof(part);
    for (unsigned long at = begin; at < end && bytes > SECRET_BYTES; at += sizeof(part) - SECRET_BYTES) {
        bytes = pread(memory, part, end - at < sizeof(part) ? end - at : sizeof(part), (off_t)at);
        if (part_has(part, bytes, hidden))
            return true;
    }
    return false;
}

/* One of a secret or a key. */
static void hide(const uint8_t plain[SECRET_BYTES], uint8_t hidden[SECRET_BYTES]) {
    for (int k = 0; k < SECRET_BYTES; k++)
        hidden[k] = (uint8_t)~plain[k];
}

/* Is a secret, of which all bits are inverted here, in the heap or on a thread's stack? That of the first thread has the id that
 * the test itself passes. */
static bool memory_has(const uint8_t hidden[SECRET_BYTES]) {
    char line[512], access[8], path[256];
    bool found = false;
    const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && !found && fgets(line, sizeof(line), maps) != NULL) {
        unsigned long begin, end;
        path[0] = '\0';
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &begin, &end, access, path) >= 3 &&
            strcmp(access, "rw-p") == 0 && (path[0] == '\0' || strcmp(path, "[heap]") == 0))
            found = region_has(memory, begin, end, hidden);
    }
    if (maps != NULL)
        fclose(maps);
    close(memory);
    return found;
}

/* Comes to the meeting point without the secret: says nothing, part of an answer, or a wrong one. True: it was greeted, and then
 * shown the door without another word. */
static bool knock(const struct id *id, const void *words, size_t bytes) {
    struct sockaddr_storage to;
    char greeting[256];
    const socklen_t length = address_to_sockaddr(&id->set.addresses[0], id->set.port, &to);
    const int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool greeted =
        connect(fd, (struct sockaddr *)&to, length) == 0 && recv(fd, greeting, sizeof(greeting), 0) > 0;
    pass_on(fd, words, bytes, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    const bool answered = recv(fd, greeting, sizeof(greeting), 0) > 0;
    close(fd);
    return greeted && !answered;
}

/* Rank 2 knows what another rank said, and not yet the secret. */
static void replay(struct ranks *ranks, int rank) {
    struct collet_comm *comm;
    ranks_new_id(ranks, rank);
    if (rank == 2) {
        SCOPED_ID struct id id;
        id_unpack(&ranks->id, &id);
        while (__atomic_load_n(&answer->recorded, __ATOMIC_ACQUIRE) != 2)
            ranks_sleep_ms(1);
        ranks_check(ranks, rank, knock(&id, answer->words, sizeof(answer->words)));
    }
    ranks_try(ranks, rank, collet_comm_init_rank(&comm, ranks->nranks, ranks->id, rank));
    check_it_works(ranks, rank, comm);
}

static void a_recorded_proof_opens_no_door(void **state) {
    (void)state;
    answer = ranks_share(sizeof(*answer));
    world_run(&worlds[WORLD_SHM], 3, NULL, replay, NULL);
    ranks_unshare(answer, sizeof(*answer));
    answer = NULL;
}

static void look_for_secrets(struct ranks *ranks, int rank) {
    static const char nonsense[64];
    uint8_t hidden[SECRET_BYTES], hidden_key[SECRET_BYTES];
    struct collet_comm *comm;
    ranks_new_id(ranks, rank);
    {
        SCOPED_ID struct id id;
        SCOPED_KEY uint8_t key[SECRET_BYTES];
        id_unpack(&ranks->id, &id);
        id_key(id.secret, "meeting point", NULL, 0, key);
        hide(id.secret, hidden);
        hide(key, hidden_key);
        for (size_t bytes = 0; bytes <= 64 && rank == 0; bytes += 32)
            ranks_check(ranks, rank, knock(&id, nonsense, bytes));
    }
    ranks_try(ranks, rank, collet_comm_init_rank(&comm, ranks->nranks, ranks->id, rank));
    ranks_check(ranks, rank, memory_has(hidden));
    check_it_works(ranks, rank, comm);
    const uint64_t limit_ns = ranks_now_ns() + 10000000000u; /* the watch needs a moment */
    while ((memory_has(hidden) || memory_has(hidden_key)) && ranks_now_ns() < limit_ns)
        ranks_sleep_ms(10);
    ranks_check(ranks, rank, !memory_has(hidden));
    ranks_check(ranks, rank, !memory_has(hidden_key));
}

static void secrets_and_keys_are_nowhere_when_their_communicator_is_gone(void **state) {
    (void)state;
    if (LEVEL_SLOWER > 1)
        skip(); /* a sanitizer keeps memory that was freed, and has too much to look through */
    world_run(&worlds[WORLD_SHM], 2, NULL, look_for_secrets, NULL);
    world_run(&worlds[WORLD_TCP], 2, NULL, look_for_secrets, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neither_a_secret_nor_a_frame_can_be_read_on_the_way),
        cmocka_unit_test(a_port_that_somebody_took_first_is_an_error_that_names_it),
        cmocka_unit_test(a_relay_on_another_port_is_refused),
        cmocka_unit_test(another_version_of_collet_is_refused_in_words),
        cmocka_unit_test(a_forged_failure_is_not_believed),
        cmocka_unit_test(a_repeated_frame_ends_the_connection),
        cmocka_unit_test(a_changed_frame_ends_the_connection),
        cmocka_unit_test(a_missing_frame_ends_the_connection),
        cmocka_unit_test(a_recorded_proof_opens_no_door),
        cmocka_unit_test(secrets_and_keys_are_nowhere_when_their_communicator_is_gone),
    };
    return cmocka_run_group_tests_name("intruder", tests, NULL, NULL);
}
