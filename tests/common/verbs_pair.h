/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs transport between two ends in one process, over a libibverbs that moves memory (common/fake_verbs.h), with the
 * executor's part (publish, consume) done by hand. For tests/layers/verbs/test_verbs*.c: what goes wrong there is what a real NIC
 * would report.
 */
#ifndef TESTS_COMMON_VERBS_PAIR_H
#define TESTS_COMMON_VERBS_PAIR_H

#include "base/config_read.h"
#include "common/fake_verbs.h"
#include "common/local_boots.h"
#include "common/patience.h"
#include "common/slots.h"

#include "base/err.h"
#include "transport/verbs/verbs_end.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

/* -------------------------------------------------------------------------------------------------- two ends, one process */

struct shape {
    uint32_t nslots, slot_bytes;
    int nrails, nqps;
    uint64_t first_step;
};

struct pair {
    struct config configs[2];
    struct boot *boots[2];
    struct peer_info peers[2];
    struct conn_owner owners[2];
    struct conn producer, consumer; /* of rank 0 and rank 1 */
    struct conn_blob blob;
};

/* The process's devices were opened once; how many of them are used is up to each case. */
static void use_ports(int n) {
    struct verbs_host *host = verbs_host();
    assert_int_equal(host->nports, FAKE_DEVICES);
    for (int k = 0; k < host->nports; k++) {
        host->ports[k].kinds = k < n ? 1u << VERBS_ROCE_IPV4 : 0;
        host->ports[k].down = host->ports[k].device->removed = 0;
    }
    host->kinds = 1u << VERBS_ROCE_IPV4;
}

/* What this host's ports are now, as if the rank had said so. */
static void set_card(struct peer_info *peer) {
    peer->cards[transport_number(&transport_verbs)] = verbs_host_card(verbs_host());
}

static void pair_init(struct pair *pair, struct shape shape) {
    memset(pair, 0, sizeof(*pair));
    patience_begin();
    fake_repair();
    use_ports(shape.nrails);
    assert_int_equal(config_read(&pair->configs[0]), COLLET_SUCCESS);
    pair->configs[0].first_step = (int64_t)shape.first_step;
    pair->configs[0].ib_qps_per_connection = shape.nqps;
    pair->configs[0].net_rail_wait = 0; /* tests of rails that return set it */
    pair->configs[1] = pair->configs[0];
    assert_int_equal(boot_join_local(2, NULL, pair->configs, pair->boots), COLLET_SUCCESS);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(boot_try_init(pair->boots[rank]), COLLET_SUCCESS);
        pair->peers[rank].rank = rank;
        set_card(&pair->peers[rank]);
        snprintf(pair->peers[rank].host, sizeof(pair->peers[rank].host), "host%d", rank);
        pair->owners[rank] = (struct conn_owner){
            .config = &pair->configs[rank], .boot = pair->boots[rank], .peers = pair->peers, .nranks = 2, .rank = rank};
        pair->owners[rank].layouts[PROG_TO_FEW] =
            fifo_layout_of(shape.nslots, (struct protocol_sizes){shape.slot_bytes, 256, 256}, 0);
    }
    pair->producer =
        (struct conn){.side = CONN_PRODUCER, .peer = 1, .transport = &transport_verbs, .owner = &pair->owners[0]};
    pair->consumer =
        (struct conn){.side = CONN_CONSUMER, .peer = 0, .transport = &transport_verbs, .owner = &pair->owners[1]};
}

static void pair_connect(struct pair *pair) {
    enum collet_result mine, theirs;
    do {
        be_patient();
        mine = transport_verbs.ready(&pair->producer);
        theirs = transport_verbs.ready(&pair->consumer);
        if (mine < 0 || theirs < 0)
            fail_msg("the ends do not connect: %s", err_last());
    } while (mine != COLLET_SUCCESS || theirs != COLLET_SUCCESS);
}

static void pair_open(struct pair *pair, struct shape shape) {
    pair_init(pair, shape);
    assert_int_equal(transport_verbs.offer(&pair->consumer, &pair->blob), COLLET_SUCCESS);
    assert_int_equal(transport_verbs.accept(&pair->producer, &pair->blob), COLLET_SUCCESS);
    pair_connect(pair);
}

/* Set-up fails at both ends, in a way that lets them try another transport. */
static void expect_unreachable(struct pair *pair, const char *why) {
    struct conn *const conns[] = {&pair->consumer, &pair->producer};
    enum collet_result results[2] = {COLLET_IN_PROGRESS, COLLET_IN_PROGRESS};
    while (results[0] == COLLET_IN_PROGRESS || results[1] == COLLET_IN_PROGRESS)
        for (int k = 0; k < 2; k++) {
            be_patient();
            if (results[k] != COLLET_IN_PROGRESS)
                continue;
            results[k] = transport_verbs.ready(conns[k]);
            if (results[k] != COLLET_IN_PROGRESS)
                assert_non_null(strstr(err_last(), why));
        }
    assert_int_equal(results[0], COLLET_ERR_UNSUPPORTED);
    assert_int_equal(results[1], COLLET_ERR_UNSUPPORTED);
}

static void conn_close(struct conn *conn) {
    transport_verbs.close(conn);
    conn->impl = NULL;
}

static void pair_close(struct pair *pair) {
    conn_close(&pair->producer);
    conn_close(&pair->consumer);
    for (int rank = 0; rank < 2; rank++)
        boot_destroy(pair->boots[rank]);
    if (fake_leftover() != NULL)
        fail_msg("%s", fake_leftover());
}

/* What a case that failed has left behind is not the next one's fault. */
static int forget(void **state) {
    (void)state;
    memset(fake.qps, 0, sizeof(fake.qps));
    memset(fake.mrs, 0, sizeof(fake.mrs));
    fake.ncqs = 0;
    fake.fault = NULL;
    return 0;
}

static struct verbs_end *end_of(const struct conn *conn) { return conn->impl; }

/* Calls of up to a few dozen steps; which step is the first of one follows no pattern of the slots. */
static uint64_t call_of(uint64_t step) { return step / 29 + (slots_mix(step / 29) % 29 < step % 29); }

static bool progress(struct conn *conn) {
    be_patient();
    enum collet_result result = transport_verbs.progress(conn);
    if (result < 0)
        fail_msg("progress failed: %s", err_last());
    return result == COLLET_SUCCESS;
}

static void settle(struct pair *pair) {
    for (int quiet = 0; quiet < 2000; quiet++) {
        if ((int)progress(&pair->producer) | (int)progress(&pair->consumer))
            quiet = 0;
    }
}

/* One turn of producer and consumer, which act in a random order. */
static void turn(struct pair *pair, uint64_t end) {
    uint64_t chance = fake_random();
    if (chance % 4 != 0 && pair->producer.end.position != end && fifo_has_credit(&pair->producer.end))
        slots_publish(&pair->producer);
    if (chance % 3 == 0)
        progress(&pair->producer);
    if (chance % 5 < 3)
        progress(&pair->consumer);
    if (chance % 7 < 4 && fifo_has_data(&pair->consumer.end))
        slots_consume(&pair->consumer);
}

/* All steps up to this one are consumed, and both ends know. */
static bool is_over(const struct pair *pair, uint64_t end) {
    return pair->consumer.end.position == end && transport_verbs.idle(&pair->producer) &&
           transport_verbs.idle(&pair->consumer);
}

/* So many more steps, and what is under way. */
static void move_slots(struct pair *pair, uint64_t n) {
    uint64_t end = pair->producer.end.position + n;
    while (!is_over(pair, end))
        turn(pair, end);
}

/* Progress until it fails; the error must say each of the texts. */
static void expect_broken(struct conn *conn, const char *what, const char *where) {
    enum collet_result result;
    while ((result = transport_verbs.progress(conn)) >= 0)
        be_patient();
    char rank[32];
    snprintf(rank, sizeof(rank), "rank %d (host host%d)", conn->peer, conn->peer);
    assert_int_equal(result, COLLET_ERR_REMOTE);
    if (strstr(err_last(), rank) == NULL || strstr(err_last(), what) == NULL || strstr(err_last(), where) == NULL)
        fail_msg("the error does not say '%s', '%s' and '%s': %s", rank, what, where, err_last());
    while ((result = transport_verbs.progress(conn)) >= 0) /* completions may come yet; it stays broken */
        be_patient();
    assert_int_equal(result, COLLET_ERR_REMOTE);
}

/* Both ends come to know that no rail is left: nobody waits for one. */
static void expect_both_broken(struct pair *pair) {
    enum collet_result mine = COLLET_SUCCESS, theirs = COLLET_SUCCESS;
    while (mine >= 0 || theirs >= 0) {
        be_patient();
        mine = transport_verbs.progress(&pair->producer);
        theirs = transport_verbs.progress(&pair->consumer);
        if (fifo_has_data(&pair->consumer.end))
            slots_consume(&pair->consumer);
    }
    assert_int_equal(mine, COLLET_ERR_REMOTE);
    assert_int_equal(theirs, COLLET_ERR_REMOTE);
}

#endif
