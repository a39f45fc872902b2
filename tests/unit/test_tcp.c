/* SPDX-License-Identifier: Apache-2.0
 *
 * The tcp transport between two ends in one process, over loopback, with the executor's part (publish, consume) done by
 * hand. Some cases put a hand-made end on one side, which does what no end of ours would.
 */
#include "common/slots.h"

#include "base/err.h"
#include "base/os.h"
#include "transport/tcp_socket.h"
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

extern const struct transport transport_tcp;

#define PATIENCE_NS 20000000000ull

/* -------------------------------------------------------------------------------------------------- two ends, one process */

struct shape {
    uint32_t nslots, slot_bytes;
    int nsockets;
    uint64_t first_step;
};

struct pair {
    struct config config;
    struct peer_info peers[2];
    struct chan chans[2];
    struct conn producer, consumer; /* of rank 0 and rank 1 */
    struct conn_blob blob;
    uint64_t deadline_ns;
};

static void pair_init(struct pair *pair, struct shape shape) {
    memset(pair, 0, sizeof(*pair));
    assert_int_equal(config_read(&pair->config), COLLET_SUCCESS);
    strcpy(pair->config.socket_ifname, "=lo");
    pair->config.nsockets = shape.nsockets;
    pair->config.first_step = (int64_t)shape.first_step;
    for (int rank = 0; rank < 2; rank++) {
        pair->peers[rank].rank = rank;
        snprintf(pair->peers[rank].host, sizeof(pair->peers[rank].host), "host%d", rank);
        pair->chans[rank] = (struct chan){.config = &pair->config, .peers = pair->peers, .nranks = 2, .rank = rank};
        pair->chans[rank].layout = fifo_layout_of(shape.nslots, shape.slot_bytes, 256);
    }
    pair->producer = (struct conn){.side = CONN_PRODUCER, .peer = 1, .chan = &pair->chans[0]};
    pair->consumer = (struct conn){.side = CONN_CONSUMER, .peer = 0, .chan = &pair->chans[1]};
    pair->deadline_ns = os_now_ns() + PATIENCE_NS;
}

static void be_patient(const struct pair *pair) {
    if (os_now_ns() > pair->deadline_ns)
        fail_msg("nothing came of it in %llu s", PATIENCE_NS / 1000000000ull);
}

static struct tcp_offer *offer_of(struct pair *pair) { return (struct tcp_offer *)(void *)pair->blob.data; }

static void pair_offer(struct pair *pair, struct shape shape) {
    pair_init(pair, shape);
    assert_int_equal(transport_tcp.offer(&pair->consumer, &pair->blob), COLLET_SUCCESS);
}

static void pair_connect(struct pair *pair) {
    enum collet_result mine, theirs;
    do {
        be_patient(pair);
        mine = transport_tcp.ready(&pair->producer);
        theirs = transport_tcp.ready(&pair->consumer);
        assert_true(mine >= 0 && theirs >= 0);
    } while (mine != COLLET_SUCCESS || theirs != COLLET_SUCCESS);
}

static void pair_open(struct pair *pair, struct shape shape) {
    pair_offer(pair, shape);
    assert_int_equal(transport_tcp.accept(&pair->producer, &pair->blob), COLLET_SUCCESS);
    pair_connect(pair);
}

static void conn_close(struct conn *conn) {
    transport_tcp.close(conn);
    conn->impl = NULL;
}

static void pair_close(struct pair *pair) {
    conn_close(&pair->producer);
    conn_close(&pair->consumer);
}

static bool progress(struct conn *conn) {
    enum collet_result result = transport_tcp.progress(conn);
    if (result < 0)
        fail_msg("progress failed: %s", err_last());
    return result == COLLET_SUCCESS;
}

/* Makes progress until both ends have nothing left to do. */
static void settle(struct pair *pair) {
    for (int quiet = 0; quiet < 50; quiet++) { /* loopback delivers within a few */
        if ((int)progress(&pair->producer) | (int)progress(&pair->consumer))
            quiet = 0;
        be_patient(pair);
    }
}

/* -------------------------------------------------------------------------------------------------------------- moving slots */

/* Producer and consumer act in a random order. */
static void move_slots(struct pair *pair, uint64_t n) {
    uint64_t end = pair->producer.end.step + n, chance = 1;
    while (pair->consumer.end.step != end || !transport_tcp.idle(&pair->producer)) {
        chance = slots_mix(chance + 77);
        be_patient(pair);
        if (chance % 4 != 0 && pair->producer.end.step != end && fifo_has_credit(&pair->producer.end))
            slots_publish(&pair->producer);
        if (chance % 3 == 0)
            progress(&pair->producer);
        if (chance % 5 < 3)
            progress(&pair->consumer);
        if (chance % 7 < 4 && fifo_has_data(&pair->consumer.end))
            slots_consume(&pair->consumer);
    }
}

static void slots_of_all_sizes_and_protocols_arrive_in_order(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {8, 4096, 1, 0},
        {8, 4096, 2, 0},
        {8, 100000, 3, 0},
        {2, 5000, 2, 0},
        {16, 64, 16, 0},
        {8, 4072, 2, UINT64_MAX - 500},
        {8, 20000, 3, UINT64_MAX - 3},
        {4, 1 << 20, 2, 5},
        {1, 3000, 4, 0},
    };
    for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
        struct pair pair;
        pair_open(&pair, shapes[k]);
        move_slots(&pair, shapes[k].slot_bytes > 50000 ? 100 : 2000);
        pair_close(&pair);
    }
}

static void a_full_fifo_waits_until_half_of_it_is_consumed(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 2, 0});
    while (fifo_has_credit(&pair.producer.end))
        slots_publish(&pair.producer);
    assert_int_equal(pair.producer.end.step, 8);
    settle(&pair);
    for (int k = 0; k < 3; k++)
        slots_consume(&pair.consumer);
    settle(&pair);
    assert_true(transport_tcp.idle(&pair.consumer));
    assert_false(fifo_has_credit(&pair.producer.end));
    slots_consume(&pair.consumer);
    assert_false(transport_tcp.idle(&pair.consumer)); /* a credit is due */
    settle(&pair);
    assert_true(transport_tcp.idle(&pair.consumer));
    for (int k = 0; k < 4; k++) {
        assert_true(fifo_has_credit(&pair.producer.end));
        slots_publish(&pair.producer);
    }
    assert_false(fifo_has_credit(&pair.producer.end));
    move_slots(&pair, 0);
    pair_close(&pair);
}

static void what_the_sockets_do_not_take_is_sent_later(void **state) {
    (void)state;
    struct pair pair;
    slots_pattern.whole = true;
    pair_open(&pair, (struct shape){8, 4 << 20, 1, 0});
    while (fifo_has_credit(&pair.producer.end))
        slots_publish(&pair.producer);
    while (progress(&pair.producer))
        be_patient(&pair);
    assert_false(transport_tcp.idle(&pair.producer)); /* the consumer reads nothing: no kernel takes it all */
    move_slots(&pair, 0);
    assert_true(transport_tcp.idle(&pair.producer));
    pair_close(&pair);
}

/* ----------------------------------------------------------------------------------------------------- leaving and breaking */

static void what_a_producer_sent_before_it_left_arrives(void **state) {
    (void)state;
    for (int round = 0; round < 5; round++) {
        struct pair pair;
        pair_open(&pair, (struct shape){8, 300000, 2, 0});
        move_slots(&pair, 20);
        while (fifo_has_credit(&pair.producer.end))
            slots_publish(&pair.producer);
        uint64_t sent = pair.producer.end.step;
        while (!transport_tcp.idle(&pair.producer)) { /* takes in no credits while it sends */
            progress(&pair.producer);
            progress(&pair.consumer);
        }
        conn_close(&pair.producer);
        while (pair.consumer.end.step != sent) {
            be_patient(&pair);
            progress(&pair.consumer);
            if (fifo_has_data(&pair.consumer.end))
                slots_consume(&pair.consumer);
        }
        for (int k = 0; k < 20; k++)
            assert_false(progress(&pair.consumer)); /* and that it left is no failure */
        while (!transport_tcp.idle(&pair.consumer)) {
            progress(&pair.consumer);
            be_patient(&pair);
        }
        pair_close(&pair);
    }
}

/* Progress until it fails; the error must name the other rank and its host, and say what. */
static void expect_broken(struct pair *pair, struct conn *conn, const char *what) {
    enum collet_result result;
    while ((result = transport_tcp.progress(conn)) >= 0)
        be_patient(pair);
    char rank[32];
    snprintf(rank, sizeof(rank), "rank %d (host host%d, 127.0.0.1:", conn->peer, conn->peer);
    assert_int_equal(result, COLLET_ERR_REMOTE);
    if (strstr(err_last(), rank) == NULL || strstr(err_last(), what) == NULL)
        fail_msg("the error does not say '%s' and '%s': %s", rank, what, err_last());
    assert_int_equal(transport_tcp.progress(conn), COLLET_ERR_REMOTE); /* and it stays broken */
}

static void a_slot_cut_short_breaks_the_connection_after_the_slots_before_it(void **state) {
    (void)state;
    struct pair pair;
    slots_pattern.whole = true;
    pair_open(&pair, (struct shape){8, 4 << 20, 1, 0});
    while (fifo_has_credit(&pair.producer.end))
        slots_publish(&pair.producer);
    while (*pair.consumer.end.tail < 2) {
        progress(&pair.producer);
        progress(&pair.consumer);
        be_patient(&pair);
    }
    while (progress(&pair.producer)) /* so that the kernel has a part of a slot */
        be_patient(&pair);
    assert_false(transport_tcp.idle(&pair.producer));
    conn_close(&pair.producer);
    uint64_t last_tail = 0;
    for (uint64_t since = os_now_ns(); os_now_ns() - since < 200000000;) { /* until no more comes */
        progress(&pair.consumer);
        if (*pair.consumer.end.tail != last_tail)
            since = os_now_ns();
        last_tail = *pair.consumer.end.tail;
    }
    assert_in_range(last_tail, 2, 7);
    while (fifo_has_data(&pair.consumer.end)) {
        assert_false(progress(&pair.consumer)); /* no failure as long as there is something to consume */
        slots_consume(&pair.consumer);
    }
    assert_int_equal(pair.consumer.end.step, last_tail);
    expect_broken(&pair, &pair.consumer, "middle of a slot");
    conn_close(&pair.consumer);
}

static void a_producer_notices_that_its_consumer_is_gone(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 2, 0});
    move_slots(&pair, 10);
    settle(&pair);
    conn_close(&pair.consumer);
    for (int k = 0; k < 10; k++)
        assert_false(progress(&pair.producer)); /* nothing to send: nothing is wrong */
    enum collet_result result = COLLET_IN_PROGRESS;
    while (result >= 0 && fifo_has_credit(&pair.producer.end)) {
        slots_publish(&pair.producer);
        usleep(2000);
        result = transport_tcp.progress(&pair.producer);
    }
    expect_broken(&pair, &pair.producer, "");
    pair_close(&pair);
}

/* --------------------------------------------------------------------------------------------------------- hand-made ends */

struct frame {
    uint32_t bytes, signature;
    uint64_t sequence, step;
    uint64_t head, has_head;
};

/* A producer of raw bytes: fds[0 … nsockets], the last for credits. */
static void open_raw_producer(struct pair *pair, struct shape shape, int *fds) {
    struct tcp_dialer dialer;
    pair_offer(pair, shape);
    tcp_dial_start(&dialer, offer_of(pair), shape.nsockets + 1, 1, "host1");
    while (tcp_dial_try(&dialer, fds) == COLLET_IN_PROGRESS) {
        be_patient(pair);
        assert_true(transport_tcp.ready(&pair->consumer) >= 0);
    }
    assert_int_equal(transport_tcp.ready(&pair->consumer), COLLET_SUCCESS);
}

static void close_raw(struct pair *pair, const int *fds, int n) {
    for (int k = 0; k < n; k++)
        close(fds[k]);
    pair_close(pair);
}

static void frames_in_pieces_of_any_size_are_put_together(void **state) {
    (void)state;
    for (uint32_t piece = 1; piece < 200; piece = piece * 3 + 1) {
        struct pair pair;
        int fds[2];
        static char wire[200000];
        size_t length = 0, sent = 0;
        open_raw_producer(&pair, (struct shape){8, 900, 1, 0}, fds);
        for (uint64_t step = 0; step < 100; step++) {
            uint32_t bytes = slots_bytes(&pair.consumer, step);
            struct fifo_slot_header header = slots_header(&pair.consumer, step);
            struct frame frame = {header.bytes, header.signature, header.sequence, step, 0, 0};
            memcpy(wire + length, &frame, sizeof(frame));
            length += sizeof(frame);
            for (uint32_t i = 0; i < bytes; i++)
                wire[length++] = (char)(step * 7 + i);
        }
        while (pair.consumer.end.step < 100) { /* which consumes at once, so that credit is no matter */
            size_t n = length - sent < piece ? length - sent : piece;
            be_patient(&pair);
            assert_int_equal(send(fds[0], wire + sent, n, MSG_NOSIGNAL), n);
            sent += n;
            while (progress(&pair.consumer) || fifo_has_data(&pair.consumer.end))
                if (fifo_has_data(&pair.consumer.end))
                    slots_consume(&pair.consumer);
        }
        close_raw(&pair, fds, 2);
    }
}

static void frames_that_make_no_sense_break_the_connection(void **state) {
    (void)state;
    static const struct {
        struct frame frame;
        const char *what;
    } wrong[] = {
        {{8, 0, 0, 1, 0, 0}, "another step"},
        {{1001, 0, 0, 0, 0, 0}, "more than a slot"},
        {{520 | FIFO_LL_BIT, 0, 0, 0, 0, 0}, "more than a slot"},
        {{~0u, 0, 0, 0, 0, 0}, "more than a slot"},
    };
    for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
        struct pair pair;
        int fds[3];
        open_raw_producer(&pair, (struct shape){8, 1000, 2, 0}, fds);
        assert_int_equal(send(fds[0], &wrong[k].frame, sizeof(struct frame), MSG_NOSIGNAL), sizeof(struct frame));
        expect_broken(&pair, &pair.consumer, wrong[k].what);
        close_raw(&pair, fds, 3);
    }
}

static void slots_without_credit_break_the_connection(void **state) {
    (void)state;
    struct pair pair;
    int fds[2];
    open_raw_producer(&pair, (struct shape){2, 1000, 1, 0}, fds);
    for (uint64_t step = 0; step < 3; step++) {
        struct frame frame = {0, 0, 0, step, 0, 0};
        assert_int_equal(send(fds[0], &frame, sizeof(frame), MSG_NOSIGNAL), sizeof(frame));
    }
    while (*pair.consumer.end.tail < 2) {
        be_patient(&pair);
        progress(&pair.consumer);
    }
    for (int k = 0; k < 50; k++)
        assert_true(transport_tcp.progress(&pair.consumer) >= 0); /* two slots are still there to consume */
    fifo_consumed(&pair.consumer.end);
    fifo_consumed(&pair.consumer.end);
    expect_broken(&pair, &pair.consumer, "without credit");
    close_raw(&pair, fds, 2);
}

static void credits_for_slots_never_sent_break_the_connection(void **state) {
    (void)state;
    struct pair pair;
    struct tcp_listener listener;
    int fds[3];
    pair_init(&pair, (struct shape){8, 1000, 2, 0});
    assert_int_equal(tcp_listen_start(&listener, &pair.config, 3, offer_of(&pair)), COLLET_SUCCESS);
    pair.blob.bytes = sizeof(struct tcp_offer);
    assert_int_equal(transport_tcp.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
    while (tcp_listen_try(&listener, fds) == COLLET_IN_PROGRESS)
        assert_true(transport_tcp.ready(&pair.producer) >= 0);
    while (transport_tcp.ready(&pair.producer) != COLLET_SUCCESS)
        be_patient(&pair);
    while (fifo_has_credit(&pair.producer.end))
        slots_publish(&pair.producer);
    uint64_t head = 9;
    assert_int_equal(send(fds[2], &head, sizeof(head), MSG_NOSIGNAL), sizeof(head));
    expect_broken(&pair, &pair.producer, "not sent");
    close_raw(&pair, fds, 3);
}

/* --------------------------------------------------------------------------------------------------------------- connecting */

static int connect_stranger(const struct pair *pair, const void *words, size_t bytes) {
    const struct tcp_offer *offer = (const void *)pair->blob.data;
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
        transport_tcp.ready(&pair->consumer);
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
    pair_offer(&pair, (struct shape){8, 4096, 2, 0});
    int browser = connect_stranger(&pair, http, sizeof(http));
    int guesser = connect_stranger(&pair, &hello, sizeof(hello));
    int gone = connect_stranger(&pair, "x", 1);
    close(gone);
    int silent[2 * TCP_STRANGERS_MAX];
    for (int k = 0; k < 2 * TCP_STRANGERS_MAX; k++)
        silent[k] = connect_stranger(&pair, NULL, 0);
    assert_true(was_dropped(&pair, browser));
    assert_true(was_dropped(&pair, guesser));
    assert_true(was_dropped(&pair, silent[0])); /* more than there is room for */
    assert_int_equal(transport_tcp.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
    pair_connect(&pair);
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
    pair_offer(&pair, (struct shape){8, 4096, 2, 0});
    struct tcp_hello hello = {.magic = 0x636f6c31, .attempt = 0, .index = 1};
    memcpy(hello.token, offer_of(&pair)->token, sizeof(hello.token));
    int old = connect_stranger(&pair, &hello, sizeof(hello));
    for (int k = 0; k < 20; k++)
        assert_int_equal(transport_tcp.ready(&pair.consumer), COLLET_IN_PROGRESS);
    /* 255.255.255.255 cannot be connected to, so the producer comes with its second attempt. */
    struct address_set *set = &offer_of(&pair)->set;
    set->addresses[1] = set->addresses[0];
    memset(&set->addresses[0], 0xff, sizeof(set->addresses[0]));
    set->addresses[0].family = 4;
    set->count = 2;
    assert_int_equal(transport_tcp.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
    pair_connect(&pair);
    move_slots(&pair, 50);
    pair_close(&pair);
    close(old);
}

/* ---------------------------------------------------------------------------------------------------------------- rails */

static struct address address_at(uint8_t first, uint8_t link, uint8_t speed) {
    return (struct address){.family = 4, .link = link, .speed = speed, .ip = {first, 0, 0, 1}};
}

static void assert_rails(const struct address_set *set, unsigned failed, int nrails, int first, int second) {
    int rails[ADDRESS_MAX] = {-1, -1, -1, -1};
    assert_int_equal(tcp_rails_choose(set, failed, rails), nrails);
    assert_int_equal(rails[0], first);
    assert_int_equal(rails[1], second);
}

static void rails_are_the_fastest_interfaces_that_have_not_failed(void **state) {
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
    char text[3][ADDRESS_TEXT_BYTES];
    int theirs[3], ours[3];
    enum collet_result result = COLLET_IN_PROGRESS;
    pair_init(&pair, (struct shape){8, 4096, 2, 0});
    assert_int_equal(tcp_listen_start(&listener, &pair.config, 3, offer_of(&pair)), COLLET_SUCCESS);
    struct address_set *set = &offer_of(&pair)->set;
    set->count = 3;
    set->addresses[0] = address_at(127, 1, 0);
    set->addresses[1] = address_at(127, 2, 0);
    set->addresses[1].ip[3] = 2;
    set->addresses[2] = address_at(255, 3, 0);
    memset(set->addresses[2].ip, 0xff, 4);
    tcp_dial_start(&dialer, offer_of(&pair), 3, 1, "host1");
    while (tcp_listen_try(&listener, theirs) == COLLET_IN_PROGRESS) {
        be_patient(&pair);
        result = tcp_dial_try(&dialer, ours);
        assert_true(result >= 0);
    }
    while (result == COLLET_IN_PROGRESS) {
        be_patient(&pair);
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
}

static void a_peer_that_cannot_be_reached_is_named_with_its_addresses(void **state) {
    (void)state;
    struct pair pair;
    enum collet_result result;
    pair_offer(&pair, (struct shape){8, 4096, 2, 0});
    conn_close(&pair.consumer); /* its port is closed now */
    assert_int_equal(transport_tcp.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
    while ((result = transport_tcp.ready(&pair.producer)) == COLLET_IN_PROGRESS)
        be_patient(&pair);
    assert_int_equal(result, COLLET_ERR_SYSTEM);
    assert_non_null(strstr(err_last(), "rank 1 (host host1) at 127.0.0.1:"));
    assert_non_null(strstr(err_last(), "refused"));
    pair_close(&pair);
}

static void an_interface_that_does_not_exist_is_an_error(void **state) {
    (void)state;
    struct pair pair;
    pair_init(&pair, (struct shape){8, 4096, 2, 0});
    strcpy(pair.config.socket_ifname, "nosuch");
    assert_int_equal(transport_tcp.offer(&pair.consumer, &pair.blob), COLLET_ERR_SYSTEM);
    assert_non_null(strstr(err_last(), "nosuch"));
    pair_close(&pair);
}

static void an_offer_of_the_wrong_size_is_refused(void **state) {
    (void)state;
    struct pair pair;
    pair_offer(&pair, (struct shape){8, 4096, 2, 0});
    pair.blob.bytes--;
    assert_int_equal(transport_tcp.accept(&pair.producer, &pair.blob), COLLET_ERR_INTERNAL);
    pair.blob.bytes++;
    offer_of(&pair)->set.count = 200;
    assert_int_equal(transport_tcp.accept(&pair.producer, &pair.blob), COLLET_ERR_INTERNAL);
    pair_close(&pair);
}

static void ends_that_never_connected_can_be_closed(void **state) {
    (void)state;
    struct pair pair;
    pair_offer(&pair, (struct shape){8, 4096, 2, 0});
    assert_int_equal(transport_tcp.accept(&pair.producer, &pair.blob), COLLET_SUCCESS);
    assert_int_equal(transport_tcp.ready(&pair.producer), COLLET_IN_PROGRESS);
    pair_close(&pair);
}

static int random_slots(void **state) {
    (void)state;
    slots_pattern.whole = false;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(slots_of_all_sizes_and_protocols_arrive_in_order, random_slots),
        cmocka_unit_test_setup(a_full_fifo_waits_until_half_of_it_is_consumed, random_slots),
        cmocka_unit_test_setup(what_the_sockets_do_not_take_is_sent_later, random_slots),
        cmocka_unit_test_setup(what_a_producer_sent_before_it_left_arrives, random_slots),
        cmocka_unit_test_setup(a_slot_cut_short_breaks_the_connection_after_the_slots_before_it, random_slots),
        cmocka_unit_test_setup(a_producer_notices_that_its_consumer_is_gone, random_slots),
        cmocka_unit_test_setup(frames_in_pieces_of_any_size_are_put_together, random_slots),
        cmocka_unit_test_setup(frames_that_make_no_sense_break_the_connection, random_slots),
        cmocka_unit_test_setup(slots_without_credit_break_the_connection, random_slots),
        cmocka_unit_test_setup(credits_for_slots_never_sent_break_the_connection, random_slots),
        cmocka_unit_test_setup(strangers_are_dropped_and_do_not_keep_the_producer_out, random_slots),
        cmocka_unit_test_setup(a_new_attempt_replaces_the_sockets_of_one_that_was_given_up, random_slots),
        cmocka_unit_test(rails_are_the_fastest_interfaces_that_have_not_failed),
        cmocka_unit_test(an_interface_is_one_rail_by_the_first_of_its_addresses_that_has_not_failed),
        cmocka_unit_test(sockets_are_spread_over_the_rails),
        cmocka_unit_test_setup(a_peer_that_cannot_be_reached_is_named_with_its_addresses, random_slots),
        cmocka_unit_test_setup(an_interface_that_does_not_exist_is_an_error, random_slots),
        cmocka_unit_test_setup(an_offer_of_the_wrong_size_is_refused, random_slots),
        cmocka_unit_test_setup(ends_that_never_connected_can_be_closed, random_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
