/* SPDX-License-Identifier: Apache-2.0
 *
 * put_perf: every rank puts into the window of the next one, with a signal, and waits for the signal of the one before, all around the ring
 * at once. Not in place.
 *
 *   rank 0  A            C
 *   rank 1  B     ->     A
 *   rank 2  C            B
 *
 * Before that, each rank tells the one before by a signal that its window may be written. A time is of both signals and the put.
 */
#include "onesided.h"

static enum collet_result run(const struct perf_call *call) {
    const size_t bytes = call->shape.count * call->type->bytes;
    struct collet_window *window;
    enum collet_result result = onesided_window(call->comm, call->recv, bytes, &window);
    if (result == COLLET_SUCCESS)
        result = collet_signal(onesided_before(call), window, call->comm, call->stream); /* it may write */
    if (result == COLLET_SUCCESS)
        result = collet_wait_signal(onesided_behind(call), 1, window, call->comm, call->stream);
    if (result == COLLET_SUCCESS)
        result = collet_put_signal(call->send, bytes, onesided_behind(call), window, 0, call->comm, call->stream);
    if (result == COLLET_SUCCESS)
        result = collet_wait_signal(onesided_before(call), 1, window, call->comm, call->stream);
    return result;
}

static const struct perf_collective put = {
    .program = "put_perf",
    .function = "collet_put_signal and collet_wait_signal",
    .input = PERF_COUNT,
    .output = PERF_COUNT,
    .run = run,
    .origin = onesided_origin,
    .bus_factor = perf_bus_factor_one,
    .refuses = onesided_refuses,
};

int main(int argc, char **argv) { return perf_main(&put, argc, argv); }
