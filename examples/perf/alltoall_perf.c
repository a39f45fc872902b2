/* SPDX-License-Identifier: Apache-2.0
 *
 * alltoall_perf: block s of rank r's input becomes block r of rank s's result, a transposition. Not in place.
 *
 *   rank 0  A0 A1            A0 B0
 *   rank 1  B0 B1     ->     A1 B1
 */
#include "perf.h"

static enum collet_result run(const struct perf_call *call) {
    return collet_alltoall(call->send, call->recv, call->shape.count, call->type->type, call->comm, call->stream);
}

static struct perf_origin origin(const struct perf_call *call, size_t element) {
    struct perf_origin origin = perf_origin_gathered(call, element);
    origin.element += (size_t)call->rank * call->shape.count;
    return origin;
}

static const struct perf_collective alltoall = {
    .program = "alltoall_perf",
    .function = "collet_alltoall",
    .planned = "alltoall",
    .input = PERF_BLOCKS,
    .output = PERF_BLOCKS,
    .run = run,
    .origin = origin,
    .bus_factor = perf_bus_factor_blocks,
};

int main(int argc, char **argv) { return perf_main(&alltoall, argc, argv); }
