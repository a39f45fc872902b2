/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots over tcp: one way, both ways, and to ends that leave or break (common/tcp_pair.h). Some cases put a hand-made end on
 * one side, which does what no end of ours would.
 */
#include "common/tcp_pair.h"

#include "fifo/proto_simple.h"
#include "layers/memory/loan.h"
#include "transport/tcp_end.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static void slots_of_all_sizes_and_protocols_arrive_in_order(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {8, 4096, 1, 0},
        {8, 4096, 2, 0},
        {8, 100000, 3, 0},
        {2, 5000, 2, 0},
        {16, 64, 16, 0},
        {2, 256, 2, 0},
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

/* Slots of so many bytes, one after the other, and the socket that the next one goes by. */
static void few_bytes_share_a_socket_and_many_bytes_stay_on_one(void **state) {
    (void)state;
    enum { FEW = TCP_FEW_BYTES - 1, MORE = TCP_MANY_BYTES - 1, MANY = TCP_MANY_BYTES };
    static const struct {
        uint32_t bytes, upward, downward, between_hosts;
    } slots[] = {
        {MORE, 1, 0, 1}, {MORE, 0, 1, 0}, {FEW, 1, 0, 1},  {FEW, 0, 0, 0},  {FEW, 0, 0, 1},  {MORE, 0, 1, 0},
        {FEW, 1, 0, 1},  {MORE, 0, 1, 0}, {MANY, 0, 1, 1}, {FEW, 0, 1, 0},  {MANY, 0, 1, 1}, {FEW, 0, 1, 0},
        {FEW, 0, 0, 1},  {0, 0, 0, 0},    {MANY, 0, 1, 1}, {MORE, 0, 1, 0},
    };
    struct tcp_end up = {.nsockets = 2, .stays = true}, down = {.nsockets = 2, .first = 1, .next = 1, .stays = true};
    struct tcp_end away = {.nsockets = 2};
    for (uint64_t step = 0; step < sizeof(slots) / sizeof(slots[0]); step++) {
        tcp_pass_slot(&up, step, slots[step].bytes);
        tcp_pass_slot(&down, step, slots[step].bytes);
        tcp_pass_slot(&away, step, slots[step].bytes);
        assert_int_equal(up.next, slots[step].upward);
        assert_int_equal(down.next, slots[step].downward);
        assert_int_equal(away.next, slots[step].between_hosts);
    }
}

/* Both ends agree on the sockets wherever they are. */
static void between_hosts_slots_arrive_in_order_too(void **state) {
    (void)state;
    struct pair pair;
    pair_init(&pair, (struct shape){8, 100000, 3, 0});
    pair.peers[1].node = 1;
    connect_ends(pair.producer, pair.consumer);
    move_slots(&pair, 100);
    pair_close(&pair);
}

/* No credit comes back: the producer's FIFO is free again as soon as the kernel has taken its slots. */
static void a_producer_runs_ahead_until_the_kernel_takes_no_more(void **state) {
    (void)state;
    struct pair pair;
    slots_pattern.whole = true;
    pair_open(&pair, (struct shape){4, 1 << 20, 2, 0});
    uint64_t published = 0;
    for (int quiet = 0; quiet < 50 || *pair.consumer->end.tail < 4; quiet++) { /* nothing is consumed */
        for (; fifo_has_credit(&pair.producer->end); published++, quiet = 0)
            slots_publish(pair.producer);
        if ((int)progress(pair.producer) | (int)progress(pair.consumer))
            quiet = 0;
        be_patient();
    }
    assert_int_equal(*pair.consumer->end.tail, 4);
    assert_false(transport_tcp.idle(pair.producer));
    assert_true(transport_tcp.idle(pair.consumer));
    assert_in_range(published, 8, 1000); /* what both FIFOs hold, and the kernel */
    move_slots(&pair, 20);
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
        ;
    assert_false(transport_tcp.idle(pair.producer)); /* the consumer reads nothing: no kernel takes it all */
    move_slots(&pair, 0);
    assert_true(transport_tcp.idle(pair.producer));
    pair_close(&pair);
}

/* A slot of so many bytes, whose payload stays where it is. */
static void publish_lent(struct conn *producer, const char *payload, uint32_t bytes) {
    struct fifo_slot_header *header = fifo_header(&producer->end);
    header->word = fifo_word(PROTOCOL_DIRECT, bytes);
    header->loan.address = (uintptr_t)payload;
    fifo_publish(&producer->end);
}

static void await(struct conn *consumer, uint64_t position, char *to, uint32_t bytes) {
    loan_land(&consumer->end.loans, (struct loan_landing){to, position, bytes});
}

/* Only for the very slot that was said: a later one goes into its slot, and so does one of another length. */
static void payloads_go_from_memory_to_memory_that_waits_for_them(void **state) {
    (void)state;
    enum { BYTES = 20000 };
    static char mine[3][BYTES], theirs[BYTES];
    static const uint32_t lengths[] = {BYTES, BYTES, BYTES - 16};
    struct pair pair;
    pair_open(&pair, (struct shape){4, 32768, 2, 0});
    struct fifo_end *end = &pair.consumer->end;
    pair.producer->end.loans.way = LOAN_WIRE;
    for (int k = 0; k < 3; k++) {
        memset(mine[k], 'a' + k, BYTES);
        if (k != 1) /* of the second slot nothing is said: what was said of the first is over */
            await(pair.consumer, end->position, theirs, BYTES);
        publish_lent(pair.producer, mine[k], lengths[k]);
        settle(&pair);
        assert_true(transport_tcp.idle(pair.producer));
        assert_true(fifo_has_data(end));
        const char *slot = fifo_slot_at(end, PROTOCOL_SIMPLE, end->position);
        assert_int_equal(fifo_header(end)->word, fifo_word(k == 0 ? PROTOCOL_DIRECT : PROTOCOL_SIMPLE, lengths[k]));
        assert_ptr_equal((char *)(uintptr_t)fifo_header(end)->loan.address, k == 0 ? theirs : NULL);
        assert_memory_equal(k == 0 ? theirs : slot, mine[k], lengths[k]);
        simple_consume(end);
    }
    assert_int_equal(theirs[BYTES - 1], 'a');
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
        assert_int_equal(sockets_of_this_process() - before, 2 * nsockets);
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
        connect_ends(pair.producer, pair.consumer);
        connect_ends(pair.back_producer, pair.back_consumer);
        assert_int_equal(sockets_of_this_process() - before, 4);
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
    connect_ends(pair.back_producer, pair.back_consumer);
    assert_int_equal(sockets_of_this_process(), sockets);
    move_slots_both_ways(&pair, 50, 50);
    move_slots_back(&pair, 50);
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

static void a_rank_is_connected_with_itself(void **state) {
    (void)state;
    struct pair pair;
    struct conn *producer, *consumer;
    pair_init(&pair, (struct shape){8, 4096, 2, 0});
    assert_int_equal(conn_get(pair.chans[0], 0, 0, 0, CONN_PRODUCER, &producer), COLLET_SUCCESS);
    assert_int_equal(conn_get(pair.chans[0], 0, 0, 0, CONN_CONSUMER, &consumer), COLLET_SUCCESS);
    connect_ends(producer, consumer);
    struct stream stream = stream_of(producer, consumer, 500);
    move_streams(&stream, 1);
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
        uint64_t sent = pair.producer->end.position;
        while (!transport_tcp.idle(pair.producer)) {
            progress(pair.producer);
            progress(pair.consumer);
        }
        conn_close(pair.producer);
        while (pair.consumer->end.position != sent) {
            progress(pair.consumer);
            if (fifo_has_data(&pair.consumer->end))
                slots_consume(pair.consumer);
        }
        for (int k = 0; k < 20; k++)
            assert_false(progress(pair.consumer)); /* and that it left is no failure */
        pair_close(&pair);
    }
}

/* Progress until it fails; the error must name the other rank and its host, and say what. */
static void expect_broken(struct conn *conn, const char *what) {
    enum collet_result result;
    while ((result = transport_tcp.progress(conn)) >= 0)
        be_patient();
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
    }
    while (progress(pair.producer)) /* so that the kernel has a part of a slot */
        ;
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
    assert_int_equal(pair.consumer->end.position, last_tail);
    expect_broken(pair.consumer, "middle of a slot");
    pair_close(&pair);
}

/* A middlebox may close a connection between two slots, as a rank that leaves does. */
static void a_consumer_notices_that_its_socket_was_closed_though_its_producer_is_there(void **state) {
    (void)state;
    struct pair pair;
    pair_open(&pair, (struct shape){8, 4096, 2, 0});
    move_slots(&pair, 10);
    settle(&pair);
    const struct tcp_end *end = pair.consumer->impl;
    for (uint32_t k = 0; k < end->nsockets; k++)
        shutdown(end->sockets[k].fd, SHUT_RD);
    for (int k = 0; k < 10; k++)
        assert_false(progress(pair.consumer)); /* it may be leaving */
    expect_broken(pair.consumer, "as the other rank has not");
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
        be_patient();
        usleep(2000);
        result = transport_tcp.progress(pair.producer);
    }
    expect_broken(pair.producer, "");
    pair_close(&pair);
}

/* --------------------------------------------------------------------------------------------------------- hand-made ends */

/* A producer of raw bytes. */
static void open_raw_producer(struct pair *pair, struct shape shape, int *fds) {
    struct tcp_dialer dialer;
    pair_init(pair, shape);
    struct tcp_offer offer = take_offer(pair);
    tcp_dial_start(&dialer, &offer, "", shape.nsockets, 0, "host0");
    while (tcp_dial_try(&dialer, fds) == COLLET_IN_PROGRESS) {
        be_patient();
        assert_true(conn_try(pair->consumer) >= 0);
    }
    assert_int_equal(conn_try(pair->consumer), COLLET_SUCCESS);
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
        int fds[1];
        static char wire[200000];
        size_t length = 0, sent = 0;
        open_raw_producer(&pair, (struct shape){8, 900, 1, 0}, fds);
        for (uint64_t step = 0; step < 100; step++) {
            uint32_t bytes = slots_bytes(pair.consumer, step);
            struct fifo_slot_header header = slots_header(pair.consumer, step);
            struct wire_frame frame = {header.word, header.signature, header.sequence, step, 0, 0};
            memcpy(wire + length, &frame, sizeof(frame));
            length += sizeof(frame);
            for (uint32_t i = 0; i < bytes; i++)
                wire[length++] = (char)(step * 7 + i);
        }
        while (pair.consumer->end.position < 100) { /* which consumes at once */
            size_t n = length - sent < piece ? length - sent : piece;
            assert_int_equal(send(fds[0], wire + sent, n, MSG_NOSIGNAL), n);
            sent += n;
            while (progress(pair.consumer) || fifo_has_data(&pair.consumer->end))
                if (fifo_has_data(&pair.consumer->end))
                    slots_consume(pair.consumer);
        }
        close_raw(&pair, fds, 1);
    }
}

static void frames_that_make_no_sense_break_the_connection(void **state) {
    (void)state;
    static const struct {
        struct wire_frame frame;
        const char *what;
    } wrong[] = {
        {{8, 0, 0, 1, 0, 0}, "another step"},
        {{1001, 0, 0, 0, 0, 0}, "more than a slot"},
        {{PROTOCOL_LL << FIFO_WORD_SHIFT | 520, 0, 0, 0, 0, 0}, "more than a slot"},
        {{~0u, 0, 0, 0, 0, 0}, "more than a slot"},
    };
    for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
        struct pair pair;
        int fds[2];
        open_raw_producer(&pair, (struct shape){8, 1000, 2, 0}, fds); /* to a lower rank: slot 0 goes by socket 1 */
        assert_int_equal(send(fds[1], &wrong[k].frame, sizeof(struct wire_frame), MSG_NOSIGNAL),
                         sizeof(struct wire_frame));
        expect_broken(pair.consumer, wrong[k].what);
        close_raw(&pair, fds, 2);
    }
}

/* What the kernel says of acknowledgements, if `says`. */
static struct {
    bool says;
    unsigned lacking, last_ms;
} kernel;

int getsockopt(int fd, int level, int name, void *value, socklen_t *bytes) {
    const int result = (int)syscall(SYS_getsockopt, fd, level, name, value, bytes);
    if (level == IPPROTO_TCP && name == TCP_INFO && kernel.says) {
        ((struct tcp_info *)value)->tcpi_unacked = kernel.lacking;
        ((struct tcp_info *)value)->tcpi_last_ack_recv = kernel.last_ms;
    }
    return result;
}

/* For longer than the limit, so often that no look is missed. */
static void attend_for_long(struct conn *conn) {
    for (int k = 0; k < 30; k++) {
        transport_tcp.attend(conn);
        usleep(10000);
    }
}

static void a_network_that_acknowledges_nothing_is_an_error_on_all_ranks(void **state) {
    (void)state;
    enum { HOUR_MS = 3600000 };
    struct pair pair;
    pair_init(&pair, (struct shape){8, 4096, 2, 0});
    for (int rank = 0; rank < 2; rank++)
        pair.configs[rank].heartbeat_timeout = 100;
    connect_ends(pair.producer, pair.consumer);
    kernel.says = true;
    kernel.lacking = 0;
    kernel.last_ms = HOUR_MS; /* nothing was sent */
    attend_for_long(pair.producer);
    kernel.lacking = 1;
    kernel.last_ms = 0; /* some of it is acknowledged now and then */
    attend_for_long(pair.producer);
    assert_int_equal(boot_failed(pair.boots[0]), COLLET_SUCCESS);
    kernel.last_ms = HOUR_MS;
    attend_for_long(pair.consumer);
    kernel.says = false;
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(boot_failed(pair.boots[rank]), COLLET_ERR_REMOTE);
        assert_non_null(strstr(boot_failed_text(pair.boots[rank]), "from rank 1 (host host1, 127.0.0.1:"));
        assert_non_null(strstr(boot_failed_text(pair.boots[rank]), "nothing is acknowledged"));
    }
    pair_close(&pair);
}

static void a_full_fifo_reads_no_socket(void **state) {
    (void)state;
    struct pair pair;
    int fds[1];
    open_raw_producer(&pair, (struct shape){2, 1000, 1, 0}, fds);
    for (uint64_t step = 0; step < 5; step++) {
        struct wire_frame frame = {0, 0, 0, step, 0, 0};
        assert_int_equal(send(fds[0], &frame, sizeof(frame), MSG_NOSIGNAL), sizeof(frame));
    }
    for (uint64_t consumed = 0; consumed < 5; consumed++) {
        uint64_t expected = consumed + 2 < 5 ? consumed + 2 : 5;
        while (*pair.consumer->end.tail < expected) {
            progress(pair.consumer);
        }
        for (int k = 0; k < 50; k++)
            assert_false(progress(pair.consumer));
        fifo_consumed(&pair.consumer->end);
    }
    close_raw(&pair, fds, 1);
}

/* ------------------------------------------------------------------------------------------------------- COLLET_CHECKSUM */

static void with_checksums_slots_arrive_too(void **state) {
    setenv("COLLET_CHECKSUM", "1", 1);
    slots_of_all_sizes_and_protocols_arrive_in_order(state);
    what_the_sockets_do_not_take_is_sent_later(state);
    random_slots(state);
    payloads_go_from_memory_to_memory_that_waits_for_them(state);
    unsetenv("COLLET_CHECKSUM");
}

struct wire_slot {
    struct wire_frame frame;
    char payload[64];
};

static struct wire_slot wire_slot_of(uint64_t step) {
    struct wire_slot slot = {.frame = {.word = sizeof(slot.payload), .signature = 7, .sequence = 8, .step = step}};
    memset(slot.payload, (int)step + 'a', sizeof(slot.payload));
    slot.frame.payload_crc = crc32c(0, slot.payload, sizeof(slot.payload));
    slot.frame.frame_crc = wire_frame_crc(&slot.frame);
    return slot;
}

static void expect_changed(struct conn *conn) {
    enum collet_result result;
    while ((result = transport_tcp.progress(conn)) >= 0)
        be_patient();
    assert_int_equal(result, COLLET_ERR_REMOTE);
    if (strstr(err_last(),
               "data changed on the way from rank 1 (host host1) to rank 0 (host host0), by tcp, socket 0 of 2, "
               "127.0.0.1:") == NULL ||
        strstr(err_last(), "by lo: slot 1, its CRC32C differs") == NULL)
        fail_msg("the error does not name the link: %s", err_last());
    assert_int_equal(transport_tcp.progress(conn), COLLET_ERR_REMOTE); /* and it stays broken */
}

/* Lengths too: nobody waits for what a changed length promises. */
static void any_bit_that_changes_breaks_the_connection_and_names_the_socket(void **state) {
    (void)state;
    setenv("COLLET_CHECKSUM", "1", 1);
    for (uint32_t byte = 0; byte < sizeof(struct wire_slot); byte++) {
        struct pair pair;
        int fds[2];
        struct wire_slot slots[2] = {wire_slot_of(0), wire_slot_of(1)};
        open_raw_producer(&pair, (struct shape){8, 1000, 2, 0}, fds);
        ((char *)&slots[1])[byte] ^= (char)(1 << byte % 8);
        for (int k = 0; k < 2; k++)
            assert_int_equal(send(fds[1 - k], &slots[k], sizeof(slots[k]), MSG_NOSIGNAL), sizeof(slots[k]));
        while (!fifo_has_data(&pair.consumer->end)) {
            progress(pair.consumer);
        }
        assert_memory_equal(fifo_slot_at(&pair.consumer->end, PROTOCOL_SIMPLE, 0), slots[0].payload, 64);
        fifo_consumed(&pair.consumer->end);
        expect_changed(pair.consumer);
        close_raw(&pair, fds, 2);
    }
    unsetenv("COLLET_CHECKSUM");
}

/* Whoever checks a slot later does not find the socket of the next one. */
static void a_slot_that_came_before_is_said_to_have_come_by_its_own_socket(void **state) {
    (void)state;
    struct pair pair;
    int fds[2];
    char link[CONN_LINK_BYTES], expected[32];
    open_raw_producer(&pair, (struct shape){8, 1000, 2, 0}, fds);
    for (int k = 0; k < 2; k++) {
        const struct wire_slot slot = wire_slot_of((uint64_t)k);
        assert_int_equal(send(fds[1 - k], &slot, sizeof(slot), MSG_NOSIGNAL), sizeof(slot));
        while (*pair.consumer->end.tail != (uint64_t)k + 1) {
            progress(pair.consumer);
        }
    }
    for (int k = 0; k < 2; k++) {
        transport_tcp.link_text(pair.consumer, (uint64_t)k, link);
        snprintf(expected, sizeof(expected), "socket %d of 2, ", 1 - k);
        assert_non_null(strstr(link, expected));
    }
    close_raw(&pair, fds, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(slots_of_all_sizes_and_protocols_arrive_in_order, random_slots),
        cmocka_unit_test(few_bytes_share_a_socket_and_many_bytes_stay_on_one),
        cmocka_unit_test_setup(between_hosts_slots_arrive_in_order_too, random_slots),
        cmocka_unit_test_setup(a_producer_runs_ahead_until_the_kernel_takes_no_more, random_slots),
        cmocka_unit_test_setup(what_the_sockets_do_not_take_is_sent_later, random_slots),
        cmocka_unit_test_setup(payloads_go_from_memory_to_memory_that_waits_for_them, random_slots),
        cmocka_unit_test_setup(both_directions_move_at_once_over_the_same_sockets, random_slots),
        cmocka_unit_test_setup(the_ends_of_a_pair_may_begin_in_any_order, random_slots),
        cmocka_unit_test_setup(a_second_direction_joins_one_that_has_long_been_used, random_slots),
        cmocka_unit_test_setup(one_direction_goes_on_when_the_other_is_closed, random_slots),
        cmocka_unit_test_setup(a_rank_is_connected_with_itself, random_slots),
        cmocka_unit_test_setup(what_a_producer_sent_before_it_left_arrives, random_slots),
        cmocka_unit_test_setup(a_slot_cut_short_breaks_the_connection_after_the_slots_before_it, random_slots),
        cmocka_unit_test_setup(a_consumer_notices_that_its_socket_was_closed_though_its_producer_is_there,
                               random_slots),
        cmocka_unit_test_setup(a_producer_notices_that_its_consumer_is_gone, random_slots),
        cmocka_unit_test_setup(frames_in_pieces_of_any_size_are_put_together, random_slots),
        cmocka_unit_test_setup(frames_that_make_no_sense_break_the_connection, random_slots),
        cmocka_unit_test(a_network_that_acknowledges_nothing_is_an_error_on_all_ranks),
        cmocka_unit_test_setup(a_full_fifo_reads_no_socket, random_slots),
        cmocka_unit_test_setup(with_checksums_slots_arrive_too, random_slots),
        cmocka_unit_test_setup(any_bit_that_changes_breaks_the_connection_and_names_the_socket, random_slots),
        cmocka_unit_test(a_slot_that_came_before_is_said_to_have_come_by_its_own_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
