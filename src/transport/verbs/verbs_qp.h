/* SPDX-License-Identifier: Apache-2.0
 *
 * One reliable queue pair: its life, and what it says when it fails.
 *
 *    RESET ─▶ INIT (receives may be posted) ─▶ RTR (hears the other end) ─▶ RTS (speaks) ─▶ ERR (all that is posted is flushed)
 */
#ifndef COLLET_TRANSPORT_VERBS_VERBS_QP_H
#define COLLET_TRANSPORT_VERBS_VERBS_QP_H

#include "transport/verbs/verbs_device.h"

#define VERBS_QPS_MAX 8 /* of one connection on one rail */

/* How much a queue pair takes, as far as the device allows. */
struct verbs_depths {
    uint32_t sends, receives, inline_bytes;
};

/* What an end has of a rail when the connection begins. */
enum verbs_start { VERBS_START_OPEN, VERBS_START_DOWN, VERBS_START_IN_RESERVE };

/* Where the other end's queue pairs on one rail are. Travels as it is. */
struct verbs_address {
    union ibv_gid gid;
    uint16_t lid;
    uint8_t mtu;
    uint8_t start; /* enum verbs_start; all else is said of one that is open */
    uint32_t psn;  /* the number of its first packet */
    uint32_t rkey, slots_rkey;
    uint32_t qpn[VERBS_QPS_MAX];
};

/* Can what another rank sent be one? */
static inline bool verbs_is_address(const struct verbs_address *address) {
    return address->mtu >= IBV_MTU_256 && address->mtu <= IBV_MTU_4096;
}

struct verbs_qp {
    struct ibv_qp *qp;
    int event; /* the event that it failed with; 0: none. Set by whoever reads the device's events */
    struct verbs_depths depths;
    uint32_t posted, completed; /* sends; modulo 2^32 */
    uint32_t lent;              /* how many were posted with the last one from memory of the program; modulo 2^32 */
    uint32_t receives;          /* posted and not completed */
};

enum collet_result verbs_qp_create(struct verbs_host *host, const struct verbs_port *port, struct ibv_cq *cq,
                                   const struct verbs_depths *depths, struct verbs_qp *qp);
/* What the other end sends through it has no effect any more. False: the device does not say that the queue pair is gone. Never
 * made is fine. */
bool verbs_qp_destroy(struct verbs_host *host, struct verbs_qp *qp);

/* To RTS, toward queue pair number `index` of the other end. Errors say which step failed, and why. */
enum collet_result verbs_qp_connect(struct verbs_host *host, struct verbs_qp *qp, const struct verbs_port *port,
                                    enum verbs_kind kind, const struct verbs_address *to, int index, uint32_t my_psn,
                                    const struct config *config);
/* To ERR: the same, but what is posted completes. Never made is fine. */
void verbs_qp_fail(struct verbs_host *host, struct verbs_qp *qp);

/* Posts receives until `depths.receives` are posted; each carries `id`. A receive has no buffer: what arrives is written
 * where the writer said, and the receive only tells that it has. */
bool verbs_qp_post_receives(struct verbs_qp *qp, uint64_t id);

/* Room for that many sends? */
static inline bool verbs_qp_has_room(const struct verbs_qp *qp, uint32_t sends) {
    return qp->posted - qp->completed + sends <= qp->depths.sends;
}

/* What a status means for somebody who must mend it. */
const char *verbs_status_meaning(enum ibv_wc_status status);

#endif
