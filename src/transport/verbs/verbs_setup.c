/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the two ends of a verbs connection.
 *
 *    consumer                                                              producer
 *    FIFO, registered; queue pairs in INIT,
 *    receives posted          ─── offer: GIDs, numbers, rkey (blob) ────▶  FIFO, queue pairs; connects them to RTS
 *    connects its own to RTS  ◀── answer: the same (control plane) ──────
 *    greets: an empty write with the first head, on every queue pair ───▶
 *                             ◀── acknowledgements, by the NICs ──────────
 *    the rail is up           ─── of each rail (control plane) ──────────▶  the rail is up
 *    ready, when no rail is in doubt                                        ready, when no rail is in doubt
 *
 * For a rail in reserve (verbs_rail.c), nothing is made here: no queue pair, no registration. It is opened when it is
 * needed, like a rail that comes back (verbs_failover.c).
 *
 * So each path has carried data in both directions before it is used. A rail that does not work is lost here, and settled
 * before any slot went through it (verbs_failover.c). The connection works without it, and tests it again later. If no rail
 * works, both ends know that, and the connection falls back to another transport (chan.c).
 */
#include "base/memory.h"
#include "base/os.h"
#include "base/wait.h"
#include "transport/verbs/verbs_direct.h"
#include "transport/verbs/verbs_end.h"

#include <stdlib.h>
#include <string.h>

#define DRAIN_NS 2000000000ull /* maximum time for which close() waits for acknowledgements */

/* -------------------------------------------------------------------------------------------------------------- one rail */

/* The producer does not open a rail that the consumer has not opened. offer: NULL for the consumer. */
static enum verbs_start start_of(const struct verbs_end *end, int r, const struct verbs_hello *offer) {
    if (!verbs_rail_usable(end, r))
        return VERBS_START_DOWN;
    const bool opened = offer == NULL || offer->rails[r].start == VERBS_START_OPEN;
    return opened && verbs_rail_carries(end, r) ? VERBS_START_OPEN : VERBS_START_IN_RESERVE;
}

/* Opens a rail. A port that does not work now may work later; a device that has failed will not. */
static enum collet_result rail_create(struct conn *conn, int r, const struct verbs_hello *offer) {
    struct verbs_end *end = conn->impl;
    struct verbs_device *device = end->rails[r].port->device;
    verbs_device_look(end->host, device);
    end->mine.rails[r].start = (uint8_t)start_of(end, r, offer);
    if (!verbs_device_is_gone(device))
        COLLET_TRY(verbs_rail_plan(conn, r));
    return end->mine.rails[r].start == VERBS_START_OPEN ? verbs_rail_open(conn, r) : COLLET_SUCCESS;
}

static void rail_destroy(struct verbs_end *end, int r) {
    struct verbs_rail *rail = &end->rails[r];
    verbs_rail_close(end, r);
    if (rail->mr != NULL)
        end->host->lib.dereg_mr(rail->mr);
    rail->mr = NULL;
}

/* --------------------------------------------------------------------------------------------------------------- an end */

/* The FIFO's layout, with room for a frame after each slot's payload. */
static struct fifo_layout layout_of(const struct conn *conn) {
    const struct fifo_layout *layout = conn_layout(conn);
    uint32_t frame = sizeof(struct verbs_frame);
    struct protocol_sizes sizes = layout->sizes;
    sizes.long_bytes += frame;
    sizes.short_bytes += frame;
    sizes.lines_bytes += frame;
    return fifo_layout_of(layout->nslots, sizes, 0);
}

/* Creates the memory of the FIFO and of the frames. It is on the host; Simple slots may be on the rank's GPU. */
static enum collet_result create_memory(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    const struct config *config = conn->owner->config;
    struct fifo_layout layout = layout_of(conn);
    verbs_direct_create(conn, (size_t)layout.nslots * layout.strides[PROTOCOL_SIMPLE]);
    size_t frames_at = end->direct.memory != NULL ? layout.slots_at[PROTOCOL_SIMPLE] : layout.total_bytes;
    end->bytes = frames_at + layout.nslots * (sizeof(struct verbs_frame) + sizeof(struct verbs_landing));
    COLLET_TRY(wire_memory_create(conn->owner, end->bytes, &end->memory));
    fifo_memory_init(end->memory, &layout, config);
    fifo_end_init(&conn->end, end->memory, &layout, config);
    if (end->direct.memory != NULL)
        conn->end.slots[PROTOCOL_SIMPLE] = end->direct.memory;
    end->frames = (struct verbs_frame *)(void *)((char *)end->memory + frames_at);
    end->landings = (struct verbs_landing *)(void *)(end->frames + layout.nslots);
    end->mine.direct = end->direct.memory != NULL;
    end->mine.memory = (uintptr_t)end->memory;
    end->mine.slots = (uintptr_t)conn->end.slots[PROTOCOL_SIMPLE];
    end->mine.frames = (uintptr_t)end->frames;
    return COLLET_SUCCESS;
}

/* The kind of the network between the two ranks. */
static int common_kind(const struct conn *conn) {
    const struct peer_info *peers = conn->owner->peers, *self = &peers[conn->owner->rank], *peer = &peers[conn->peer];
    return verbs_common_kind(verbs_card_of(self), verbs_card_of(peer));
}

/* Which payloads are spread, for adaptive routing? By default InfiniBand's: its subnet manager allows that. Ethernet needs more setup. */
static uint32_t spread_bytes_of(const struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    const struct config *config = conn->owner->config;
    const bool on = config->ib_adaptive_routing < 0 ? end->kind == VERBS_INFINIBAND : config->ib_adaptive_routing > 0;
    return on ? (uint32_t)config->ib_ar_threshold : UINT32_MAX;
}

/* offer: the consumer's offer; NULL: this end is the consumer. */
static enum collet_result end_create(struct conn *conn, const struct verbs_hello *offer) {
    struct verbs_end *end;
    COLLET_TRY(memory_get(&end, 1, sizeof *end, "no memory for a connection with rank %d", conn->peer));
    conn->impl = end; /* from here on verbs_free() cleans up */
    end->host = verbs_host();
    end->kind = (enum verbs_kind)common_kind(conn);
    end->nqps = (int)conn->owner->config->ib_qps_per_connection;
    verbs_rails_choose(conn, offer);
    COLLET_TRY(create_memory(conn));
    end->sent = end->credit = end->told = conn->end.position;
    end->mine.takes_landings = conn->side == CONN_PRODUCER && conn->owner->gpu == NULL;
    end->spread_bytes = spread_bytes_of(conn);
    for (int r = 0; r < end->nrails; r++)
        COLLET_TRY(rail_create(conn, r, offer));
    return COLLET_SUCCESS;
}

/* The state of the rail at both ends together. */
static enum verbs_start start_at_both(const struct verbs_end *end, int r) {
    const uint8_t mine = end->mine.rails[r].start, theirs = end->theirs.rails[r].start;
    if (mine == VERBS_START_DOWN || theirs == VERBS_START_DOWN)
        return VERBS_START_DOWN;
    return mine == VERBS_START_OPEN && theirs == VERBS_START_OPEN ? VERBS_START_OPEN : VERBS_START_IN_RESERVE;
}

/* The connection goes on without this rail. The producer's answer tells the other end, or a letter as for a lost rail does. */
static void rail_left_out(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    struct verbs_rail *rail = &end->rails[r];
    end->mine.rails[r].start = VERBS_START_DOWN;
    verbs_rail_close(end, r);
    if (rail->state != VERBS_RAIL_LOST) /* a lost rail already waits */
        verbs_rail_waits(conn, r);
    rail->state = VERBS_RAIL_DOWN;
    rail->told = false;
}

/* The other end is known: starts to test a rail. A rail that is down, or cannot connect, is left out. */
static void rail_connect(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    struct verbs_rail *rail = &end->rails[r];
    const bool answers = conn->side == CONN_PRODUCER;
    switch (start_at_both(end, r)) {
    case VERBS_START_IN_RESERVE:
        verbs_rail_close(end, r);
        rail->untried = true;
        break;
    case VERBS_START_DOWN:
        log_info(NET, "rank %d: a port of rail %d is down; the connection with rank %d does without", conn->owner->rank,
                 r, conn->peer);
        rail_left_out(conn, r);
        break;
    case VERBS_START_OPEN:
        verbs_rail_test(conn, r);
        rail->told = answers;
        if (rail->state != VERBS_RAIL_TESTED && answers)
            rail_left_out(conn, r);
    }
}

static void rails_connect(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    end->stage = VERBS_GREETING;
    for (int r = 0; r < end->nrails; r++)
        rail_connect(conn, r);
}

static void log_rails(const struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    char text[VERBS_GID_TEXT_BYTES];
    for (int r = 0; r < end->nrails; r++) {
        const struct verbs_port *port = end->rails[r].port;
        if (end->rails[r].untried)
            log_info(NET, "channel %d lane %d: rank %d %s %d: %s port %d is in reserve: it is opened when it is needed",
                     conn->channel, conn->lane, conn->owner->rank, conn_arrow(conn), conn->peer, port->device->name,
                     port->number);
        if (end->rails[r].state == VERBS_RAIL_DOWN)
            continue;
        int mine = 128 << port->mtu, theirs = 128 << end->theirs.rails[r].mtu;
        verbs_gid_text(&end->theirs.rails[r].gid, text);
        log_info(NET, "channel %d lane %d: rank %d %s %d: %s port %d, GID %d, to %s: %s, %d queue pair(s), MTU %d, %s",
                 conn->channel, conn->lane, conn->owner->rank, conn_arrow(conn), conn->peer, port->device->name,
                 port->number, port->gid_index[end->kind], text, verbs_kind_name(end->kind), end->nqps,
                 mine < theirs ? mine : theirs, end->home < 0 ? "by turns" : "of the channel's ring");
    }
}

/* ------------------------------------------------------------------------------------------------------------- the steps */

enum collet_result verbs_offer(struct conn *conn, struct conn_blob *blob) {
    COLLET_TRY(end_create(conn, NULL));
    struct verbs_end *end = conn->impl;
    memcpy(blob->data, &end->mine, sizeof(end->mine));
    blob->bytes = sizeof(end->mine);
    return COLLET_SUCCESS;
}

static bool is_hello(const struct verbs_hello *hello) {
    bool fits = hello->nrails >= 1 && hello->nrails <= VERBS_RAILS_MAX;
    for (int r = 0; fits && r < hello->nrails; r++)
        fits = hello->rails[r].start != VERBS_START_OPEN || verbs_is_address(&hello->rails[r]);
    return fits;
}

static enum collet_result take_hello(struct conn *conn, const void *data, size_t bytes, struct verbs_hello *hello) {
    if (bytes == sizeof(*hello))
        memcpy(hello, data, bytes);
    if (bytes != sizeof(*hello) || !is_hello(hello))
        return err_set(COLLET_ERR_INTERNAL, "what rank %d says of its end has %zu bytes and makes no sense", conn->peer,
                       bytes);
    return COLLET_SUCCESS;
}

enum collet_result verbs_accept(struct conn *conn, const struct conn_blob *blob) {
    struct verbs_hello hello;
    COLLET_TRY(take_hello(conn, blob->data, blob->bytes, &hello));
    COLLET_TRY(end_create(conn, &hello));
    struct verbs_end *end = conn->impl;
    end->theirs = hello;
    verbs_rails_agree(conn);
    rails_connect(conn);
    COLLET_TRY(
        boot_send(conn->owner->boot, conn->peer, transport_key(conn, VERBS_ANSWER), &end->mine, sizeof(end->mine)));
    if (log_wanted(LOG_INFO, LOG_NET))
        log_rails(conn);
    return COLLET_SUCCESS;
}

enum collet_result verbs_connect(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    struct verbs_hello hello = {0};
    size_t bytes;
    COLLET_TRY(
        boot_try_recv(conn->owner->boot, conn->peer, transport_key(conn, VERBS_ANSWER), &hello, sizeof(hello), &bytes));
    COLLET_TRY(take_hello(conn, &hello, bytes, &hello));
    end->theirs = hello;
    if ((int)hello.nrails > end->nrails)
        return err_set(COLLET_ERR_INTERNAL, "rank %d answers with %u rails to an offer of %d", conn->peer, hello.nrails,
                       end->nrails);
    while (end->nrails > (int)hello.nrails)
        rail_destroy(end, --end->nrails);
    verbs_rails_agree(conn);
    rails_connect(conn);
    if (log_wanted(LOG_INFO, LOG_NET))
        log_rails(conn);
    return COLLET_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------------------------- end */

/* Waits for acknowledgements: a NIC may not have sent posted writes yet, and a destroyed queue pair sends nothing any more. */
static void drain_sends(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    struct waiter waiter = {.spin = 0};
    uint64_t deadline_ns = os_now_ns() + DRAIN_NS;
    while (end->broken[0] == '\0' && !verbs_all_acknowledged(conn) && os_now_ns() < deadline_ns &&
           boot_failed(conn->owner->boot) == COLLET_SUCCESS) {
        for (int r = 0; r < end->nrails; r++)
            verbs_poll(conn, r);
        wait_pause(&waiter);
    }
}

static void say_tally(const struct conn *conn, const struct verbs_tally *tally) {
    log_info(
        NET,
        "channel %d lane %d: rank %d -> %d: %llu bytes were sent, %llu of them from memory of the program, %llu into it",
        conn->channel, conn->lane, conn->owner->rank, conn->peer, (unsigned long long)tally->bytes,
        (unsigned long long)tally->lent, (unsigned long long)tally->landed);
}

void verbs_free(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    if (end == NULL)
        return;
    if (conn->side == CONN_PRODUCER && end->stage == VERBS_READY) {
        drain_sends(conn);
        say_tally(conn, &end->tally);
    }
    for (int r = 0; r < end->nrails; r++)
        rail_destroy(end, r);
    verbs_direct_destroy(conn);
    wire_memory_destroy(conn->owner, end->memory, end->bytes);
    free(end);
}
