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
#include <sys/stat.h>
#include <unistd.h>

extern const struct transport transport_tcp;

#define PATIENCE_NS 20000000000ull

/* -------------------------------------------------------------------------------------------------- two ends, one process */

struct shape {
    uint32_t nslots, slot_bytes;
    int nsockets;
    uint64_t first_step;
};

/* Rank 1 sends to rank 0, which listens; in some cases rank 0 also sends to rank 1. */
struct pair {
    struct config configs[2];
    struct boot *boots[2];
    struct peer_info peers[2];
    struct chan *chans[2];
    struct conn *producer, *consumer;           /* of rank 1 and rank 0 */
    struct conn *back_producer, *back_consumer; /* of rank 0 and rank 1; not connected by pair_open() */
    uint64_t deadline_ns;
};

static struct conn *conn_of(struct pair *pair, int rank, enum conn_side side) {
    struct conn *conn;
    assert_int_equal(conn_get(pair->chans[rank], 1 - rank, 0, 0, side, &conn), COLLET_SUCCESS);
    return conn;
}

static void pair_init(struct pair *pair, struct shape shape) {
    memset(pair, 0, sizeof(*pair));
    assert_int_equal(config_read(&pair->configs[0]), COLLET_SUCCESS);
    strcpy(pair->configs[0].socket_ifname, "=lo");
    strcpy(pair->configs[0].transport, "tcp");
    pair->configs[0].nsockets = shape.nsockets;
    pair->configs[0].first_step = (int64_t)shape.first_step;
    pair->configs[1] = pair->configs[0];
    assert_int_equal(boot_join_local(2, NULL, pair->configs, pair->boots), COLLET_SUCCESS);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(boot_try_init(pair->boots[rank]), COLLET_SUCCESS);
        pair->peers[rank].rank = rank;
        snprintf(pair->peers[rank].host, sizeof(pair->peers[rank].host), "host%d", rank);
    }
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(chan_create(pair->boots[rank], &pair->configs[rank], 2, rank, NULL, &pair->chans[rank]),
                         COLLET_SUCCESS);
        pair->chans[rank]->peers = pair->peers;
        pair->chans[rank]->layout = fifo_layout_of(shape.nslots, shape.slot_bytes, 256);
    }
    pair->producer = conn_of(pair, 1, CONN_PRODUCER);
    pair->consumer = conn_of(pair, 0, CONN_CONSUMER);
    pair->back_producer = conn_of(pair, 0, CONN_PRODUCER);
    pair->back_consumer = conn_of(pair, 1, CONN_CONSUMER);
    pair->deadline_ns = os_now_ns() + PATIENCE_NS;
}

static void be_patient(const struct pair *pair) {
    if (os_now_ns() > pair->deadline_ns)
        fail_msg("nothing came of it in %llu s", PATIENCE_NS / 1000000000ull);
}

/* Moves both ends of a connection forward until it is ready. */
static void connect_ends(struct pair *pair, struct conn *producer, struct conn *consumer) {
    enum collet_result mine, theirs;
    do {
        be_patient(pair);
        mine = conn_try(producer);
        theirs = conn_try(consumer);
        if (mine < 0 || theirs < 0)
            fail_msg("the ends do not connect: %s", err_last());
    } while (mine != COLLET_SUCCESS || theirs != COLLET_SUCCESS);
}

static void pair_open(struct pair *pair, struct shape shape) {
    pair_init(pair, shape);
    connect_ends(pair, pair->producer, pair->consumer);
}

static void pair_open_both_ways(struct pair *pair, struct shape shape) {
    pair_open(pair, shape);
    connect_ends(pair, pair->back_producer, pair->back_consumer);
}

static void conn_close(struct conn *conn) {
    transport_tcp.close(conn);
    conn->impl = NULL;
    conn->state = CONN_NEW;
}

static void pair_close(struct pair *pair) {
    for (int rank = 0; rank < 2; rank++) {
        chan_destroy(pair->chans[rank]);
        boot_destroy(pair->boots[rank]);
    }
}

/* What rank 0 tells rank 1 of its listener. Rank 1 gets it only if tell_offer() sends it on. */
static struct tcp_offer take_offer(struct pair *pair) {
    struct tcp_offer offer;
    size_t bytes;
    assert_int_equal(conn_try(pair->consumer), COLLET_IN_PROGRESS);
    assert_int_equal(boot_try_recv(pair->boots[1], 0, boot_key(BOOT_TCP_LINK, 0), &offer, sizeof(offer), &bytes),
                     COLLET_SUCCESS);
    assert_int_equal(bytes, sizeof(offer));
    return offer;
}

static void tell_offer(struct pair *pair, const void *offer, size_t bytes) {
    assert_int_equal(boot_send(pair->boots[0], 1, boot_key(BOOT_TCP_LINK, 0), offer, bytes), COLLET_SUCCESS);
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
        if ((int)progress(pair->producer) | (int)progress(pair->consumer))
            quiet = 0;
        be_patient(pair);
    }
}

/* -------------------------------------------------------------------------------------------------------------- moving slots */

struct stream {
    struct conn *producer, *consumer;
    uint64_t end; /* the step to stop at */
};

static struct stream stream_of(struct conn *producer, struct conn *consumer, uint64_t n) {
    return (struct stream){producer, consumer, producer->end.step + n};
}

static bool stream_is_over(const struct stream *stream) {
    return stream->consumer->end.step == stream->end && transport_tcp.idle(stream->producer);
}

/* Producer and consumer act or do not, by chance. */
static void stream_turn(const struct stream *stream, uint64_t chance) {
    if (chance % 4 != 0 && stream->producer->end.step != stream->end && fifo_has_credit(&stream->producer->end))
        slots_publish(stream->producer);
    if (chance % 3 == 0)
        progress(stream->producer);
    if (chance % 5 < 3)
        progress(stream->consumer);
    if (chance % 7 < 4 && fifo_has_data(&stream->consumer->end))
        slots_consume(stream->consumer);
}

static void move_streams(struct pair *pair, const struct stream *streams, int nstreams) {
    uint64_t chance = 1;
    for (bool over = false; !over;) {
        over = true;
        be_patient(pair);
        for (int k = 0; k < nstreams; k++) {
            chance = slots_mix(chance + 77);
            stream_turn(&streams[k], chance);
            over = over && stream_is_over(&streams[k]);
        }
    }
}

static void move_slots(struct pair *pair, uint64_t n) {
    struct stream stream = stream_of(pair->producer, pair->consumer, n);
    move_streams(pair, &stream, 1);
}

static void move_slots_back(struct pair *pair, uint64_t n) {
    struct stream stream = stream_of(pair->back_producer, pair->back_consumer, n);
    move_streams(pair, &stream, 1);
}

static void move_slots_both_ways(struct pair *pair, uint64_t n, uint64_t n_back) {
    struct stream streams[] = {
        stream_of(pair->producer, pair->consumer, n),
        stream_of(pair->back_producer, pair->back_consumer, n_back),
    };
    move_streams(pair, streams, 2);
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
    while (fifo_has_credit(&pair.producer->end))
        slots_publish(pair.producer);
    assert_int_equal(pair.producer->end.step, 8);
    settle(&pair);
    for (int k = 0; k < 3; k++)
        slots_consume(pair.consumer);
    settle(&pair);
    assert_true(transport_tcp.idle(pair.consumer));
    assert_false(fifo_has_credit(&pair.producer->end));
    slots_consume(pair.consumer);
    assert_false(transport_tcp.idle(pair.consumer)); /* a credit is due */
    settle(&pair);
    assert_true(transport_tcp.idle(pair.consumer));
    for (int k = 0; k < 4; k++) {
        assert_true(fifo_has_credit(&pair.producer->end));
        slots_publish(pair.producer);
    }
    assert_false(fifo_has_credit(&pair.producer->end));
    move_slots(&pair, 0);
    pair_close(&pair);
}

static void what_the_sockets_do_not_take_is_sent_later(void **state) {
    (void)state;
    struct pair pair;
    slots_pattern.whole = true;
    pair_open(&pair, (struct shape){8, 4 << 20, 1, 0});
    while (fifo_has_credit(&pair.producer->end))
        slots_publish(pair.producer);
    while (progress(pair.producer))
        be_patient(&pair);
    assert_false(transport_tcp.idle(pair.producer)); /* the consumer reads nothing: no kernel takes it all */
    move_slots(&pair, 0);
    assert_true(transport_tcp.idle(pair.producer));
    pair_close(&pair);
}

/* ------------------------------------------------------------------------------------------------------- both directions */

static int sockets_of_this_process(void) {
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) {
        struct stat stat;
        n += fstat(fd, &stat) == 0 && S_ISSOCK(stat.st_mode);
    }
    return n;
}

static void both_directions_move_at_once_over_the_same_sockets(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {8, 4096, 1, 0}, {8, 4096, 2, 0}, {8, 100000, 3, UINT64_MAX - 50},
        {2, 5000, 2, 0}, {16, 64, 16, 0}, {1, 3000, 4, 0},
    };
    for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
        struct pair pair;
        int before = sockets_of_this_process();
        uint32_t nsockets = (uint32_t)shapes[k].nsockets;
        pair_open_both_ways(&pair, shapes[k]);
        nsockets = nsockets < shapes[k].nslots ? nsockets : shapes[k].nslots;
        assert_int_equal(sockets_of_this_process() - before, 2 * (nsockets + 1));
        if (shapes[k].slot_bytes > 50000)
            move_slots_both_ways(&pair, 100, 70);
        else
            move_slots_both_ways(&pair, 1000, 1500);
        pair_close(&pair);
        assert_int_equal(sockets_of_this_process(), before);
    }
}

/* Each rank first moves one of its ends until that can go no further, then the other, then both. */
static void the_ends_of_a_pair_may_begin_in_any_order(void **state) {
    (void)state;
    for (int order = 0; order < 4; order++) {
        struct pair pair;
        int before = sockets_of_this_process();
        pair_init(&pair, (struct shape){8, 4096, 2, 0});
        struct conn *first[2] = {order & 1 ? pair.consumer : pair.back_producer,
                                 order & 2 ? pair.producer : pair.back_consumer};
        for (int k = 0; k < 200; k++)
            for (int rank = 0; rank < 2; rank++)
                assert_true(conn_try(first[rank]) >= 0);
        connect_ends(&pair, pair.producer, pair.consumer);
        connect_ends(&pair, pair.back_producer, pair.back_consumer);
        assert_int_equal(sockets_of_this_process() - before, 6);
        move_slots_both_ways(&pair, 100, 100);
        pair_close(&pair);
    }
}

static void a_second_direction_joins_one_that_has_long_been_used(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 2, 0});
    move_slots(&pair, 101);
    int sockets = sockets_of_this_process();
    connect_ends(&pair, pair.back_producer, pair.back_consumer);
    assert_int_equal(sockets_of_this_process(), sockets);
    move_slots_both_ways(&pair, 50, 50);
    move_slots_back(&pair, 50);
    pair_close(&pair);
}

static void slots_in_turns_take_all_credits_along(void **state) {
    (void)state;
    struct pair pair;
    pair_open_both_ways(&pair, (struct shape){8, 4096, 2, 0});
    for (int k = 0; k < 100; k++) {
        move_slots(&pair, 1);
        move_slots_back(&pair, 1);
        assert_true(transport_tcp.idle(pair.consumer)); /* no credit is due */
        assert_true(transport_tcp.idle(pair.back_consumer));
    }
    pair_close(&pair);
}

static void one_direction_goes_on_when_the_other_is_closed(void **state) {
    (void)state;
    struct pair pair;
    int before = sockets_of_this_process();
    pair_open_both_ways(&pair, (struct shape){8, 4096, 2, 0});
    int sockets = sockets_of_this_process();
    move_slots_both_ways(&pair, 100, 100);
    conn_close(pair.back_producer);
    move_slots(&pair, 100);
    conn_close(pair.back_consumer);
    assert_int_equal(sockets_of_this_process(), sockets);
    move_slots(&pair, 100);
    pair_close(&pair);
    assert_int_equal(sockets_of_this_process(), before);
}

/* Rank 0 leaves with heads of rank 1 unread, so that socket is reset. All else arrives, and nothing has failed. */
static void credits_that_nobody_read_do_not_spoil_what_was_sent(void **state) {
    (void)state;
    struct pair pair;
    slots_pattern.whole = true;
    pair_open_both_ways(&pair, (struct shape){8, 300000, 2, 0});
    while (fifo_has_credit(&pair.back_producer->end))
        slots_publish(pair.back_producer);
    while (!transport_tcp.idle(pair.back_producer)) {
        progress(pair.back_producer);
        progress(pair.back_consumer);
        be_patient(&pair);
    }
    for (int k = 0; k < 5; k++)
        slots_publish(pair.producer);
    while (*pair.consumer->end.tail != 5) {
        progress(pair.producer);
        progress(pair.consumer);
        be_patient(&pair);
    }
    for (int k = 0; k < 5; k++)
        slots_consume(pair.consumer);
    for (int k = 0; k < 5; k++) {
        while (!fifo_has_data(&pair.back_consumer->end))
            progress(pair.back_consumer);
        slots_consume(pair.back_consumer);
    }
    progress(pair.back_consumer); /* sends a head */
    assert_true(transport_tcp.idle(pair.back_consumer));
    uint64_t sent = pair.back_producer->end.step;
    conn_close(pair.back_producer);
    conn_close(pair.consumer);
    assert_false(progress(pair.producer)); /* 5 slots were consumed, and no credit for them came */
    while (pair.back_consumer->end.step != sent) {
        be_patient(&pair);
        progress(pair.back_consumer);
        if (fifo_has_data(&pair.back_consumer->end))
            slots_consume(pair.back_consumer);
    }
    for (int k = 0; k < 20; k++) {
        assert_false(progress(pair.back_consumer));
        assert_false(progress(pair.producer));
    }
    pair_close(&pair);
}

static void a_rank_is_connected_with_itself(void **state) {
    (void)state;
    struct pair pair;
    struct conn *producer, *consumer;
    pair_init(&pair, (struct shape){8, 4096, 2, 0});
    assert_int_equal(conn_get(pair.chans[0], 0, 0, 0, CONN_PRODUCER, &producer), COLLET_SUCCESS);
    assert_int_equal(conn_get(pair.chans[0], 0, 0, 0, CONN_CONSUMER, &consumer), COLLET_SUCCESS);
    connect_ends(&pair, producer, consumer);
    struct stream stream = stream_of(producer, consumer, 500);
    move_streams(&pair, &stream, 1);
    pair_close(&pair);
}

/* ----------------------------------------------------------------------------------------------------- leaving and breaking */

static void what_a_producer_sent_before_it_left_arrives(void **state) {
    (void)state;
    for (int round = 0; round < 5; round++) {
        struct pair pair;
        pair_open(&pair, (struct shape){8, 300000, 2, 0});
        move_slots(&pair, 20);
        while (fifo_has_credit(&pair.producer->end))
            slots_publish(pair.producer);
        uint64_t sent = pair.producer->end.step;
        while (!transport_tcp.idle(pair.producer)) { /* takes in no credits while it sends */
            progress(pair.producer);
            progress(pair.consumer);
        }
        conn_close(pair.producer);
        while (pair.consumer->end.step != sent) {
            be_patient(&pair);
            progress(pair.consumer);
            if (fifo_has_data(&pair.consumer->end))
                slots_consume(pair.consumer);
        }
        for (int k = 0; k < 20; k++)
            assert_false(progress(pair.consumer)); /* and that it left is no failure */
        while (!transport_tcp.idle(pair.consumer)) {
            progress(pair.consumer);
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
    while (fifo_has_credit(&pair.producer->end))
        slots_publish(pair.producer);
    while (*pair.consumer->end.tail < 2) {
        progress(pair.producer);
        progress(pair.consumer);
        be_patient(&pair);
    }
    while (progress(pair.producer)) /* so that the kernel has a part of a slot */
        be_patient(&pair);
    assert_false(transport_tcp.idle(pair.producer));
    conn_close(pair.producer);
    uint64_t last_tail = 0;
    for (uint64_t since = os_now_ns(); os_now_ns() - since < 200000000;) { /* until no more comes */
        progress(pair.consumer);
        if (*pair.consumer->end.tail != last_tail)
            since = os_now_ns();
        last_tail = *pair.consumer->end.tail;
    }
    assert_in_range(last_tail, 2, 7);
    while (fifo_has_data(&pair.consumer->end)) {
        assert_false(progress(pair.consumer)); /* no failure as long as there is something to consume */
        slots_consume(pair.consumer);
    }
    assert_int_equal(pair.consumer->end.step, last_tail);
    expect_broken(&pair, pair.consumer, "middle of a slot");
    pair_close(&pair);
}

static void a_producer_notices_that_its_consumer_is_gone(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 2, 0});
    move_slots(&pair, 10);
    settle(&pair);
    conn_close(pair.consumer);
    for (int k = 0; k < 10; k++)
        assert_false(progress(pair.producer)); /* nothing to send: nothing is wrong */
    enum collet_result result = COLLET_IN_PROGRESS;
    while (result >= 0 && fifo_has_credit(&pair.producer->end)) {
        slots_publish(pair.producer);
        usleep(2000);
        result = transport_tcp.progress(pair.producer);
    }
    expect_broken(&pair, pair.producer, "");
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
    pair_init(pair, shape);
    struct tcp_offer offer = take_offer(pair);
    tcp_dial_start(&dialer, &offer, shape.nsockets + 1, 0, "host0");
    while (tcp_dial_try(&dialer, fds) == COLLET_IN_PROGRESS) {
        be_patient(pair);
        assert_true(conn_try(pair->consumer) >= 0);
    }
    assert_int_equal(conn_try(pair->consumer), COLLET_SUCCESS);
}

/* A consumer that returns raw bytes as credits. */
static void open_raw_consumer(struct pair *pair, struct shape shape, int *fds) {
    struct tcp_listener listener;
    struct tcp_offer offer;
    pair_init(pair, shape);
    assert_int_equal(tcp_listen_start(&listener, &pair->configs[0], shape.nsockets + 1, &offer), COLLET_SUCCESS);
    tell_offer(pair, &offer, sizeof(offer));
    assert_int_equal(boot_send(pair->boots[0], 1, boot_key(BOOT_OFFER, 0), "", 0), COLLET_SUCCESS);
    while (tcp_listen_try(&listener, fds) == COLLET_IN_PROGRESS) {
        be_patient(pair);
        assert_true(conn_try(pair->producer) >= 0);
    }
    while (conn_try(pair->producer) != COLLET_SUCCESS)
        be_patient(pair);
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
            uint32_t bytes = slots_bytes(pair.consumer, step);
            struct fifo_slot_header header = slots_header(pair.consumer, step);
            struct frame frame = {header.bytes, header.signature, header.sequence, step, 0, 0};
            memcpy(wire + length, &frame, sizeof(frame));
            length += sizeof(frame);
            for (uint32_t i = 0; i < bytes; i++)
                wire[length++] = (char)(step * 7 + i);
        }
        while (pair.consumer->end.step < 100) { /* which consumes at once, so that credit is no matter */
            size_t n = length - sent < piece ? length - sent : piece;
            be_patient(&pair);
            assert_int_equal(send(fds[0], wire + sent, n, MSG_NOSIGNAL), n);
            sent += n;
            while (progress(pair.consumer) || fifo_has_data(&pair.consumer->end))
                if (fifo_has_data(&pair.consumer->end))
                    slots_consume(pair.consumer);
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
        open_raw_producer(&pair, (struct shape){8, 1000, 2, 0}, fds); /* to a lower rank: slot 0 goes by socket 1 */
        assert_int_equal(send(fds[1], &wrong[k].frame, sizeof(struct frame), MSG_NOSIGNAL), sizeof(struct frame));
        expect_broken(&pair, pair.consumer, wrong[k].what);
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
    while (*pair.consumer->end.tail < 2) {
        be_patient(&pair);
        progress(pair.consumer);
    }
    for (int k = 0; k < 50; k++)
        assert_true(transport_tcp.progress(pair.consumer) >= 0); /* two slots are still there to consume */
    fifo_consumed(&pair.consumer->end);
    fifo_consumed(&pair.consumer->end);
    expect_broken(&pair, pair.consumer, "without credit");
    close_raw(&pair, fds, 2);
}

static void credits_for_slots_never_sent_break_the_connection(void **state) {
    (void)state;
    struct pair pair;
    int fds[3];
    open_raw_consumer(&pair, (struct shape){8, 1000, 2, 0}, fds);
    while (fifo_has_credit(&pair.producer->end))
        slots_publish(pair.producer);
    uint64_t head = 9;
    assert_int_equal(send(fds[2], &head, sizeof(head), MSG_NOSIGNAL), sizeof(head));
    expect_broken(&pair, pair.producer, "not sent");
    close_raw(&pair, fds, 3);
}

/* --------------------------------------------------------------------------------------------------------------- connecting */

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
    connect_ends(&pair, pair.producer, pair.consumer);
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
    memcpy(hello.token, offer.token, sizeof(hello.token));
    int old = connect_stranger(&offer, &hello, sizeof(hello));
    for (int k = 0; k < 20; k++)
        assert_int_equal(conn_try(pair.consumer), COLLET_IN_PROGRESS);
    /* 255.255.255.255 cannot be connected to, so the producer comes with its second attempt. */
    offer.set.addresses[1] = offer.set.addresses[0];
    memset(&offer.set.addresses[0], 0xff, sizeof(offer.set.addresses[0]));
    offer.set.addresses[0].family = 4;
    offer.set.count = 2;
    tell_offer(&pair, &offer, sizeof(offer));
    connect_ends(&pair, pair.producer, pair.consumer);
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
    struct tcp_offer offer;
    char text[3][ADDRESS_TEXT_BYTES];
    int theirs[3], ours[3];
    enum collet_result result = COLLET_IN_PROGRESS;
    pair_init(&pair, (struct shape){8, 4096, 2, 0});
    assert_int_equal(tcp_listen_start(&listener, &pair.configs[0], 3, &offer), COLLET_SUCCESS);
    offer.set.count = 3;
    offer.set.addresses[0] = address_at(127, 1, 0);
    offer.set.addresses[1] = address_at(127, 2, 0);
    offer.set.addresses[1].ip[3] = 2;
    offer.set.addresses[2] = address_at(255, 3, 0);
    memset(offer.set.addresses[2].ip, 0xff, 4);
    tcp_dial_start(&dialer, &offer, 3, 1, "host1");
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
    pair_close(&pair);
}

static void a_peer_that_cannot_be_reached_is_named_with_its_addresses(void **state) {
    (void)state;
    struct pair pair;
    enum collet_result result;
    pair_init(&pair, (struct shape){8, 4096, 2, 0});
    assert_int_equal(conn_try(pair.consumer), COLLET_IN_PROGRESS);
    conn_close(pair.consumer); /* its port is closed now */
    while ((result = conn_try(pair.producer)) == COLLET_IN_PROGRESS)
        be_patient(&pair);
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
        cmocka_unit_test_setup(both_directions_move_at_once_over_the_same_sockets, random_slots),
        cmocka_unit_test_setup(the_ends_of_a_pair_may_begin_in_any_order, random_slots),
        cmocka_unit_test_setup(a_second_direction_joins_one_that_has_long_been_used, random_slots),
        cmocka_unit_test_setup(slots_in_turns_take_all_credits_along, random_slots),
        cmocka_unit_test_setup(one_direction_goes_on_when_the_other_is_closed, random_slots),
        cmocka_unit_test_setup(credits_that_nobody_read_do_not_spoil_what_was_sent, random_slots),
        cmocka_unit_test_setup(a_rank_is_connected_with_itself, random_slots),
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
        cmocka_unit_test_setup(an_offer_that_makes_no_sense_is_refused, random_slots),
        cmocka_unit_test_setup(ends_that_never_connected_can_be_closed, random_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
