/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_scatterv_perf: rank r gets block r of the reduction of all ranks' inputs. That block is r units long: rank 0 gets
 * nothing. Not in place. nccl-tests has no such program.
 *
 *   rank 0  a1 a2 a2            –
 *   rank 1  b1 b2 b2     ->     a1+b1+c1
 *   rank 2  c1 c2 c2            a2+b2+c2  a2+b2+c2
 */
#include "perf.h"

#include <stdlib.h>

static enum collet_result run(const struct perf_call *call) {
    size_t nranks = (size_t)call->nranks;
    size_t *counts = perf_allocate(nranks * sizeof(*counts));
    for (size_t r = 0; r < nranks; r++)
        counts[r] = r * perf_unit_of(call);
    enum collet_result result = collet_reducescatterv(call->send, call->recv, counts, call->type->type, call->reduction,
                                                      call->comm, call->stream);
    free(counts);
    return result;
}

static struct perf_origin origin(const struct perf_call *call, size_t element) {
    size_t rank = (size_t)call->rank, unit = perf_unit_of(call);
    if (element >= rank * unit)
        return (struct perf_origin){PERF_UNTOUCHED, 0, SIZE_MAX};
    return (struct perf_origin){PERF_ALL_RANKS, rank * (rank - 1) / 2 * unit + element, rank * unit - element};
}

static const struct perf_collective reduce_scatterv = {
    .program = "reduce_scatterv_perf",
    .function = "collet_reducescatterv",
    .has_op = true,
    .reduces = true,
    .input = PERF_DISTANCES,
    .output = PERF_DISTANCES,
    .run = run,
    .origin = origin,
    .bus_factor = perf_bus_factor_blocks,
};

int main(int argc, char **argv) { return perf_main(&reduce_scatterv, argc, argv); }
