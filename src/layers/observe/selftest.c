/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/selftest.h"

#include "plan/map.h"
#include "transport/transport.h"

#include <stdio.h>

/* ---- one connection ---- */

/* Is the connection tested? The host must reach its slots. So a GPU's connection is tested only over a wire: there its short
 * slots lie in host memory. A fan is not tested, because its producer has several consumers. Other connections test the same
 * host memory. */
static bool is_tested(const struct conn *conn) {
    return conn->owner->config->selftest && !conn->transport->fans &&
           (conn->owner->gpu == NULL || conn->transport->remote);
}

/* A GPU's connection has its short slots in host memory, so these are tested. */
static uint32_t test_protocol(const struct conn *conn) {
    return conn->owner->gpu == NULL ? PROTOCOL_SIMPLE : PROTOCOL_LL;
}

static uint32_t test_bytes(const struct conn *conn) {
    return fifo_payload_bytes(conn_layout(conn), test_protocol(conn));
}

/* The test data: every bit is 0 in some slots and 1 in others. */
static uint8_t test_byte(uint64_t step, uint32_t i) { return (uint8_t)(step * 73 + i * 7 + (i >> 8) * 29); }

static bool is_over(const struct conn *conn) {
    return conn->end.position - (uint64_t)conn->owner->config->first_step == conn->end.nslots;
}

static void send_one(struct conn *conn) {
    uint64_t step = conn->end.position;
    uint8_t *payload = (uint8_t *)fifo_slot_at(&conn->end, test_protocol(conn), step);
    for (uint32_t i = 0; i < test_bytes(conn); i++)
        payload[i] = test_byte(step, i);
    fifo_header(&conn->end)->word = fifo_word(test_protocol(conn), test_bytes(conn));
    fifo_publish(&conn->end);
}

static enum collet_result err_changed(const struct conn *conn, uint32_t i, uint8_t came, uint8_t sent) {
    char found[96], text[ERR_TEXT_BYTES];
    snprintf(found, sizeof(found), "byte %u was sent as 0x%02x and came as 0x%02x (COLLET_SELFTEST)", i, sent, came);
    conn_text_changed(conn, conn->end.position, found, text);
    return err_set(COLLET_ERR_REMOTE, "%s", text);
}

static enum collet_result check_one(struct conn *conn) {
    uint64_t step = conn->end.position;
    const uint8_t *payload = (const uint8_t *)fifo_slot_at(&conn->end, test_protocol(conn), step);
    for (uint32_t i = 0; i < test_bytes(conn); i++)
        if (payload[i] != test_byte(step, i))
            return err_changed(conn, i, payload[i], test_byte(step, i));
    fifo_consumed(&conn->end);
    return COLLET_SUCCESS;
}

static enum collet_result producer_try(struct conn *conn) {
    size_t bytes;
    char none;
    while (!is_over(conn) && fifo_has_credit(&conn->end))
        send_one(conn);
    return boot_try_recv(conn->owner->boot, conn->peer, conn_key(conn, BOOT_TESTED), &none, sizeof(none), &bytes);
}

static enum collet_result consumer_try(struct conn *conn) {
    while (!is_over(conn) && fifo_has_data(&conn->end))
        COLLET_TRY(check_one(conn));
    if (!is_over(conn) || !conn_is_idle(conn))
        return COLLET_IN_PROGRESS;
    return boot_send(conn->owner->boot, conn->peer, conn_key(conn, BOOT_TESTED), "", 1);
}

enum collet_result selftest_conn_try(struct conn *conn) {
    if (!is_tested(conn))
        return COLLET_SUCCESS;
    enum collet_result result = conn->side == CONN_PRODUCER ? producer_try(conn) : consumer_try(conn);
    if (result != COLLET_IN_PROGRESS || conn->transport->progress == NULL)
        return result;
    result = conn->transport->progress(conn);
    return result < 0 ? result : COLLET_IN_PROGRESS;
}

/* ---- all ranks ---- */

#define WHAT "end its self-test"

static enum collet_result news_of_peer(const void *whom) {
    const struct conn *conn = (const struct conn *)whom;
    return boot_check_wait(conn->owner->boot, NULL, conn->peer, UINT64_MAX, WHAT);
}

/* Tests connections with a peer, in both directions, on one channel per ring. *waits becomes true if this rank still
 * waits for the peer. */
static enum collet_result peer_try(struct chan *chan, int peer, bool *waits) {
    int nchannels = chan->owner.tied ? chan->owner.map->norders : 1;
    /* The connections are on the lane of algorithms that connect to all ranks. */
    const int lane = conn_lane(&chan->owner, PROG_TO_ALL, 0);
    for (int k = 0; k < 2 * nchannels; k++) {
        struct conn *conn;
        COLLET_TRY(conn_get(chan, peer, k / 2, lane, k % 2 ? CONN_PRODUCER : CONN_CONSUMER, &conn));
        enum collet_result result = conn_try(conn);
        if (result < 0)
            return boot_explain(result, news_of_peer, conn);
        *waits |= result == COLLET_IN_PROGRESS;
    }
    return COLLET_SUCCESS;
}

enum collet_result selftest_all_try(struct chan *chan, uint64_t deadline_ns) {
    const struct conn_owner *owner = &chan->owner;
    int waits_for = -1;
    for (int peer = 0; owner->config->selftest && peer < owner->nranks; peer++) {
        bool waits = false;
        if (peer != owner->rank)
            COLLET_TRY(peer_try(chan, peer, &waits));
        waits_for = waits ? peer : waits_for;
    }
    return waits_for < 0 ? COLLET_SUCCESS : boot_check_wait(owner->boot, NULL, waits_for, deadline_ns, WHAT);
}
