/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank shares among its connections on its GPU, and how its work there ends.
 */
#include "api/comm.h"
#include "layers/gpu/exec_copies.h"
#include "layers/gpu/exec_gpu.h"
#include "layers/gpu/proxy.h"
#include "layers/gpu/windows.h"
#include "layers/memory/loan.h"
#include "transport/ipc/gpu_heads.h"

enum collet_result gpu_chan_open(struct chan *chan) {
    struct conn_owner *owner = &chan->owner;
    if (owner->gpu == NULL)
        return COLLET_SUCCESS;
    GPU_ENTERED(owner->gpu->driver, owner->gpu->ordinal);
    COLLET_TRY(gpu_rank_take(owner->gpu, LOAN_WINDOWS * sizeof(*owner->teams), (void **)&owner->teams));
    COLLET_TRY(
        gpu_rank_take(owner->gpu, (size_t)owner->nranks * LOAN_WINDOWS * sizeof(uint64_t), (void **)&owner->windows));
    return gpu_heads_create(owner->nranks, &owner->heads);
}

void gpu_chan_close(struct chan *chan) {
    gpu_windows_end(chan);
    gpu_heads_destroy(&chan->owner);
}

static bool work_ends(struct chan *chan) {
    const struct gpu_rank *gpu = chan->owner.gpu;
    while (boot_failed(chan->owner.boot) == COLLET_SUCCESS)
        if (gpu_rank_wait(gpu, 1000000))
            break;
    exec_gpu_unwatch(chan);
    exec_gpu_end(chan);
    return gpu_rank_wait(gpu, COMM_ABORT_WAIT_NS);
}

bool gpu_end(struct chan *chan) {
    bool on_gpu = chan->owner.gpu != NULL, ended = !on_gpu || work_ends(chan);
    proxy_leave(chan);
    if (on_gpu && ended)
        exec_copies_close(chan);
    return ended;
}
