/* SPDX-License-Identifier: Apache-2.0
 *
 * all_gatherv_perf: every rank gets the blocks of all ranks, in rank order. The block of rank r is r units long, so rank 0 has an
 * empty block. There is no in-place half. nccl-tests has no such program.
 *
 *   rank 0  –
 *   rank 1  A            –, A, B B     on every rank
 *   rank 2  B B    ->
 */
#include "perf.h"

#include <stdlib.h>

static enum collet_result run(const struct perf_call *call) {
    size_t nranks = (size_t)call->nranks, unit = perf_unit_of(call);
    size_t *counts = perf_allocate(2 * nranks * sizeof(*counts)), *displs = counts + nranks;
    for (size_t r = 0; r < nranks; r++) {
        counts[r] = r * unit;
        displs[r] = r == 0 ? 0 : displs[r - 1] + counts[r - 1];
    }
    enum collet_result result = collet_allgatherv(call->send, counts[call->rank], call->recv, counts, displs,
                                                  call->type->type, call->comm, call->stream);
    free(counts);
    return result;
}

static struct perf_origin origin(const struct perf_call *call, size_t element) {
    int from = 0;
    while (element >= (size_t)from * perf_unit_of(call))
        element -= (size_t)from++ * perf_unit_of(call);
    return (struct perf_origin){from, element, (size_t)from * perf_unit_of(call) - element};
}

static const struct perf_collective all_gatherv = {
    .program = "all_gatherv_perf",
    .function = "collet_allgatherv",
    .input = PERF_DISTANCES,
    .output = PERF_DISTANCES,
    .run = run,
    .origin = origin,
    .bus_factor = perf_bus_factor_blocks,
};

int main(int argc, char **argv) { return perf_main(&all_gatherv, argc, argv); }
