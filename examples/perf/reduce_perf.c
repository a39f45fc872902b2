/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_perf: the root gets the reduction of all ranks' inputs; elsewhere the receive buffer must not be touched, not
 * even as scratch.
 *
 *   rank 0 (root)  a0 a1            a0+b0 a1+b1
 *   rank 1         b0 b1     ->     .
 */
#include "perf.h"

static enum collet_result run(const struct perf_call *call) {
    return collet_reduce(call->send, call->recv, call->shape.count, call->type->type, call->reduction, call->root,
                         call->comm, call->stream);
}

static struct perf_origin origin(const struct perf_call *call, size_t element) {
    return (struct perf_origin){call->rank == call->root ? PERF_ALL_RANKS : PERF_UNTOUCHED, element, SIZE_MAX};
}

static const struct perf_collective reduce = {
    .program = "reduce_perf",
    .function = "collet_reduce",
    .planned = "reduce",
    .has_op = true,
    .reduces = true,
    .has_root = true,
    .has_in_place = true,
    .input = PERF_COUNT,
    .output = PERF_COUNT,
    .run = run,
    .origin = origin,
    .bus_factor = perf_bus_factor_one,
};

int main(int argc, char **argv) { return perf_main(&reduce, argc, argv); }
