/* SPDX-License-Identifier: Apache-2.0
 *
 * A rail has, for one life, a completion queue, and queue pairs that report to it.
 *
 *    open       registration of the FIFO (the first time), completion queue, queue pairs in INIT with receives posted
 *    connect    the other end's address is known: queue pairs to RTS
 *    silence    destroys the queue pairs: data that is still in the network is not written through them
 *    close      destroys the completion queue, too
 *
 * Completion queue and queue pairs are new in each life. So no packet and no completion of an earlier life is taken for one of this life.
 */
#include "base/os.h"
#include "transport/verbs/verbs_direct.h"
#include "transport/verbs/verbs_end.h"
#include "transport/verbs/verbs_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#define INLINE_BYTES 192u    /* wanted size; larger slots are read from memory by the NIC */
#define SENDS_PER_SLOT 4u    /* room for sends that are not completed yet */
#define RECEIVES_PER_SLOT 2u /* up to nslots slots are on their way; twice as many receives (verbs.c) */
#define LANDINGS_PER_SLOT 1u /* additional receives of a producer that takes landings: verbs_land.c */

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

enum collet_result verbs_rail_plan(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    const struct verbs_port *port = end->rails[r].port;
    struct ibv_device_attr attr;
    const uint32_t nslots = conn_layout(conn)->nslots, nqps = (uint32_t)end->nqps;
    memset(&attr, 0, sizeof(attr));
    if (end->host->lib.query_device(port->device->context, &attr) != 0)
        return err_set(COLLET_ERR_SYSTEM, "%s does not tell its limits", port->device->name);
    uint32_t per_queue = (uint32_t)attr.max_qp_wr, per_qp = (uint32_t)attr.max_cqe / nqps;
    uint32_t receives = RECEIVES_PER_SLOT * nslots + 2, sends = SENDS_PER_SLOT * nslots;
    sends = sends < per_queue ? sends : per_queue;
    if (per_qp < receives + STEP_WRITES || per_queue < receives)
        return err_set(COLLET_ERR_UNSUPPORTED,
                       "%s has queues of %u and completion queues of %d entries: a connection needs %u and %u; "
                       "lower COLLET_IB_QPS_PER_CONNECTION, or set COLLET_IB_HCA to other devices",
                       port->device->name, per_queue, attr.max_cqe, receives, (receives + STEP_WRITES) * nqps);
    uint32_t more = receives + LANDINGS_PER_SLOT * nslots + 2;
    if (conn->side == CONN_PRODUCER && per_qp >= more + STEP_WRITES && per_queue >= more)
        receives = more;
    else
        end->mine.takes_landings = false;
    end->rails[r].depths =
        (struct verbs_depths){sends < per_qp - receives ? sends : per_qp - receives, receives, INLINE_BYTES};
    return COLLET_SUCCESS;
}

static enum collet_result register_memory(struct verbs_end *end, struct verbs_rail *rail) {
    if (rail->mr == NULL)
        rail->mr = verbs_memory_register(&end->host->lib, rail->port->device, end->memory, end->bytes);
    return rail->mr != NULL ? COLLET_SUCCESS : err_registration(rail->port, end->bytes);
}

/* Fills in the address for the other end, all but the numbers of queue pairs. */
static void say_address(struct verbs_end *end, int r) {
    const struct verbs_rail *rail = &end->rails[r];
    struct verbs_address *address = &end->mine.rails[r];
    *address = (struct verbs_address){.gid = rail->port->gids[end->kind],
                                      .lid = rail->port->lid,
                                      .mtu = (uint8_t)rail->port->mtu,
                                      .rkey = rail->mr->rkey};
    address->slots_rkey = end->mine.direct ? end->direct.rails[r].slots->rkey : rail->mr->rkey;
    os_random(&address->psn, sizeof(address->psn));
    address->psn &= 0xffffff;
}

enum collet_result verbs_rail_open(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    struct verbs_rail *rail = &end->rails[r];
    const struct verbs_port *port = rail->port;
    COLLET_TRY(register_memory(end, rail));
    COLLET_TRY(verbs_direct_register(conn, r));
    say_address(end, r);
    const int entries = (int)(rail->depths.sends + rail->depths.receives) * end->nqps;
    rail->cq_failed = 0;
    rail->cq = end->host->lib.create_cq(port->device->context, entries, &rail->cq_failed, NULL, 0);
    if (rail->cq == NULL)
        return err_set(COLLET_ERR_SYSTEM, "%s gives no completion queue of %d entries: %m", port->device->name,
                       entries);
    for (int q = 0; q < end->nqps; q++) {
        struct verbs_qp *qp = &end->qps[r][q];
        COLLET_TRY(verbs_qp_create(end->host, port, rail->cq, &rail->depths, qp));
        end->mine.rails[r].qpn[q] = qp->qp->qp_num;
        if (!verbs_qp_post_receives(qp, verbs_receive_id(r * VERBS_QPS_MAX + q)))
            return err_set(COLLET_ERR_SYSTEM, "%s takes no receives: %m", port->device->name);
    }
    return COLLET_SUCCESS;
}

enum collet_result verbs_rail_connect(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    for (int q = 0; q < end->nqps; q++)
        COLLET_TRY(verbs_qp_connect(end->host, &end->qps[r][q], end->rails[r].port, end->kind, &end->theirs.rails[r], q,
                                    end->mine.rails[r].psn, conn->owner->config));
    return COLLET_SUCCESS;
}

bool verbs_rail_silence(struct verbs_end *end, int r) {
    bool silent = true;
    for (int q = 0; q < end->nqps; q++)
        silent &= verbs_qp_destroy(end->host, &end->qps[r][q]);
    return silent;
}

void verbs_rail_close(struct verbs_end *end, int r) {
    struct verbs_rail *rail = &end->rails[r];
    verbs_rail_silence(end, r);
    if (rail->cq != NULL)
        end->host->lib.destroy_cq(rail->cq);
    rail->cq = NULL;
}

bool verbs_rail_usable(const struct verbs_end *end, int r) {
    const struct verbs_port *port = end->rails[r].port;
    return (port->kinds & 1u << end->kind) && !verbs_device_is_gone(port->device) &&
           !__atomic_load_n(&port->down, __ATOMIC_RELAXED);
}
