/* SPDX-License-Identifier: Apache-2.0
 *
 * scatter_perf: every rank gets its block of the root's input. In place, the root's block stays where it is.
 *
 *   rank 0 (root)  A0 A1            A0
 *   rank 1         .  .      ->     A1
 */
#include "perf.h"

static enum collet_result run(const struct perf_call *call) {
    return collet_scatter(call->send, call->recv, call->shape.count, call->type->type, call->root, call->comm,
                          call->stream);
}

static struct perf_origin origin(const struct perf_call *call, size_t element) {
    return perf_origin_scattered(call, call->root, element);
}

static const struct perf_collective scatter = {
    .program = "scatter_perf",
    .function = "collet_scatter",
    .planned = "scatter",
    .has_root = true,
    .has_in_place = true,
    .input = PERF_BLOCKS,
    .output = PERF_COUNT,
    .run = run,
    .origin = origin,
    .bus_factor = perf_bus_factor_blocks,
};

int main(int argc, char **argv) { return perf_main(&scatter, argc, argv); }
