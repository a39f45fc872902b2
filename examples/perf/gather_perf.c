/* SPDX-License-Identifier: Apache-2.0
 *
 * gather_perf: the root gets the blocks of all ranks, in rank order. The receive buffers of other ranks must not be touched. In
 * place, the root's block already lies where it belongs.
 *
 *   rank 0 (root)  A            A B
 *   rank 1         B     ->     . .
 */
#include "perf.h"

static enum collet_result run(const struct perf_call *call) {
    return collet_gather(call->send, call->recv, call->shape.count, call->type->type, call->root, call->comm,
                         call->stream);
}

static struct perf_origin origin(const struct perf_call *call, size_t element) {
    if (call->rank != call->root)
        return (struct perf_origin){PERF_UNTOUCHED, element, SIZE_MAX};
    return perf_origin_gathered(call, element);
}

static const struct perf_collective gather = {
    .program = "gather_perf",
    .function = "collet_gather",
    .planned = "gather",
    .has_root = true,
    .has_in_place = true,
    .input = PERF_COUNT,
    .output = PERF_BLOCKS,
    .run = run,
    .origin = origin,
    .bus_factor = perf_bus_factor_blocks,
};

int main(int argc, char **argv) { return perf_main(&gather, argc, argv); }
