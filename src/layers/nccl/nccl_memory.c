/* SPDX-License-Identifier: Apache-2.0 */
#include "api/engine.h"
#include "layers/nccl/nccl_memory.h"

/* The consumer owns the slots that both ends reach. Over a wire each end has its own, and those are the host's. */
static bool is_counted(const struct conn *conn) {
    const bool wired = conn->transport != NULL && conn->transport->remote;
    if (conn->state == CONN_NEW || (wired && conn->owner->gpu != NULL))
        return false;
    return wired || conn->side == CONN_CONSUMER;
}

enum collet_result nccl_memory_of(struct collet_comm *comm, uint64_t *bytes_p) {
    uint64_t bytes = 0;
    COLLET_TRY(comm_check_usable(comm));
    engine_take(comm, 0);
    enum collet_result result = comm_check_locked(comm);
    const struct conn *conn = result == COLLET_SUCCESS ? comm->chan->owner.first : NULL;
    for (; conn != NULL; conn = conn->next)
        bytes += is_counted(conn) ? conn_layout(conn)->total_bytes : 0;
    engine_give(comm);
    if (result == COLLET_SUCCESS)
        *bytes_p = bytes;
    return result;
}
