/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/gpu/transfer.h"

#include "base/memory.h"
#include "boot/boot.h"
#include "layers/gpu/exec_gpu.h"
#include "layers/gpu/kernels.h"

#include <stdlib.h>

/* A piece is moved by one warp. So a piece is cut at this length, and many warps move its parts. */
#define PART_BYTES (32u << 10)

struct gpu_transfer {
    const struct chan *chan;
    struct piece_copy *parts; /* memory of the GPU; NULL: there are no parts */
    size_t nparts;
    void *event; /* behind the newest post */
};

static size_t parts_of(const struct piece_copy *piece) { return (piece->bytes + PART_BYTES - 1) / PART_BYTES; }

static void cut(const struct piece_copy *pieces, size_t npieces, struct piece_copy *parts) {
    for (size_t k = 0; k < npieces; k++)
        for (uint64_t at = 0; at < pieces[k].bytes; at += PART_BYTES) {
            const uint64_t left = pieces[k].bytes - at;
            *parts++ =
                (struct piece_copy){pieces[k].to + at, pieces[k].from + at, left < PART_BYTES ? left : PART_BYTES};
        }
}

/* Writes the list into the GPU's memory. */
static enum collet_result write_list(struct gpu_transfer *transfer, const struct piece_copy *pieces, size_t npieces) {
    const struct gpu_memory *memory = transfer->chan->owner.gpu->driver->memory;
    SCOPED_FREE struct piece_copy *parts = NULL;
    if (transfer->nparts == 0)
        return COLLET_SUCCESS;
    COLLET_TRY(memory_get(&parts, transfer->nparts, sizeof *parts, "no memory for a transfer of %zu pieces", npieces));
    cut(pieces, npieces, parts);
    COLLET_TRY(memory->create(transfer->nparts * sizeof *parts, (void **)&transfer->parts));
    return memory->write(transfer->parts, parts, transfer->nparts * sizeof *parts);
}

enum collet_result gpu_transfer_create(const struct chan *chan, const struct piece_copy *pieces, size_t npieces,
                                       struct gpu_transfer **transfer_p) {
    const struct gpu_rank *gpu = chan->owner.gpu;
    struct gpu_transfer *transfer;
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    COLLET_TRY(memory_get(&transfer, 1, sizeof *transfer, "no memory for a transfer"));
    transfer->chan = chan;
    for (size_t k = 0; k < npieces; k++)
        transfer->nparts += parts_of(&pieces[k]);
    enum collet_result result = gpu->driver->streams->event_create(&transfer->event);
    if (result == COLLET_SUCCESS)
        result = write_list(transfer, pieces, npieces);
    if (result == COLLET_SUCCESS)
        *transfer_p = transfer;
    else
        gpu_transfer_destroy(transfer);
    return result;
}

void gpu_transfer_destroy(struct gpu_transfer *transfer) {
    const struct gpu_rank *gpu = transfer->chan->owner.gpu;
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    gpu->driver->memory->destroy(transfer->parts);
    gpu->driver->streams->event_destroy(transfer->event);
    free(transfer);
}

void gpu_transfer_keep(const struct gpu_transfer *transfer) { transfer->chan->owner.gpu->keeps_windows = true; }

/* No part waits for another one. So more blocks than run at once would be no use. */
static enum collet_result launch(const struct gpu_transfer *transfer, void *stream) {
    const struct gpu_rank *gpu = transfer->chan->owner.gpu;
    const uint32_t warps = gpu->driver->max_lanes < PIECE_LANES ? 1 : gpu->driver->max_lanes / PIECE_LANES;
    const uint64_t most = gpu->driver->streams->resident(gpu->ordinal), wanted = (transfer->nparts + warps - 1) / warps;
    const struct piece_launch list = {transfer->parts, transfer->nparts, wanted < most ? wanted : most};
    return gpu->driver->streams->launch(gpu->driver->kernels->pieces, (uint32_t)list.nblocks, warps * PIECE_LANES,
                                        &list, stream);
}

enum collet_result gpu_transfer_post(struct gpu_transfer *transfer, void (*function)(void *argument), void *argument,
                                     void *stream) {
    const struct gpu_rank *gpu = transfer->chan->owner.gpu;
    const struct gpu_streams *streams = gpu->driver->streams;
    uint64_t capture;
    COLLET_TRY(exec_gpu_check(transfer->chan));
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    COLLET_TRY(streams->capture(stream, &capture));
    if (capture != 0)
        return err_set(COLLET_ERR_INVALID_USAGE,
                       "the stream is in a capture: a graph cannot hold a transfer; collet_put_signal() can be in one");
    enum collet_result result = transfer->nparts > 0 ? launch(transfer, stream) : COLLET_SUCCESS;
    if (result == COLLET_SUCCESS && function != NULL)
        result = streams->call(function, argument, stream);
    if (result == COLLET_SUCCESS)
        result = streams->record(transfer->event, stream, false);
    if (result != COLLET_SUCCESS) /* nobody knows how much of it is in the stream */
        boot_fail(transfer->chan->owner.boot, result, err_last());
    return result;
}

enum collet_result gpu_transfer_state(const struct gpu_transfer *transfer) {
    const struct gpu_rank *gpu = transfer->chan->owner.gpu;
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    return gpu->driver->streams->query(transfer->event);
}
