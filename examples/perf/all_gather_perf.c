/* SPDX-License-Identifier: Apache-2.0
 *
 * all_gather_perf: every rank gets the blocks of all ranks, in rank order. In place, a rank's block already lies where
 * it belongs in its receive buffer.
 *
 *   rank 0  A            A B
 *   rank 1  B     ->     A B
 */
#include "perf.h"

static enum collet_result run(const struct perf_call *call) {
    return collet_allgather(call->send, call->recv, call->shape.count, call->type->type, call->comm, call->stream);
}

static const struct perf_collective all_gather = {
    .program = "all_gather_perf",
    .function = "collet_allgather",
    .planned = "allgather",
    .has_in_place = true,
    .input = PERF_COUNT,
    .output = PERF_BLOCKS,
    .run = run,
    .origin = perf_origin_gathered,
    .bus_factor = perf_bus_factor_blocks,
};

int main(int argc, char **argv) { return perf_main(&all_gather, argc, argv); }
