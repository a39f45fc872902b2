/* SPDX-License-Identifier: Apache-2.0
 *
 * One reliable queue pair: its life, and the texts for its failures.
 *
 *    RESET ─▶ INIT (receives may be posted) ─▶ RTR (hears the other end) ─▶ RTS (speaks) ─▶ ERR (all that is posted is flushed)
 */
#ifndef COLLET_TRANSPORT_VERBS_VERBS_QP_H
#define COLLET_TRANSPORT_VERBS_VERBS_QP_H

#include "transport/verbs/verbs_device.h"

#define VERBS_QPS_MAX 8 /* maximum number of queue pairs per connection and rail */

/* Lengths of a queue pair's queues, as far as the device allows. */
struct verbs_depths {
    uint32_t sends, receives, inline_bytes;
};

/* The state of a rail when the connection begins. */
enum verbs_start { VERBS_START_OPEN, VERBS_START_DOWN, VERBS_START_IN_RESERVE };

/* The address of an end's queue pairs on one rail. The struct is sent as it is. */
struct verbs_address {
    union ibv_gid gid;
    uint16_t lid;
    uint8_t mtu;
    uint8_t start; /* enum verbs_start; the other fields are only for OPEN */
    uint32_t psn;  /* sequence number of its first packet */
    uint32_t rkey, slots_rkey;
    uint32_t qpn[VERBS_QPS_MAX];
};

/* Can this be an address? It came from another rank. */
static inline bool verbs_is_address(const struct verbs_address *address) {
    return address->mtu >= IBV_MTU_256 && address->mtu <= IBV_MTU_4096;
}

struct verbs_qp {
    struct ibv_qp *qp;
    int event; /* event by which the queue pair failed; 0: none. The thread that reads events sets it */
    struct verbs_depths depths;
    uint32_t posted, completed; /* number of sends, modulo 2^32 */
    uint32_t lent;              /* value of `posted` after the last send from the program's memory */
    uint32_t receives;          /* number of receives that are posted and not completed */
};

enum collet_result verbs_qp_create(struct verbs_host *host, const struct verbs_port *port, struct ibv_cq *cq,
                                   const struct verbs_depths *depths, struct verbs_qp *qp);
/* Destroys the queue pair. Later writes of the other end have no effect. False: the device does not confirm that the queue pair
 * is gone. A queue pair that was never made is fine. */
bool verbs_qp_destroy(struct verbs_host *host, struct verbs_qp *qp);

/* Moves the queue pair to RTS, toward the other end's queue pair number `index`. Errors say which step failed, and why. */
enum collet_result verbs_qp_connect(struct verbs_host *host, struct verbs_qp *qp, const struct verbs_port *port,
                                    enum verbs_kind kind, const struct verbs_address *to, int index, uint32_t my_psn,
                                    const struct config *config);
/* Moves the queue pair to ERR, where posted requests complete with errors. Does nothing if the queue pair was never
 * made. */
void verbs_qp_fail(struct verbs_host *host, struct verbs_qp *qp);

/* Posts receives until `depths.receives` are posted; each has `id` as its wr_id. A receive has no buffer: the writer chooses the address, and
 * the receive only tells that a write has come. */
bool verbs_qp_post_receives(struct verbs_qp *qp, uint64_t id);

/* Is there room for this many sends? */
static inline bool verbs_qp_has_room(const struct verbs_qp *qp, uint32_t sends) {
    return qp->posted - qp->completed + sends <= qp->depths.sends;
}

/* The meaning of a status, for the person who must repair it. */
const char *verbs_status_meaning(enum ibv_wc_status status);

#endif
