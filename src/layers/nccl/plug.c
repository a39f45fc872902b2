/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin: two FIFOs of the same layout, one at each end, and a network plugin of NCCL's kind that carries messages between them.
 *
 *    producer's FIFO                                                             consumer's FIFO
 *    slot s ── isend(frame s) ─────── message ──────▶ irecv(frame s)             what comes next, and how long is it?
 *           ── isend(payload s) ───── message ──────▶ irecv(payload s) ────────▶ slot s, header s, then tail
 *    head: both messages of                                                      head: moved by the executor;
 *    all slots before are done                                                   a full FIFO asks for no frame
 *
 * A short payload is in its frame's message. A receiver must provide the memory for a message before the message comes. So
 * the frame comes first, and says whether a payload follows. Messages of one connection come in the order in which they
 * were sent.
 *
 * Many plugins can receive several messages in one request. With them the consumer asks for frame and payload together,
 * with the tags 0 and 1, and for all free slots: no payload waits until the consumer has read its frame. If the payload is
 * in the frame's message, a message of 0 bytes follows.
 *
 * No credit is sent back. A message is only received if the consumer has asked for it. A consumer without free slots asks
 * for nothing, so the producer's messages are not done.
 *
 * wire.h describes the frame, and the consumer's checks.
 *
 * The consumer begins to listen when it makes its offer. The offer contains the handle by which the plugin finds the
 * listener. Each end uses the device of its ring's NIC. If there is none, the consumer chooses the devices in turn, and the
 * offer says which.
 *
 * When a connection breaks, slots that have come can still be consumed. A plugin cannot tell a peer that has finished from
 * a broken cable. The control plane can, after a short time.
 * Read next: plug_producer.c and plug_consumer.c, what moves; plug_lib.h, the plugin; plug_abi.h, its interface.
 */
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "program/program.h"
#include "topo/probe/nic.h"
#include "layers/nccl/plug_end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plug_offer {
    uint8_t handle[PLUG_HANDLE_BYTES];
    int32_t device;
    int32_t together; /* 1: frame and payload are asked for in one request */
};

static uint64_t plug_card(int device) {
    (void)device;
    return plug_host()->card;
}

static bool plug_reaches(const struct peer_info *a, const struct peer_info *b, const char **why) {
    uint64_t one = transport_card(&transport_plugin, a), other = transport_card(&transport_plugin, b);
    *why = one == 0 && other == 0 ? "no COLLET_NET_PLUGIN" : "the ranks have different plugins";
    return one != 0 && one == other;
}

/* ---- devices ---- */

/* The device of the NIC to which the connection is tied; −1: it is not tied. */
static int tied_device(const struct conn *conn, const struct plug_host *host) {
    const struct topo_nic *nic = conn->lane == PROG_LANE_P2P ? nic_of_messages(conn) : nic_of_conn(conn);
    for (int k = 0; nic != NULL && k < host->ndevices; k++)
        if (strcmp(host->devices[k].nic.name, nic->name) == 0)
            return k;
    return -1;
}

/* Channels use the fastest devices in turn. */
static int device_in_turn(const struct conn *conn, const struct plug_host *host) {
    int fastest[PLUG_DEVICES_MAX], n = 0;
    for (int k = 0; k < host->ndevices; k++) {
        if (n > 0 && host->devices[k].nic.mbits > host->devices[fastest[0]].nic.mbits)
            n = 0;
        if (n == 0 || host->devices[k].nic.mbits == host->devices[fastest[0]].nic.mbits)
            fastest[n++] = k;
    }
    return fastest[conn->channel % n];
}

/* ---- setting up ---- */

static enum collet_result plug_end_create(struct conn *conn) {
    const struct fifo_layout *layout = conn_layout(conn);
    struct plug_end *end;
    COLLET_TRY(memory_get(&end, 1, sizeof *end, "no memory for a connection with rank %d", conn->peer));
    conn->impl = end; /* from here on plug_close() frees everything */
    end->host = plug_host();
    end->device = tied_device(conn, end->host);
    end->bytes = layout->total_bytes + layout->nslots * plug_frame_room(conn);
    COLLET_TRY(wire_memory_create(conn->owner, end->bytes, &end->memory));
    fifo_memory_init(end->memory, layout, conn->owner->config);
    fifo_end_init(&conn->end, end->memory, layout, conn->owner->config);
    end->asked = end->wanted = conn->end.position;
    return COLLET_SUCCESS;
}

static enum collet_result plug_offer(struct conn *conn, struct conn_blob *blob) {
    struct plug_offer offer = {.device = 0};
    COLLET_TRY(plug_end_create(conn));
    struct plug_end *end = conn->impl;
    if (end->device < 0)
        end->device = device_in_turn(conn, end->host);
    offer.device = end->device;
    offer.together = end->together = end->host->devices[end->device].receives >= PLUG_TOGETHER;
    int result = plug_listen(end->host, end->device, offer.handle, &end->listener);
    if (result != PLUG_SUCCESS || end->listener == NULL)
        return err_set(COLLET_ERR_SYSTEM, "net plugin %s cannot listen on %s: error %d", end->host->table->name,
                       end->host->devices[end->device].nic.name, result);
    memcpy(blob->data, &offer, blob->bytes = sizeof(offer));
    return COLLET_SUCCESS;
}

static enum collet_result plug_accept(struct conn *conn, const struct conn_blob *blob) {
    struct plug_offer offer;
    if (blob->bytes != sizeof(offer))
        return err_set(COLLET_ERR_INTERNAL, "the plugin's offer of rank %d has %zu bytes", conn->peer, blob->bytes);
    memcpy(&offer, blob->data, sizeof(offer));
    COLLET_TRY(plug_end_create(conn));
    struct plug_end *end = conn->impl;
    if (end->device < 0)
        end->device = (int)((uint32_t)offer.device % (uint32_t)end->host->ndevices);
    end->together = offer.together != 0;
    memcpy(end->handle, offer.handle, sizeof(end->handle));
    return COLLET_SUCCESS;
}

static enum collet_result line_try(struct conn *conn) {
    struct plug_end *end = conn->impl;
    bool sends = conn->side == CONN_PRODUCER;
    void *on_device = NULL;
    int result = sends ? plug_connect(end->host, end->device, end->handle, &end->line)
                       : end->host->table->accept(end->listener, &end->line, &on_device);
    if (result != PLUG_SUCCESS)
        return err_set(COLLET_ERR_REMOTE, "net plugin %s cannot %s rank %d (host %s): %s has failed with error %d",
                       end->host->table->name, sends ? "reach" : "be reached by", conn->peer,
                       conn->owner->peers[conn->peer].host, sends ? "connect" : "accept", result);
    return end->line == NULL ? COLLET_IN_PROGRESS : COLLET_SUCCESS;
}

static enum collet_result plug_ready(struct conn *conn) {
    struct plug_end *end = conn->impl;
    if (end->registered)
        return COLLET_SUCCESS;
    COLLET_TRY(line_try(conn));
    if (end->listener != NULL)
        end->host->table->close_listen(end->listener);
    end->listener = NULL;
    return plug_memory_register(conn);
}

static void plug_close(struct conn *conn) {
    struct plug_end *end = conn->impl;
    if (end == NULL)
        return;
    plug_memory_forget(conn);
    if (end->listener != NULL)
        end->host->table->close_listen(end->listener);
    if (end->line != NULL && conn->side == CONN_PRODUCER)
        end->host->table->close_send(end->line);
    else if (end->line != NULL)
        end->host->table->close_recv(end->line);
    wire_memory_destroy(conn->owner, end->memory, end->bytes);
    free(end);
}

/* ---- moving ---- */

static bool plug_move(struct conn *conn) {
    return conn->side == CONN_PRODUCER ? plug_producer_move(conn) : plug_consumer_move(conn);
}

/* Must the failure be reported? Not if the peer has finished and left, and not before the news of its leaving must have
 * come. */
static bool is_to_be_told(const struct conn *conn) {
    const struct plug_end *end = conn->impl;
    bool consumed = conn->side == CONN_PRODUCER || wire_head(conn) == *conn->end.tail;
    return plug_is_broken(end) && consumed && os_now_ns() - end->broken_ns > boot_grace_ns(true) &&
           !conn_peer_has_left(conn);
}

static enum collet_result plug_progress(struct conn *conn) {
    const struct plug_end *end = conn->impl;
    if (plug_move(conn))
        return COLLET_SUCCESS;
    return is_to_be_told(conn) ? err_set(COLLET_ERR_REMOTE, "%s", end->broken) : COLLET_IN_PROGRESS;
}

/* On a broken connection, messages are never done. A peer that has left does not need them, so the end is idle. */
static bool plug_idle(const struct conn *conn) {
    const struct plug_end *end = conn->impl;
    return conn->side == CONN_CONSUMER || *conn->end.head == wire_tail(conn) ||
           (plug_is_broken(end) && conn_peer_has_left(conn));
}

/* Messages are only done when the consumer has asked for them, so both ends must go on. */
static void plug_attend(struct conn *conn) { plug_move(conn); }

const struct transport transport_plugin = {
    .name = "plugin",
    .bit = COLLET_TRANSPORT_PLUGIN,
    .remote = true,
    .messages = true,
    .card = plug_card,
    .reaches = plug_reaches,
    .offer = plug_offer,
    .accept = plug_accept,
    .ready = plug_ready,
    .progress = plug_progress,
    .idle = plug_idle,
    .attend = plug_attend,
    .link_text = plug_link_text,
    .close = plug_close,
};
