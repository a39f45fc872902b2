/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_scatter_perf: rank r gets block r of the reduction of all ranks' inputs. In place, the result replaces that
 * block of the input, and the other blocks stay.
 *
 *   rank 0  a0 a1            a0+b0
 *   rank 1  b0 b1     ->           a1+b1
 */
#include "perf.h"

static enum collet_result run(const struct perf_call *call) {
    return collet_reducescatter(call->send, call->recv, call->shape.count, call->type->type, call->reduction,
                                call->comm, call->stream);
}

static struct perf_origin origin(const struct perf_call *call, size_t element) {
    return perf_origin_scattered(call, PERF_ALL_RANKS, element);
}

static const struct perf_collective reduce_scatter = {
    .program = "reduce_scatter_perf",
    .function = "collet_reducescatter",
    .planned = "reducescatter",
    .has_op = true,
    .reduces = true,
    .has_in_place = true,
    .input = PERF_BLOCKS,
    .output = PERF_COUNT,
    .run = run,
    .origin = origin,
    .bus_factor = perf_bus_factor_blocks,
};

int main(int argc, char **argv) { return perf_main(&reduce_scatter, argc, argv); }
