/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/windows/in_stream.h"

#include "api/engine.h"

static void lock(struct driver *driver, struct collet_comm *comm) {
    while (!driver_take(driver, comm))
        wait_pause(&driver->waiter);
}

enum collet_result in_stream_move(struct collet_comm *comm, const struct onesided_move *move, void *stream) {
    struct driver driver = {.comms = NULL};
    lock(&driver, comm);
    enum collet_result result = comm_check_locked(comm);
    if (result == COLLET_SUCCESS)
        result = gpu_onesided_move(comm->chan, move, stream);
    driver_leave(&driver);
    return result;
}

enum collet_result in_stream_wait(struct collet_comm *comm, uint32_t number, const struct onesided_wait *waits, int n,
                                  void *stream) {
    struct driver driver = {.comms = NULL};
    lock(&driver, comm);
    enum collet_result result = comm_check_locked(comm);
    if (result == COLLET_SUCCESS)
        result = gpu_onesided_wait(comm->chan, number, waits, n, stream);
    driver_leave(&driver);
    return result;
}
