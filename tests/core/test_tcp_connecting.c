/* SPDX-License-Identifier: Apache-2.0
 *
 * How the sockets of two ranks come to be: strangers, attempts, ways, and what cannot be reached (common/tcp_pair.h).
 */
#include "boot/interfaces.h"
#include "common/tcp_pair.h"
#include "transport/tcp_socket.c"
#include "transport/tcp_way.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

static int connect_stranger(const struct tcp_offer *offer, const void *words, size_t bytes) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(offer->set.port)};
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    if (bytes > 0)
        assert_int_equal(send(fd, words, bytes, MSG_NOSIGNAL), bytes);
    return fd;
}

static bool was_dropped(struct pair *pair, int fd) {
    char byte;
    for (int k = 0; k < 1000; k++) {
        conn_try(pair->consumer);
        ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return true;
        usleep(100);
    }
    return false;
}

static void strangers_are_dropped_and_do_not_keep_the_producer_out(void **state) {
    (void)state;
    static const char http[] = "GET / HTTP/1.1\r\nHost: here, somewhere\r\n\r\n";
    struct tcp_hello hello = {.magic = 0x636f6c31, .attempt = 7, .index = 0};
    struct pair pair;
    pair_init(&pair, (struct shape){8, 4096, 2, 0});
    struct tcp_offer offer = take_offer(&pair);
    int browser = connect_stranger(&offer, http, sizeof(http));
    int guesser = connect_stranger(&offer, &hello, sizeof(hello));
    int gone = connect_stranger(&offer, "x", 1);
    close(gone);
    int silent[2 * TCP_STRANGERS_MAX];
    for (int k = 0; k < 2 * TCP_STRANGERS_MAX; k++)
        silent[k] = connect_stranger(&offer, NULL, 0);
    assert_true(was_dropped(&pair, browser));
    assert_true(was_dropped(&pair, guesser));
    assert_true(was_dropped(&pair, silent[0])); /* more than there is room for */
    tell_offer(&pair, &offer, sizeof(offer));
    connect_ends(pair.producer, pair.consumer);
    assert_true(was_dropped(&pair, silent[2 * TCP_STRANGERS_MAX - 1])); /* nobody listens any more */
    move_slots(&pair, 50);
    pair_close(&pair);
    close(browser);
    close(guesser);
    for (int k = 0; k < 2 * TCP_STRANGERS_MAX; k++)
        close(silent[k]);
}

static void a_new_attempt_replaces_the_sockets_of_one_that_was_given_up(void **state) {
    (void)state;
    struct pair pair;
    pair_init(&pair, (struct shape){8, 4096, 2, 0});
    struct tcp_offer offer = take_offer(&pair);
    struct tcp_hello hello = {.magic = 0x636f6c31, .attempt = 0, .index = 1};
    tcp_proof(offer.token, "hello", 0, 1, hello.proof);
    int old = connect_stranger(&offer, &hello, sizeof(hello));
    for (int k = 0; k < 20; k++)
        assert_int_equal(conn_try(pair.consumer), COLLET_IN_PROGRESS);
    /* 255.255.255.255 cannot be connected to, so the producer comes with its second attempt. */
    offer.set.addresses[1] = offer.set.addresses[0];
    memset(&offer.set.addresses[0], 0xff, sizeof(offer.set.addresses[0]));
    offer.set.addresses[0].family = 4;
    offer.set.count = 2;
    tell_offer(&pair, &offer, sizeof(offer));
    connect_ends(pair.producer, pair.consumer);
    move_slots(&pair, 50);
    pair_close(&pair);
    close(old);
}

/* The consumer's socket 0 has come. Somebody who heard its hello wants the other one, or a new attempt that replaces both. */
static void an_overheard_hello_opens_no_other_socket(void **state) {
    (void)state;
    struct pair pair;
    pair_init(&pair, (struct shape){8, 4096, 2, 0});
    struct tcp_offer offer = take_offer(&pair);
    struct tcp_hello hello = {.magic = 0x636f6c31, .attempt = 0, .index = 0};
    tcp_proof(offer.token, "hello", 0, 0, hello.proof);
    int real = connect_stranger(&offer, &hello, sizeof(hello));
    for (int k = 0; k < 20; k++)
        assert_int_equal(conn_try(pair.consumer), COLLET_IN_PROGRESS);
    const struct tcp_hello heard[] = {hello, {hello.magic, 0, 1, {0}}, {hello.magic, 1, 0, {0}}};
    for (int k = 0; k < 3; k++) {
        struct tcp_hello replayed = heard[k];
        memcpy(replayed.proof, hello.proof, sizeof(hello.proof));
        int thief = connect_stranger(&offer, &replayed, sizeof(replayed));
        assert_true(was_dropped(&pair, thief));
        close(thief);
    }
    char byte;
    assert_true(recv(real, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
    tell_offer(&pair, &offer, sizeof(offer));
    close(real);
    pair_close(&pair);
}

/* Somebody else listens where the offer says, and echoes: neither the hello nor anything else that it could know is an ack. */
static void who_took_the_port_cannot_pass_for_the_listener(void **state) {
    (void)state;
    struct tcp_offer offer = {.set = {.count = 1, .addresses = {{.family = 4, .ip = {127, 0, 0, 1}}}}, .token = {7}};
    struct tcp_dialer dialer;
    struct tcp_hello hello;
    int fds[1], listener = address_listen(AF_INET, 0), taken = -1;
    offer.set.port = (uint16_t)address_port(listener);
    tcp_dial_start(&dialer, &offer, "", 1, 1, "here");
    patience_begin();
    while (taken < 0) { /* the listener does not wait */
        be_patient();
        assert_int_equal(tcp_dial_try(&dialer, fds), COLLET_IN_PROGRESS);
        taken = accept(listener, NULL, NULL);
    }
    for (size_t got = 0; got < sizeof(hello);) {
        be_patient();
        assert_int_equal(tcp_dial_try(&dialer, fds), COLLET_IN_PROGRESS);
        ssize_t n = recv(taken, (char *)&hello + got, sizeof(hello) - got, MSG_DONTWAIT);
        got += n > 0 ? (size_t)n : 0;
    }
    assert_int_equal(send(taken, hello.proof, sizeof(hello.proof), MSG_NOSIGNAL), sizeof(hello.proof));
    while (dialer.attempt == 0) { /* that one has failed */
        be_patient();
        assert_int_equal(tcp_dial_try(&dialer, fds), COLLET_IN_PROGRESS);
    }
    assert_int_equal(dialer.error, EPROTO);
    tcp_dial_stop(&dialer);
    close(taken);
    close(listener);
}

/* ---------------------------------------------------------------------------------------------------------------- ways */

static struct address address_at(uint8_t first, uint8_t link, uint8_t speed) {
    return (struct address){.family = 4, .link = link, .speed = speed, .ip = {first, 0, 0, 1}};
}

static void assert_rails(const struct address_set *set, unsigned failed, int nways, int first, int second) {
    int ways[ADDRESS_MAX] = {-1, -1, -1, -1};
    assert_int_equal(tcp_ways_choose(set, failed, ways), nways);
    assert_int_equal(ways[0], first);
    assert_int_equal(ways[1], second);
}

static void ways_are_the_fastest_interfaces_that_have_not_failed(void **state) {
    (void)state;
    struct address_set set = {.count = 4};
    set.addresses[0] = address_at(10, 2, 9);
    set.addresses[1] = address_at(11, 3, 16);
    set.addresses[2] = address_at(12, 4, 16);
    set.addresses[3] = address_at(127, 1, 0);
    assert_rails(&set, 0, 2, 1, 2);
    assert_rails(&set, 1u << 1, 1, 2, -1);
    assert_rails(&set, 3u << 1, 1, 0, -1);
    assert_rails(&set, 7u, 1, 3, -1);
    assert_rails(&set, 15u, 0, -1, -1);
}

static void an_interface_is_one_rail_by_the_first_of_its_addresses_that_has_not_failed(void **state) {
    (void)state;
    struct address_set set = {.count = 4};
    set.addresses[0] = address_at(10, 2, 0);
    set.addresses[1] = address_at(11, 3, 0);
    set.addresses[2] = address_at(12, 2, 0);
    set.addresses[3] = address_at(13, 3, 0);
    assert_rails(&set, 0, 2, 0, 1);
    assert_rails(&set, 1u << 0, 2, 1, 2);
    assert_rails(&set, 3u, 2, 2, 3);
}

/* 127.0.0.2 is an address of this host too; 255.255.255.255 cannot be connected to. */
static void sockets_are_spread_over_the_rails(void **state) {
    (void)state;
    struct pair pair;
    struct tcp_listener listener;
    struct tcp_dialer dialer;
    struct tcp_offer offer;
    char text[3][ADDRESS_TEXT_BYTES];
    int theirs[3], ours[3];
    enum collet_result result = COLLET_IN_PROGRESS;
    pair_init(&pair, (struct shape){8, 4096, 2, 0});
    assert_int_equal(tcp_listen_start(&listener, &pair.configs[0], "", 3, &offer), COLLET_SUCCESS);
    offer.set.count = 3;
    offer.set.addresses[0] = address_at(127, 1, 0);
    offer.set.addresses[1] = address_at(127, 2, 0);
    offer.set.addresses[1].ip[3] = 2;
    offer.set.addresses[2] = address_at(255, 3, 0);
    memset(offer.set.addresses[2].ip, 0xff, 4);
    tcp_dial_start(&dialer, &offer, "", 3, 1, "host1");
    while (tcp_listen_try(&listener, theirs) == COLLET_IN_PROGRESS) {
        be_patient();
        result = tcp_dial_try(&dialer, ours);
        assert_true(result >= 0);
    }
    while (result == COLLET_IN_PROGRESS) {
        be_patient();
        result = tcp_dial_try(&dialer, ours);
    }
    assert_int_equal(result, COLLET_SUCCESS);
    for (int k = 0; k < 3; k++) {
        tcp_peer_text(ours[k], text[k]);
        close(ours[k]);
        close(theirs[k]);
    }
    assert_non_null(strstr(text[0], "127.0.0.1:"));
    assert_non_null(strstr(text[1], "127.0.0.2:"));
    assert_non_null(strstr(text[2], "127.0.0.1:"));
    pair_close(&pair);
}

/* ---------------------------------------------------------------------------------------------------------------- ties */

/* A dialer whose offer has three addresses of the listener: 127.0.0.1, and the two given ones. */
static int dial(struct pair *pair, const struct address *second, const struct address *third, const char *interface,
                char text[ADDRESS_TEXT_BYTES]) {
    struct tcp_listener listener;
    struct tcp_dialer dialer;
    struct tcp_offer offer;
    int theirs[1], ours[1];
    enum collet_result listened = COLLET_IN_PROGRESS, dialed = COLLET_IN_PROGRESS;
    assert_int_equal(tcp_listen_start(&listener, &pair->configs[0], "", 1, &offer), COLLET_SUCCESS);
    offer.set.count = 3;
    offer.set.addresses[0] = address_at(127, 1, 0);
    offer.set.addresses[1] = *second;
    offer.set.addresses[2] = *third;
    tcp_dial_start(&dialer, &offer, interface, 1, 1, "host1");
    while (listened == COLLET_IN_PROGRESS || dialed == COLLET_IN_PROGRESS) {
        be_patient();
        if (listened == COLLET_IN_PROGRESS)
            listened = tcp_listen_try(&listener, theirs);
        if (dialed == COLLET_IN_PROGRESS)
            dialed = tcp_dial_try(&dialer, ours);
        assert_true(listened >= 0 && dialed >= 0);
    }
    tcp_peer_text(ours[0], text);
    close(ours[0]);
    close(theirs[0]);
    return (int)dialer.attempt;
}

static struct address wanted(struct address address, uint8_t last) {
    address.wanted = 1;
    address.ip[3] = last;
    return address;
}

static void only_wanted_addresses_are_dialed_while_they_answer(void **state) {
    (void)state;
    struct pair pair;
    char text[ADDRESS_TEXT_BYTES];
    const struct address other = address_at(127, 2, 9), good = wanted(address_at(127, 3, 0), 3);
    struct address bad = wanted(address_at(255, 3, 0), 255);
    memset(bad.ip, 0xff, 4); /* cannot be connected to */
    pair_init(&pair, (struct shape){8, 4096, 2, 0});
    assert_int_equal(dial(&pair, &other, &good, "", text), 0);
    assert_non_null(strstr(text, "127.0.0.3:"));
    assert_int_equal(dial(&pair, &other, &good, "lo", text), 0); /* bound to an interface that leads there */
    assert_non_null(strstr(text, "127.0.0.3:"));
    assert_int_equal(dial(&pair, &bad, &good, "", text), 1); /* the interface has another address */
    assert_non_null(strstr(text, "127.0.0.3:"));
    assert_int_equal(dial(&pair, &other, &bad, "", text), 2); /* nor does it by any other way: no longer tied */
    assert_non_null(strstr(text, "127.0.0.1:"));
    assert_int_equal(dial(&pair, &other, &good, "nosuch0", text), 1); /* our own interface is gone: the same */
    assert_non_null(strstr(text, "127.0.0.1:"));
    pair_close(&pair);
}

static void addresses_of_a_wanted_interface_come_first_and_are_marked(void **state) {
    (void)state;
    struct address_set set, plain;
    assert_int_equal(address_local("", 0, "", &plain), COLLET_SUCCESS);
    assert_int_equal(tcp_ways_wanted(&plain), 0);
    for (int k = 0; k < plain.count; k++) {
        char interface[ADDRESS_INTERFACE_BYTES];
        address_interface(&plain.addresses[k], interface);
        if (address_is_loopback(&plain.addresses[k]))
            continue;
        assert_int_equal(address_local("", 0, interface, &set), COLLET_SUCCESS);
        assert_int_equal(set.addresses[0].link, plain.addresses[k].link);
        assert_true(tcp_ways_wanted(&set) & 1);
        for (int i = 0; i < set.count; i++)
            assert_int_equal(set.addresses[i].wanted, set.addresses[i].link == set.addresses[0].link);
    }
}

static void a_peer_that_cannot_be_reached_is_named_with_its_addresses(void **state) {
    (void)state;
    struct pair pair;
    enum collet_result result;
    pair_init(&pair, (struct shape){8, 4096, 2, 0});
    assert_int_equal(conn_try(pair.consumer), COLLET_IN_PROGRESS);
    conn_close(pair.consumer); /* its port is closed now */
    while ((result = conn_try(pair.producer)) == COLLET_IN_PROGRESS)
        be_patient();
    assert_int_equal(result, COLLET_ERR_SYSTEM);
    assert_non_null(strstr(err_last(), "rank 0 (host host0) at 127.0.0.1:"));
    assert_non_null(strstr(err_last(), "refused"));
    pair_close(&pair);
}

static void an_interface_that_does_not_exist_is_an_error(void **state) {
    (void)state;
    struct pair pair;
    pair_init(&pair, (struct shape){8, 4096, 2, 0});
    strcpy(pair.configs[0].socket_ifname, "nosuch");
    assert_int_equal(conn_try(pair.consumer), COLLET_ERR_SYSTEM);
    assert_non_null(strstr(err_last(), "nosuch"));
    pair_close(&pair);
}

static void an_offer_that_makes_no_sense_is_refused(void **state) {
    (void)state;
    struct pair pair;
    pair_init(&pair, (struct shape){8, 4096, 2, 0});
    struct tcp_offer offer = take_offer(&pair);
    tell_offer(&pair, &offer, sizeof(offer) - 1);
    assert_int_equal(conn_try(pair.producer), COLLET_ERR_INTERNAL);
    offer.set.count = 200;
    tell_offer(&pair, &offer, sizeof(offer));
    assert_int_equal(conn_try(pair.producer), COLLET_ERR_INTERNAL);
    pair_close(&pair);
}

static void ends_that_never_connected_can_be_closed(void **state) {
    (void)state;
    struct pair pair;
    pair_init(&pair, (struct shape){8, 4096, 2, 0});
    assert_int_equal(conn_try(pair.consumer), COLLET_IN_PROGRESS);
    assert_int_equal(conn_try(pair.producer), COLLET_IN_PROGRESS);
    pair_close(&pair);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(strangers_are_dropped_and_do_not_keep_the_producer_out, random_slots),
        cmocka_unit_test_setup(a_new_attempt_replaces_the_sockets_of_one_that_was_given_up, random_slots),
        cmocka_unit_test_setup(an_overheard_hello_opens_no_other_socket, random_slots),
        cmocka_unit_test(who_took_the_port_cannot_pass_for_the_listener),
        cmocka_unit_test(ways_are_the_fastest_interfaces_that_have_not_failed),
        cmocka_unit_test(an_interface_is_one_rail_by_the_first_of_its_addresses_that_has_not_failed),
        cmocka_unit_test(sockets_are_spread_over_the_rails),
        cmocka_unit_test(only_wanted_addresses_are_dialed_while_they_answer),
        cmocka_unit_test(addresses_of_a_wanted_interface_come_first_and_are_marked),
        cmocka_unit_test_setup(a_peer_that_cannot_be_reached_is_named_with_its_addresses, random_slots),
        cmocka_unit_test_setup(an_interface_that_does_not_exist_is_an_error, random_slots),
        cmocka_unit_test_setup(an_offer_that_makes_no_sense_is_refused, random_slots),
        cmocka_unit_test_setup(ends_that_never_connected_can_be_closed, random_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
