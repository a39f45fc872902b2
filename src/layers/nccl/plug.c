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
 * A short payload is in the frame's message, and there is no other. A receiver must say where a message goes before it comes. So the
 * frame goes ahead, and says whether a payload follows. Messages of one connection come in the order in which they were sent.
 *
 * Many plugins receive several messages in one request. There the consumer asks for frame and payload together, with the tags 0 and 1,
 * and for all slots that are free: nobody waits for a frame before the payload can come. A payload that was in the frame's message is
 * followed by one without bytes.
 *
 * No credit goes back. A message is only received where somebody has asked for it, so a consumer without room asks for nothing,
 * and the producer's messages are not done.
 *
 * wire.h has the frame, and what the consumer checks.
 *
 * The consumer listens while it makes its offer, and what the plugin gives it to be found by is the offer. Which of a plugin's
 * devices: that of the ring's NIC at each end; or the devices in turn, as the consumer says.
 *
 * When a line breaks, what was received stays consumable. A plugin does not tell an end that has finished and left from a cable
 * that is out: the control plane does, if it is given a moment.
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
    int32_t together; /* frame and payload are asked for in one request */
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

/* The device of the NIC that the connection is tied to; −1: it is tied to none. */
static int tied_device(const struct conn *conn, const struct plug_host *host) {
    const struct topo_nic *nic = conn->lane == PROG_LANE_P2P ? nic_of_messages(conn) : nic_of_conn(conn);
    for (int k = 0; nic != NULL && k < host->ndevices; k++)
        if (strcmp(host->devices[k].nic.name, nic->name) == 0)
            return k;
    return -1;
}

/* Each channel uses one of the fastest devices. */
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

/* ---- coming ---- */

static enum collet_result plug_end_create(struct conn *conn) {
    const struct fifo_layout *layout = conn_layout(conn);
    struct plug_end *end;
    COLLET_TRY(memory_get(&end, 1, sizeof *end, "no memory for a connection with rank %d", conn->peer));
    conn->impl = end; /* from here on plug_close() cleans up */
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

/* Whoever has finished and left is no failure, and neither is it before its goodbye can be here. */
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

/* Of a line that broke, messages are never done: a peer that has left needs none of them. */
static bool plug_idle(const struct conn *conn) {
    const struct plug_end *end = conn->impl;
    return conn->side == CONN_CONSUMER || *conn->end.head == wire_tail(conn) ||
           (plug_is_broken(end) && conn_peer_has_left(conn));
}

/* A producer's messages are done when its consumer has asked for them. */
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
