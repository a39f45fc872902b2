/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/verbs_qp.h"

#include "base/err.h"

#include <errno.h>
#include <string.h>

#define RNR_RETRIES 6 /* rarely needed: receives are always posted in time */
#define RNR_TIMER 12  /* 0.64 ms */
#define HOP_LIMIT 64

enum collet_result verbs_qp_create(struct verbs_host *host, const struct verbs_port *port, struct ibv_cq *cq,
                                   const struct verbs_depths *depths, struct verbs_qp *qp) {
    struct ibv_qp_init_attr init = {
        .qp_context = &qp->event,
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = depths->sends,
                .max_recv_wr = depths->receives,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = depths->inline_bytes},
        .qp_type = IBV_QPT_RC,
    };
    *qp = (struct verbs_qp){.depths = *depths};
    qp->qp = host->lib.create_qp(port->device->pd, &init);
    while (qp->qp == NULL && init.cap.max_inline_data > 0) { /* no query tells this limit */
        init.cap.max_inline_data /= 2;
        qp->qp = host->lib.create_qp(port->device->pd, &init);
    }
    if (qp->qp == NULL)
        return err_set(COLLET_ERR_SYSTEM, "%s port %d gives no queue pair of %u sends and %u receives: %m",
                       port->device->name, port->number, depths->sends, depths->receives);
    qp->depths.inline_bytes = init.cap.max_inline_data;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = port->number,
                               .pkey_index = port->pkey_index,
                               /* Reads are for verbs_direct.c. Registrations of host memory do not allow them. */
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    int error =
        host->lib.modify_qp(qp->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (error != 0)
        return err_set(COLLET_ERR_SYSTEM, "%s port %d does not initialise a queue pair: %s", port->device->name,
                       port->number, strerror(error));
    return COLLET_SUCCESS;
}

/* EIO: the kernel has removed the device, with all its objects. */
bool verbs_qp_destroy(struct verbs_host *host, struct verbs_qp *qp) {
    const int error = qp->qp != NULL ? host->lib.destroy_qp(qp->qp) : 0;
    qp->qp = NULL;
    return error == 0 || error == EIO;
}

/* In one InfiniBand subnet a LID is enough, unless the port demands more. Otherwise a GID is needed. Packets to another subnet go to the
 * LID of a router, or to the FLID of a port that has one. */
static struct ibv_ah_attr route_to(const struct verbs_port *port, enum verbs_kind kind, const struct verbs_address *to,
                                   const struct config *config) {
    struct ibv_ah_attr route = {.dlid = to->lid, .sl = (uint8_t)config->ib_sl, .port_num = port->number};
    const bool infiniband = kind == VERBS_INFINIBAND;
    const bool same_subnet = verbs_gids_share_subnet(&to->gid, &port->gids[kind]);
    if (infiniband && same_subnet && to->lid != 0 && !port->grh_required)
        return route;
    if (infiniband && !same_subnet && verbs_gid_flid(&to->gid) != 0)
        route.dlid = verbs_gid_flid(&to->gid);
    route.is_global = 1;
    route.grh.dgid = to->gid;
    route.grh.sgid_index = (uint8_t)port->gid_index[kind];
    route.grh.hop_limit = HOP_LIMIT;
    route.grh.traffic_class = (uint8_t)config->ib_tc;
    return route;
}

/* A link of 400 Gbit/s may need seconds to come back after a flap; until then a NIC should try again. For rxe, 7 retries mean no limit, and
 * rxe answers late if its CPU is busy. */
static uint8_t timeout_of(const struct verbs_device *device, const struct config *config) {
    return (uint8_t)(config->ib_timeout > 0 ? config->ib_timeout : device->software ? 17 : 20);
}

static uint8_t retries_of(const struct verbs_device *device, const struct config *config) {
    return (uint8_t)(config->ib_retry_cnt >= 0 ? config->ib_retry_cnt : device->software ? 6 : 7);
}

enum collet_result verbs_qp_connect(struct verbs_host *host, struct verbs_qp *qp, const struct verbs_port *port,
                                    enum verbs_kind kind, const struct verbs_address *to, int index, uint32_t my_psn,
                                    const struct config *config) {
    struct ibv_qp_attr hear = {
        .qp_state = IBV_QPS_RTR,
        .ah_attr = route_to(port, kind, to, config),
        .path_mtu = to->mtu < port->mtu ? (enum ibv_mtu)to->mtu : port->mtu,
        .dest_qp_num = to->qpn[index],
        .rq_psn = to->psn,
        .max_dest_rd_atomic =
            1, /* some drivers refuse 0; and this end's own read may be in progress (verbs_direct.c) */
        .min_rnr_timer = RNR_TIMER,
    };
    struct ibv_qp_attr speak = {
        .qp_state = IBV_QPS_RTS,
        .timeout = timeout_of(port->device, config),
        .retry_cnt = retries_of(port->device, config),
        .rnr_retry = RNR_RETRIES,
        .max_rd_atomic = 1,
        .sq_psn = my_psn,
    };
    char text[VERBS_GID_TEXT_BYTES];
    int error = host->lib.modify_qp(qp->qp, &hear,
                                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error == 0)
        error = host->lib.modify_qp(qp->qp, &speak,
                                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                        IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    if (error == 0)
        return COLLET_SUCCESS;
    verbs_gid_text(&to->gid, text);
    return err_set(COLLET_ERR_SYSTEM, "%s port %d does not connect to %s (%s, from GID %d, LID %u): %s",
                   port->device->name, port->number, text, verbs_kind_name(kind), port->gid_index[kind], to->lid,
                   strerror(error));
}

void verbs_qp_fail(struct verbs_host *host, struct verbs_qp *qp) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    if (qp->qp != NULL)
        host->lib.modify_qp(qp->qp, &attr,
                            IBV_QP_STATE); /* this fails only if the device is gone; then nothing arrives */
}

#define RECEIVE_BATCH 16

bool verbs_qp_post_receives(struct verbs_qp *qp, uint64_t id) {
    struct ibv_recv_wr receives[RECEIVE_BATCH], *bad;
    while (qp->receives < qp->depths.receives) {
        uint32_t n = qp->depths.receives - qp->receives;
        n = n < RECEIVE_BATCH ? n : RECEIVE_BATCH;
        for (uint32_t k = 0; k < n; k++)
            receives[k] = (struct ibv_recv_wr){.wr_id = id, .next = k + 1 < n ? &receives[k + 1] : NULL};
        const bool all = ibv_post_recv(qp->qp, receives, &bad) == 0;
        qp->receives += all ? n : (uint32_t)(bad - receives);
        if (!all)
            return false;
    }
    return true;
}

const char *verbs_status_meaning(enum ibv_wc_status status) {
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR: return "is unreachable or loses packets (retry count exceeded)";
    case IBV_WC_RNR_RETRY_EXC_ERR: return "has no receive posted (RNR retry count exceeded)";
    case IBV_WC_REM_ACCESS_ERR: return "refuses access to its memory (remote access error)";
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_INV_REQ_ERR: return "refuses a request (remote operation error)";
    case IBV_WC_LOC_PROT_ERR:
        return "could not be sent to: this end's memory is not registered (local protection error)";
    case IBV_WC_WR_FLUSH_ERR: return "is cut off: the queue pair went into error";
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_FATAL_ERR: return "is cut off: the device has failed";
    default: return "could not be sent to";
    }
}
