/* SPDX-License-Identifier: Apache-2.0 */
#include "api/engine.h"
#include "layers/nccl/nccl_memory.h"

/* Do the connection's slots count for this rank? Slots that both ends share count for the consumer, those of a fan once
 * for its producer. Over a wire each end has slots of its own; they are in host memory, so they do not count for a rank
 * on a GPU. */
static bool is_counted(const struct conn *conn) {
    const bool wired = conn->transport != NULL && conn->transport->remote;
    if (conn->state == CONN_NEW || (wired && conn->owner->gpu != NULL))
        return false;
    if (conn->transport != NULL && conn->transport->fans)
        return conn->lead == conn;
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
