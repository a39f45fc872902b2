/* SPDX-License-Identifier: Apache-2.0
 *
 * How the two ends of a verbs connection come to be.
 *
 *    consumer                                                              producer
 *    FIFO, registered; queue pairs in INIT,
 *    receives posted          ─── offer: GIDs, numbers, rkey (blob) ────▶  FIFO, queue pairs; connects them to RTS
 *    connects its own to RTS  ◀── answer: the same (control plane) ──────
 *    greets: an empty write with the first head, on every queue pair ───▶
 *                             ◀── acknowledgements, by the NICs ──────────
 *    ready when all have come ─── greeted (control plane) ───────────────▶  ready
 *
 * So each path has carried something both ways before it is used. One that does not work is lost here, and settled before
 * anything went through it (verbs_failover.c); the connection does without. If none works, both ends know, and the connection
 * falls back to another transport (chan.c).
 */
#include "base/memory.h"
#include "base/os.h"
#include "base/wait.h"
#include "transport/verbs_end.h"
#include "transport/verbs_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define INLINE_BYTES 192u      /* wanted; a larger slot is fetched from memory by the NIC */
#define SENDS_PER_SLOT 4u      /* room for sends whose completion is not known yet */
#define RECEIVES_PER_SLOT 2u   /* at most nslots are on their way while as many again are posted */
#define LANDINGS_PER_SLOT 1u   /* receives that a producer has more, if it can: verbs_land.c */
#define DRAIN_NS 2000000000ull /* longest wait of close() for what was sent to be acknowledged */

/* -------------------------------------------------------------------------------------------------------------- one rail */

static enum collet_result err_registration(const struct verbs_port *port, size_t bytes) {
    struct rlimit limit = {0};
    int error = errno;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (error == ENOMEM && limit.rlim_cur != RLIM_INFINITY)
        return err_set(COLLET_ERR_SYSTEM,
                       "%s cannot register %zu bytes: the limit of locked memory is %llu KiB; raise it "
                       "(ulimit -l unlimited, or memlock in /etc/security/limits.conf)",
                       port->device->name, bytes, (unsigned long long)limit.rlim_cur / 1024);
    return err_set(COLLET_ERR_SYSTEM, "%s cannot register %zu bytes of memory: %s", port->device->name, bytes,
                   strerror(error));
}

/* What is wanted, cut to what the device has. */
static enum collet_result choose_depths(const struct conn *conn, const struct verbs_port *port, int nqps,
                                        struct verbs_depths *depths) {
    struct ibv_device_attr attr;
    uint32_t nslots = conn_layout(conn)->nslots;
    struct verbs_end *end = conn->impl;
    memset(&attr, 0, sizeof(attr));
    if (end->host->lib.query_device(port->device->context, &attr) != 0)
        return err_set(COLLET_ERR_SYSTEM, "%s does not tell its limits", port->device->name);
    uint32_t per_queue = (uint32_t)attr.max_qp_wr, per_qp = (uint32_t)attr.max_cqe / (uint32_t)nqps;
    uint32_t receives = RECEIVES_PER_SLOT * nslots + 2, sends = SENDS_PER_SLOT * nslots;
    sends = sends < per_queue ? sends : per_queue;
    if (per_qp < receives + STEP_WRITES || per_queue < receives)
        return err_set(COLLET_ERR_UNSUPPORTED,
                       "%s has queues of %u and completion queues of %d entries: a connection needs %u and %u; "
                       "lower COLLET_IB_QPS_PER_CONNECTION, or set COLLET_IB_HCA to other devices",
                       port->device->name, per_queue, attr.max_cqe, receives,
                       (receives + STEP_WRITES) * (uint32_t)nqps);
    uint32_t more = receives + LANDINGS_PER_SLOT * nslots + 2;
    if (conn->side == CONN_PRODUCER && per_qp >= more + STEP_WRITES && per_queue >= more)
        receives = more;
    *depths = (struct verbs_depths){sends < per_qp - receives ? sends : per_qp - receives, receives, INLINE_BYTES};
    return COLLET_SUCCESS;
}

static enum collet_result rail_create(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    struct verbs_rail *rail = &end->rails[r];
    struct verbs_port *port = rail->port;
    struct verbs_address *address = &end->mine.rails[r];
    struct verbs_depths depths;
    COLLET_TRY(choose_depths(conn, port, end->nqps, &depths));
    rail->mr = verbs_memory_register(&end->host->lib, port->device, end->memory, end->bytes);
    if (rail->mr == NULL)
        return err_registration(port, end->bytes);
    int entries = (int)(depths.sends + depths.receives) * end->nqps;
    rail->cq = end->host->lib.create_cq(port->device->context, entries, &rail->cq_failed, NULL, 0);
    if (rail->cq == NULL)
        return err_set(COLLET_ERR_SYSTEM, "%s gives no completion queue of %d entries: %m", port->device->name,
                       entries);
    end->mine.takes_landings &= depths.receives > RECEIVES_PER_SLOT * conn_layout(conn)->nslots + 2;
    address->gid = port->gids[end->kind];
    address->lid = port->lid;
    address->mtu = (uint8_t)port->mtu;
    verbs_device_look(end->host, port->device);
    const bool usable = (port->kinds & 1u << end->kind) && !__atomic_load_n(&port->down, __ATOMIC_RELAXED);
    address->down = (uint8_t)!usable;
    address->rkey = rail->mr->rkey;
    address->slots_rkey = end->mine.direct ? end->direct.rails[r].slots->rkey : rail->mr->rkey;
    for (int q = 0; q < end->nqps; q++) {
        struct verbs_qp *qp = &end->qps[r][q];
        COLLET_TRY(verbs_qp_create(end->host, port, rail->cq, &depths, qp));
        address->qpn[q] = qp->qp->qp_num;
        if (!verbs_qp_post_receives(qp, verbs_receive_id(r * VERBS_QPS_MAX + q)))
            return err_set(COLLET_ERR_SYSTEM, "%s takes no receives: %m", port->device->name);
    }
    return COLLET_SUCCESS;
}

static void rail_destroy(struct verbs_end *end, int r) {
    struct verbs_rail *rail = &end->rails[r];
    for (int q = 0; q < end->nqps; q++)
        verbs_qp_destroy(end->host, &end->qps[r][q]);
    if (rail->cq != NULL)
        end->host->lib.destroy_cq(rail->cq);
    if (rail->mr != NULL)
        end->host->lib.dereg_mr(rail->mr);
    rail->cq = NULL;
    rail->mr = NULL;
}

/* --------------------------------------------------------------------------------------------------------------- an end */

/* Room for a frame behind each slot's payload. */
static struct fifo_layout layout_of(const struct conn *conn) {
    const struct fifo_layout *layout = conn_layout(conn);
    uint32_t frame = sizeof(struct verbs_frame);
    struct protocol_sizes sizes = layout->sizes;
    sizes.long_bytes += frame;
    sizes.short_bytes += frame;
    sizes.lines_bytes += frame;
    return fifo_layout_of(layout->nslots, sizes, 0);
}

/* Memory of the FIFO: all of it on the host, or Simple slots in memory of the rank's GPU; and frames. */
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

/* That of the network between the two ranks. */
static int common_kind(const struct conn *conn) {
    const struct peer_info *peers = conn->owner->peers, *self = &peers[conn->owner->rank], *peer = &peers[conn->peer];
    return verbs_common_kind(verbs_card_of(self), verbs_card_of(peer));
}

/* InfiniBand's switches route adaptively where their subnet manager has it on; those of Ethernet only where all was set up for it. */
static uint32_t spread_bytes_of(const struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    const struct config *config = conn->owner->config;
    const bool on = config->ib_adaptive_routing < 0 ? end->kind == VERBS_INFINIBAND : config->ib_adaptive_routing > 0;
    return on ? (uint32_t)config->ib_ar_threshold : UINT32_MAX;
}

/* offer: NULL for the consumer, whose it is. */
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
    os_random(&end->mine.psn, sizeof(end->mine.psn));
    end->mine.psn &= 0xffffff;
    end->mine.takes_landings = conn->side == CONN_PRODUCER && conn->owner->gpu == NULL;
    end->spread_bytes = spread_bytes_of(conn);
    for (int r = 0; r < end->nrails; r++)
        COLLET_TRY(rail_create(conn, r));
    return COLLET_SUCCESS;
}

static enum collet_result rail_connect(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    for (int q = 0; q < end->nqps; q++)
        COLLET_TRY(verbs_qp_connect(end->host, &end->qps[r][q], end->rails[r].port, end->kind, &end->theirs.rails[r], q,
                                    end->mine.psn, end->theirs.psn, conn->owner->config));
    return COLLET_SUCCESS;
}

/* The other end is known: connects the queue pairs. A rail that does not connect is left out, and the other end is told: by the
 * producer's answer, or as of a rail that is lost. */
static void rails_connect(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    end->stage = VERBS_GREETING;
    for (int r = 0; r < end->nrails; r++) {
        const bool down = end->mine.rails[r].down || end->theirs.rails[r].down;
        if (down)
            log_info(NET, "rank %d: a port of rail %d is down; the connection with rank %d does without",
                     conn->owner->rank, r, conn->peer);
        if (!down && rail_connect(conn, r) == COLLET_SUCCESS)
            continue;
        if (!down)
            verbs_rail_lost(conn, r, "is unreachable: %.150s", err_last());
        if (down || conn->side == CONN_PRODUCER)
            end->rails[r].state = VERBS_RAIL_DOWN;
        end->mine.rails[r].down = 1;
    }
    verbs_update_live(end);
}

static void log_rails(const struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    char text[VERBS_GID_TEXT_BYTES];
    for (int r = 0; r < end->nrails; r++) {
        const struct verbs_port *port = end->rails[r].port;
        int mine = 128 << port->mtu, theirs = 128 << end->theirs.rails[r].mtu;
        verbs_gid_text(&end->theirs.rails[r].gid, text);
        log_info(NET, "channel %d lane %d: rank %d %s %d: %s port %d, GID %d, to %s: %s, %d queue pair(s), MTU %d, %s",
                 conn->channel, conn->lane, conn->owner->rank, conn_arrow(conn), conn->peer, port->device->name,
                 port->number, port->gid_index[end->kind], text, verbs_kind_name(end->kind), end->nqps,
                 mine < theirs ? mine : theirs, verbs_rail_part(end, r));
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
        fits = hello->rails[r].mtu >= IBV_MTU_256 && hello->rails[r].mtu <= IBV_MTU_4096;
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
    for (int k = 0; k < end->nlive; k++)
        if (!verbs_post_counter(conn, end->live[k], conn->end.position))
            return err_set(COLLET_ERR_SYSTEM, "a queue pair to rank %d takes no send: %m", conn->peer);
    return COLLET_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------------------------- end */

/* What a NIC has been given is not yet with the other end, and a queue pair that is destroyed sends nothing any more. */
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

void verbs_free(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    if (end == NULL)
        return;
    if (conn->side == CONN_PRODUCER && end->stage == VERBS_READY)
        drain_sends(conn);
    for (int r = 0; r < end->nrails; r++)
        rail_destroy(end, r);
    verbs_direct_destroy(conn);
    wire_memory_destroy(conn->owner, end->memory, end->bytes);
    free(end);
}
