/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/windows/in_stream.h"

#include "api/engine.h"

/* Takes the lock of a communicator that has not failed. End with driver_leave() in either case. */
static enum collet_result lock(struct driver *driver, struct collet_comm *comm) {
    *driver = (struct driver){.comms = NULL};
    while (!driver_take(driver, comm))
        wait_pause(&driver->waiter);
    return comm_check_locked(comm);
}

struct onesided_move in_stream_move_of(const struct collet_window *window, int peer,
                                       const struct window_target *target) {
    return (struct onesided_move){
        .window = window->on_gpu,
        .peer = peer,
        .here = target->here,
        .offset = target->offset,
        .bytes = target->bytes,
        .number = ONESIDED_OF_NO_WINDOW,
    };
}

enum collet_result in_stream_move(struct collet_comm *comm, const struct onesided_move *move, void *stream) {
    struct driver driver;
    enum collet_result result = lock(&driver, comm);
    if (result == COLLET_SUCCESS)
        result = gpu_onesided_move(comm->chan, move, stream);
    driver_leave(&driver);
    return result;
}

enum collet_result in_stream_wait(struct collet_comm *comm, uint32_t number, const struct onesided_wait *waits, int n,
                                  void *stream) {
    struct driver driver;
    enum collet_result result = lock(&driver, comm);
    if (result == COLLET_SUCCESS)
        result = gpu_onesided_wait(comm->chan, number, waits, n, stream);
    driver_leave(&driver);
    return result;
}

/* ---- for programs of NCCL: signals that belong to no window ---- */

/* Begins a call. If it succeeds, end it with comm_leave(). */
static enum collet_result begin(struct collet_comm *comm, int peer) {
    if (comm_is_live(comm) && !comm_is_on_gpu(comm))
        return err_set(COLLET_ERR_UNSUPPORTED, "this communicator is on host memory (COLLET_DEVICE=host), which has no "
                                               "windows by NCCL's names: collet_put_signal() is for it");
    return window_enter_any(comm, peer);
}

enum collet_result window_put_signal(struct collet_comm *comm, const void *sendbuff, size_t bytes, int peer,
                                     const struct collet_window *window, size_t offset, void *stream) {
    const struct window_target target = {"localbuff", (void *)(uintptr_t)sendbuff, offset, bytes};
    COLLET_TRY(begin(comm, peer));
    enum collet_result result = window_check_is_of(comm, window);
    if (result == COLLET_SUCCESS)
        result = window_check(window, peer, &target);
    if (result == COLLET_SUCCESS) {
        struct onesided_move move = in_stream_move_of(window, peer, &target);
        move.signals = true;
        result = in_stream_move(comm, &move, stream);
    }
    comm_remember(comm, result);
    comm_leave(comm);
    return result;
}

enum collet_result window_signal(struct collet_comm *comm, int peer, void *stream) {
    const struct onesided_move move = {.peer = peer, .signals = true};
    COLLET_TRY(begin(comm, peer));
    enum collet_result result = comm_remember(comm, in_stream_move(comm, &move, stream));
    comm_leave(comm);
    return result;
}

static enum collet_result check_peers(const struct collet_comm *comm, const struct onesided_wait *waits, int n) {
    for (int k = 0; k < n; k++)
        if (waits[k].peer < 0 || waits[k].peer >= comm->nranks)
            return err_set(COLLET_ERR_INVALID_ARGUMENT, "peer of descriptor %d is %d: 0 … %d in this communicator", k,
                           waits[k].peer, comm->nranks - 1);
    return COLLET_SUCCESS;
}

enum collet_result window_wait_signals(struct collet_comm *comm, const struct onesided_wait *waits, int n,
                                       void *stream) {
    COLLET_TRY(begin(comm, 0));
    enum collet_result result = check_peers(comm, waits, n);
    if (result == COLLET_SUCCESS)
        result = in_stream_wait(comm, ONESIDED_OF_NO_WINDOW, waits, n, stream);
    comm_remember(comm, result);
    comm_leave(comm);
    return result;
}
