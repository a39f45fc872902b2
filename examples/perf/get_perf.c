/* SPDX-License-Identifier: Apache-2.0
 *
 * get_perf: every rank gets what the rank before has in its window, all around the ring at once. Not in place.
 *
 *   rank 0  A            C
 *   rank 1  B     ->     A
 *   rank 2  C            B
 *
 * Signals say before that the window may be read, and after that it has been. A time is of both signals and the get.
 */
#include "onesided.h"

/* Tells a rank by a signal that this rank has come so far, and waits until another one has. */
static enum collet_result meet(const struct perf_call *call, struct collet_window *window, int told, int awaited) {
    enum collet_result result = collet_signal(told, window, call->comm, call->stream);
    return result == COLLET_SUCCESS ? collet_wait_signal(awaited, 1, window, call->comm, call->stream) : result;
}

static enum collet_result run(const struct perf_call *call) {
    const size_t bytes = call->shape.count * call->type->bytes;
    struct collet_window *window;
    enum collet_result result = onesided_window(call->comm, (void *)(uintptr_t)call->send, bytes, &window);
    if (result == COLLET_SUCCESS)
        result = meet(call, window, onesided_behind(call), onesided_before(call)); /* it may be read */
    if (result == COLLET_SUCCESS)
        result = collet_get(call->recv, bytes, onesided_before(call), window, 0, call->comm, call->stream);
    if (result == COLLET_SUCCESS)
        result = meet(call, window, onesided_before(call), onesided_behind(call)); /* it has been read */
    return result;
}

static const struct perf_collective get = {
    .program = "get_perf",
    .function = "collet_get",
    .input = PERF_COUNT,
    .output = PERF_COUNT,
    .run = run,
    .origin = onesided_origin,
    .bus_factor = perf_bus_factor_one,
    .refuses = onesided_refuses,
};

int main(int argc, char **argv) { return perf_main(&get, argc, argv); }
