/* SPDX-License-Identifier: Apache-2.0
 *
 * alltoallv_perf: blocks of different lengths. Rank r sends nothing to itself, one unit to rank r+1, two units to rank r+2 and so
 * on round the ring: the length of a block is the distance between its ranks. So all ranks send and receive equally much,
 * 1 + 2 + … + (n−1) units. There is no in-place half. This is the default pattern of nccl-tests.
 *
 *   to rank     0   1   2   3
 *   rank 0      –   1   2   3
 *   rank 1      3   –   1   2
 *   rank 2      2   3   –   1
 *   rank 3      1   2   3   –
 */
#include "perf.h"

#include <stdlib.h>

static size_t distance(const struct perf_call *call, int from, int to) {
    return (size_t)((to - from + call->nranks) % call->nranks);
}

/* counts[r] and displs[r] describe the block that the rank sends to rank r, or receives from rank r. */
static void lay_out(const struct perf_call *call, bool sends, size_t *counts, size_t *displs) {
    size_t at = 0;
    for (int peer = 0; peer < call->nranks; peer++) {
        displs[peer] = at;
        counts[peer] =
            perf_unit_of(call) * (sends ? distance(call, call->rank, peer) : distance(call, peer, call->rank));
        at += counts[peer];
    }
}

static enum collet_result run(const struct perf_call *call) {
    size_t nranks = (size_t)call->nranks;
    size_t *numbers = perf_allocate(4 * nranks * sizeof(*numbers));
    size_t *sendcounts = numbers, *sdispls = numbers + nranks;
    size_t *recvcounts = numbers + 2 * nranks, *rdispls = numbers + 3 * nranks;
    lay_out(call, true, sendcounts, sdispls);
    lay_out(call, false, recvcounts, rdispls);
    enum collet_result result = collet_alltoallv(call->send, sendcounts, sdispls, call->recv, recvcounts, rdispls,
                                                 call->type->type, call->comm, call->stream);
    free(numbers);
    return result;
}

static struct perf_origin origin(const struct perf_call *call, size_t element) {
    int from = 0;
    while (element >= perf_unit_of(call) * distance(call, from, call->rank))
        element -= perf_unit_of(call) * distance(call, from++, call->rank);
    size_t run = perf_unit_of(call) * distance(call, from, call->rank) - element;
    for (int before = 0; before < call->rank;
         before++) /* In the input of `from`, the block lies behind the blocks for ranks before this one */
        element += perf_unit_of(call) * distance(call, from, before);
    return (struct perf_origin){from, element, run};
}

static const struct perf_collective alltoallv = {
    .program = "alltoallv_perf",
    .function = "collet_alltoallv",
    .input = PERF_DISTANCES,
    .output = PERF_DISTANCES,
    .run = run,
    .origin = origin,
    .bus_factor = perf_bus_factor_blocks,
};

int main(int argc, char **argv) { return perf_main(&alltoallv, argc, argv); }
