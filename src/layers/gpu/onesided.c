/* SPDX-License-Identifier: Apache-2.0
 *
 * Each rank has one buffer for signals, in a window like a program's window:
 *
 *    │ words: [number][from rank], which that rank writes │ sent: [number][to rank] │ awaited: [number][from rank] │
 */
#include "layers/gpu/onesided.h"

#include "base/memory.h"
#include "boot/boot.h"
#include "kernels/cuda/signal_work.h"
#include "layers/gpu/buffers.h"
#include "layers/gpu/exec_gpu.h"
#include "layers/gpu/kernels.h"

#include <stdlib.h>

struct gpu_signals {
    uint64_t *memory;
    struct gpu_window *window;
};

enum signal_table { SIGNAL_WORDS, SIGNAL_SENT, SIGNAL_AWAITED, SIGNAL_TABLES };

/* Returns the address of an entry, in the buffer of that rank. NULL: this rank does not reach it. */
static uint64_t *signal_at(const struct chan *chan, int rank, enum signal_table table, uint32_t number, int peer) {
    uint64_t *memory = gpu_window_base(chan->owner.gpu->signals->window, rank);
    const size_t at = ((size_t)table * LOAN_WINDOWS + number) * (size_t)chan->owner.nranks + (size_t)peer;
    return memory != NULL ? memory + at : NULL;
}

/* ---- the buffer ---- */

/* If it fails, other ranks may have attached the memory already. So the memory stays. */
static enum collet_result signals_create(struct chan *chan, struct gpu_signals **signals_p) {
    const struct gpu_rank *gpu = chan->owner.gpu;
    const size_t bytes = (size_t)SIGNAL_TABLES * LOAN_WINDOWS * (size_t)chan->owner.nranks * sizeof(uint64_t);
    struct gpu_signals *signals;
    COLLET_TRY(memory_get(&signals, 1, sizeof *signals, "no memory for signals between GPUs"));
    enum collet_result result = gpu_buffer_create(gpu->ordinal, bytes, (void **)&signals->memory);
    if (result == COLLET_SUCCESS)
        result = gpu_window_register(chan, signals->memory, bytes, &signals->window);
    if (result == COLLET_SUCCESS)
        *signals_p = signals;
    else
        free(signals);
    return result;
}

enum collet_result gpu_onesided_open(struct chan *chan) {
    if (chan->owner.gpu->signals != NULL)
        return COLLET_SUCCESS;
    enum collet_result result = signals_create(chan, &chan->owner.gpu->signals);
    if (result != COLLET_SUCCESS)
        boot_fail(chan->owner.boot, result, err_last());
    return result;
}

/* If the communicator has failed, a stream of another rank may still write into this rank's words. So the memory stays. */
void gpu_onesided_close(const struct chan *chan) {
    struct gpu_signals *signals = chan->owner.gpu->signals;
    if (signals != NULL && boot_failed(chan->owner.boot) == COLLET_SUCCESS)
        gpu_buffer_give_back(signals->memory);
    free(signals);
    chan->owner.gpu->signals = NULL;
}

enum collet_result gpu_onesided_forget(const struct chan *chan, uint32_t number) {
    const struct conn_owner *owner = &chan->owner;
    if (owner->gpu->signals == NULL)
        return COLLET_SUCCESS;
    GPU_ENTERED(owner->gpu->driver, owner->gpu->ordinal);
    for (int table = 0; table < SIGNAL_TABLES; table++)
        COLLET_TRY(owner->gpu->driver->memory->clear(signal_at(chan, owner->rank, (enum signal_table)table, number, 0),
                                                     (size_t)owner->nranks * sizeof(uint64_t)));
    return COLLET_SUCCESS;
}

/* ---- what a call puts into its stream ---- */

static enum collet_result check_signals(const struct chan *chan) {
    if (chan->owner.gpu->signals != NULL)
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_INVALID_USAGE, "the communicator has had no window: register one first");
}

enum collet_result err_gpu_not_reached(const struct chan *chan, int peer) {
    return err_set(
        COLLET_ERR_UNSUPPORTED,
        "the GPU of rank %d does not reach the memory of the GPU of rank %d: puts, gets, signals and transfers "
        "need one host, and NVLink between the GPUs",
        chan->owner.rank, peer);
}

static enum collet_result launch_turns(const struct chan *chan, const struct signal_launch *launch, void *stream) {
    const struct gpu_driver *driver = chan->owner.gpu->driver;
    return driver->streams->launch(driver->kernels->signals, 1, 1, launch, stream);
}

static enum collet_result put_move(const struct chan *chan, const struct onesided_move *move, void *stream) {
    const struct conn_owner *owner = &chan->owner;
    if (move->bytes > 0) {
        char *there = (char *)gpu_window_base(move->window, move->peer) + move->offset;
        COLLET_TRY(owner->gpu->driver->streams->copy(move->gets ? move->here : there, move->gets ? there : move->here,
                                                     move->bytes, stream));
    }
    if (!move->signals)
        return COLLET_SUCCESS;
    const struct signal_launch launch = {
        .status = owner->gpu->status,
        .nturns = 1,
        .turns = {{.word = signal_at(chan, move->peer, SIGNAL_WORDS, move->number, owner->rank),
                   .count = signal_at(chan, owner->rank, SIGNAL_SENT, move->number, move->peer),
                   .peer = move->peer}},
    };
    return launch_turns(chan, &launch, stream);
}

struct onesided_waits {
    uint32_t number;
    const struct onesided_wait *waits;
    int n;
};

static enum collet_result put_waits(const struct chan *chan, const struct onesided_waits *all, void *stream) {
    const int self = chan->owner.rank;
    struct signal_launch launch = {.status = chan->owner.gpu->status};
    for (int k = 0; k < all->n; k++) {
        const struct onesided_wait *wait = &all->waits[k];
        launch.turns[launch.nturns++] = (struct signal_turn){
            .word = signal_at(chan, self, SIGNAL_WORDS, all->number, wait->peer),
            .count = signal_at(chan, self, SIGNAL_AWAITED, all->number, wait->peer),
            .times = wait->count,
            .peer = wait->peer,
            .waits = 1,
        };
        if (launch.nturns < SIGNAL_TURNS_MOST && k + 1 < all->n)
            continue;
        COLLET_TRY(launch_turns(chan, &launch, stream));
        launch.nturns = 0;
    }
    return COLLET_SUCCESS;
}

/* Puts the work of one of these two, in the order of the rank's other operations. */
static enum collet_result put_in_order(const struct chan *chan, const struct onesided_move *move,
                                       const struct onesided_waits *waits, void *stream) {
    struct gpu_rank *gpu = chan->owner.gpu;
    struct gpu_place place;
    uint64_t capture;
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    COLLET_TRY(gpu->driver->streams->capture(stream, &capture));
    COLLET_TRY(gpu_place_in(gpu->driver->streams, stream, capture, &place));
    COLLET_TRY(gpu_rank_before(gpu, &place));
    COLLET_TRY(move != NULL ? put_move(chan, move, stream) : put_waits(chan, waits, stream));
    return gpu_ranks_after(&gpu, 1, &place);
}

/* An operation that was put in part leaves the rank's order unclear. So the communicator fails. */
static enum collet_result put(const struct chan *chan, const struct onesided_move *move,
                              const struct onesided_waits *waits, void *stream) {
    enum collet_result result = exec_gpu_check(chan);
    if (result == COLLET_SUCCESS)
        result = put_in_order(chan, move, waits, stream);
    if (result != COLLET_SUCCESS)
        boot_fail(chan->owner.boot, result, err_last());
    return result;
}

enum collet_result gpu_onesided_move(const struct chan *chan, const struct onesided_move *move, void *stream) {
    COLLET_TRY(check_signals(chan));
    const bool reaches = signal_at(chan, move->peer, SIGNAL_WORDS, 0, 0) != NULL &&
                         (move->bytes == 0 || gpu_window_base(move->window, move->peer) != NULL);
    return reaches ? put(chan, move, NULL, stream) : err_gpu_not_reached(chan, move->peer);
}

enum collet_result gpu_onesided_wait(const struct chan *chan, uint32_t number, const struct onesided_wait *waits, int n,
                                     void *stream) {
    COLLET_TRY(check_signals(chan));
    for (int k = 0; k < n; k++)
        if (signal_at(chan, waits[k].peer, SIGNAL_WORDS, 0, 0) == NULL)
            return err_gpu_not_reached(chan, waits[k].peer);
    return put(chan, NULL, &(struct onesided_waits){number, waits, n}, stream);
}
