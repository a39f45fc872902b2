/* SPDX-License-Identifier: Apache-2.0
 *
 * The tcp transport between two ends in one process, over loopback, with the executor's part (publish, consume) done by
 * hand. For tests/core/test_tcp*.c.
 */
#ifndef COLLET_TESTS_TCP_PAIR_H
#define COLLET_TESTS_TCP_PAIR_H

#include "base/config_read.h"
#include "common/local_boots.h"
#include "common/patience.h"
#include "common/slots.h"

#include "base/err.h"
#include "chan/chan.h"
#include "transport/tcp_link.h"
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Not every test needs all of this. */
#pragma GCC diagnostic ignored "-Wunused-function"

#include <unistd.h>

extern const struct transport transport_tcp;

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
        struct chan_options options = {
            .boot = pair->boots[rank], .config = &pair->configs[rank], .nranks = 2, .rank = rank};
        assert_int_equal(chan_create(&options, &pair->chans[rank]), COLLET_SUCCESS);
        pair->chans[rank]->owner.peers = pair->peers;
        pair->chans[rank]->owner.layouts[PROG_TO_FEW] =
            fifo_layout_of(shape.nslots, (struct protocol_sizes){shape.slot_bytes, 256, 256}, 0);
    }
    pair->producer = conn_of(pair, 1, CONN_PRODUCER);
    pair->consumer = conn_of(pair, 0, CONN_CONSUMER);
    pair->back_producer = conn_of(pair, 0, CONN_PRODUCER);
    pair->back_consumer = conn_of(pair, 1, CONN_CONSUMER);
    patience_begin();
}

/* Moves both ends of a connection forward until it is ready. */
static void connect_ends(struct conn *producer, struct conn *consumer) {
    enum collet_result mine, theirs;
    do {
        be_patient();
        mine = conn_try(producer);
        theirs = conn_try(consumer);
        if (mine < 0 || theirs < 0)
            fail_msg("the ends do not connect: %s", err_last());
    } while (mine != COLLET_SUCCESS || theirs != COLLET_SUCCESS);
}

static void pair_open(struct pair *pair, struct shape shape) {
    pair_init(pair, shape);
    connect_ends(pair->producer, pair->consumer);
}

static void pair_open_both_ways(struct pair *pair, struct shape shape) {
    pair_open(pair, shape);
    connect_ends(pair->back_producer, pair->back_consumer);
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
    assert_int_equal(
        boot_try_recv(pair->boots[1], 0, transport_key(pair->consumer, TCP_LISTENS), &offer, sizeof(offer), &bytes),
        COLLET_SUCCESS);
    assert_int_equal(bytes, sizeof(offer));
    return offer;
}

static void tell_offer(struct pair *pair, const void *offer, size_t bytes) {
    assert_int_equal(boot_send(pair->boots[0], 1, transport_key(pair->consumer, TCP_LISTENS), offer, bytes),
                     COLLET_SUCCESS);
}

static bool progress(struct conn *conn) {
    be_patient();
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
    }
}

/* -------------------------------------------------------------------------------------------------------------- moving slots */

struct stream {
    struct conn *producer, *consumer;
    uint64_t end; /* the step to stop at */
};

static struct stream stream_of(struct conn *producer, struct conn *consumer, uint64_t n) {
    return (struct stream){producer, consumer, producer->end.position + n};
}

static bool stream_is_over(const struct stream *stream) {
    return stream->consumer->end.position == stream->end && transport_tcp.idle(stream->producer);
}

/* Producer and consumer act or do not, by chance. */
static void stream_turn(const struct stream *stream, uint64_t chance) {
    if (chance % 4 != 0 && stream->producer->end.position != stream->end && fifo_has_credit(&stream->producer->end))
        slots_publish(stream->producer);
    if (chance % 3 == 0)
        progress(stream->producer);
    if (chance % 5 < 3)
        progress(stream->consumer);
    if (chance % 7 < 4 && fifo_has_data(&stream->consumer->end))
        slots_consume(stream->consumer);
}

static void move_streams(const struct stream *streams, int nstreams) {
    uint64_t chance = 1;
    for (bool over = false; !over;) {
        over = true;
        for (int k = 0; k < nstreams; k++) {
            chance = slots_mix(chance + 77);
            stream_turn(&streams[k], chance);
            over = over && stream_is_over(&streams[k]);
        }
    }
}

static void move_slots(struct pair *pair, uint64_t n) {
    struct stream stream = stream_of(pair->producer, pair->consumer, n);
    move_streams(&stream, 1);
}

static void move_slots_back(struct pair *pair, uint64_t n) {
    struct stream stream = stream_of(pair->back_producer, pair->back_consumer, n);
    move_streams(&stream, 1);
}

static void move_slots_both_ways(struct pair *pair, uint64_t n, uint64_t n_back) {
    struct stream streams[] = {
        stream_of(pair->producer, pair->consumer, n),
        stream_of(pair->back_producer, pair->back_consumer, n_back),
    };
    move_streams(streams, 2);
}

static int random_slots(void **state) {
    (void)state;
    slots_pattern.whole = false;
    return 0;
}

#endif
