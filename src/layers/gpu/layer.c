/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer "gpu": makes and ends the parts of a rank that are on its GPU.
 */
#include "seams/layer.h"

#include "api/comm.h"
#include "base/log.h"
#include "layers/gpu/exec_copies.h"
#include "layers/gpu/exec_gpu.h"
#include "layers/gpu/onesided.h"
#include "layers/gpu/proxy.h"
#include "layers/gpu/windows.h"
#include "transport/ipc/gpu_heads.h"

#include <stdlib.h>

/* Makes the rank's part on its GPU, before the rank's connections. */
static enum collet_result gpu_join(struct collet_comm *comm) {
    if (!comm_is_on_gpu(comm) || comm->gpu != NULL)
        return COLLET_SUCCESS;
    return gpu_rank_create(comm->device - COLLET_DEVICE_CUDA(0), &comm->gpu);
}

/* Makes what the rank's connections share. Called before the first connection. */
static enum collet_result open_for_conns(struct conn_owner *owner) {
    GPU_ENTERED(owner->gpu->driver, owner->gpu->ordinal);
    COLLET_TRY(gpu_rank_take(owner->gpu, LOAN_WINDOWS * sizeof(*owner->teams), (void **)&owner->teams));
    COLLET_TRY(
        gpu_rank_take(owner->gpu, (size_t)owner->nranks * LOAN_WINDOWS * sizeof(uint64_t), (void **)&owner->windows));
    return gpu_heads_create(owner->nranks, &owner->heads);
}

static enum collet_result gpu_open(struct collet_comm *comm) {
    if (!comm_is_on_gpu(comm))
        return COLLET_SUCCESS;
    COLLET_TRY(open_for_conns(&comm->chan->owner));
    return exec_gpu_watch(comm->chan);
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

/* Memory at which a GPU may still look, because its work has not stopped. A debugger finds it here, and a leak checker sees no leak. */
static struct kept {
    struct planner *planner;
    struct chan *chan;
    struct gpu_rank *gpu;
    struct kept *next;
} * all_kept;

static void keep(const struct collet_comm *comm) {
    struct kept *kept = malloc(sizeof *kept);
    if (kept == NULL)
        return;
    *kept = (struct kept){.planner = comm->planner, .chan = comm->chan, .gpu = comm->gpu};
    kept->next = __atomic_load_n(&all_kept, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&all_kept, &kept->next, kept, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ; /* the list only grows, and nobody reads it */
}

/* The work on the GPU ends by itself; if the communicator has failed, the work is told to end. Then the proxy ends. Ranks on host memory
 * may have a proxy, too. */
static bool gpu_close(struct collet_comm *comm) {
    struct chan *chan = comm->chan;
    if (chan == NULL)
        return true;
    const bool on_gpu = chan->owner.gpu != NULL;
    const bool ended = !on_gpu || (work_ends(chan) && !chan->owner.gpu->keeps_windows);
    proxy_leave(chan);
    if (on_gpu && ended) {
        exec_copies_close(chan);
        gpu_windows_end(chan);
        gpu_onesided_close(chan);
        gpu_heads_destroy(&chan->owner);
    }
    if (!ended) {
        log_warn(INIT, "the GPU is still at work for a communicator that has ended: its memory is kept");
        keep(comm);
        comm->gpu = NULL;
    }
    return ended;
}

static void gpu_free(struct collet_comm *comm) {
    gpu_rank_destroy(comm->gpu);
    comm->gpu = NULL;
}

const struct layer layer_gpu = {
    .comm_join = gpu_join,
    .comm_open = gpu_open,
    .comm_close = gpu_close,
    .comm_free = gpu_free,
};
