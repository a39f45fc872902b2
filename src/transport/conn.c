/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/conn.h"

#include "base/err.h"

enum collet_result conn_memory_init_on_gpu(const struct conn_owner *owner, void *memory) {
    uint64_t step = (uint64_t)owner->config->first_step;
    COLLET_TRY(owner->gpu->driver->memory->write(memory, &step, sizeof(step)));
    return owner->gpu->driver->memory->write((char *)memory + owner->layout.head_at, &step, sizeof(step));
}

enum collet_result conn_err_not_whole(const struct conn *conn) {
    return err_set(
        COLLET_ERR_SYSTEM,
        "when the communicator was created, the GPUs of ranks %d and %d were said to reach each other by NVLink, "
        "and now they do not; with COLLET_PROTO=LL,Simple they go by another way",
        conn->peer, conn->owner->rank);
}
