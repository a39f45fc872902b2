/* SPDX-License-Identifier: Apache-2.0
 *
 * broadcast_perf: every rank gets the root's input.
 *
 *   rank 0 (root)  A            A
 *   rank 1         .     ->     A
 */
#include "perf.h"

static enum collet_result run(const struct perf_call *call) {
    return collet_broadcast(call->send, call->recv, call->shape.count, call->type->type, call->root, call->comm,
                            call->stream);
}

static struct perf_origin origin(const struct perf_call *call, size_t element) {
    return (struct perf_origin){call->root, element, SIZE_MAX};
}

static const struct perf_collective broadcast = {
    .program = "broadcast_perf",
    .function = "collet_broadcast",
    .planned = "broadcast",
    .has_root = true,
    .has_in_place = true,
    .input = PERF_COUNT,
    .output = PERF_COUNT,
    .run = run,
    .origin = origin,
    .bus_factor = perf_bus_factor_one,
};

int main(int argc, char **argv) { return perf_main(&broadcast, argc, argv); }
