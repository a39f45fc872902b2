/* SPDX-License-Identifier: Apache-2.0
 *
 * all_reduce_perf: every rank gets the reduction of all ranks' inputs.
 *
 *   rank 0  a0 a1 a2            a0+b0 a1+b1 a2+b2
 *   rank 1  b0 b1 b2     ->     a0+b0 a1+b1 a2+b2
 */
#include "perf.h"

static enum collet_result run(const struct perf_call *call) {
    return collet_allreduce(call->send, call->recv, call->shape.count, call->type->type, call->reduction, call->comm,
                            call->stream);
}

static struct perf_origin origin(const struct perf_call *call, size_t element) {
    (void)call;
    return (struct perf_origin){PERF_ALL_RANKS, element, SIZE_MAX};
}

/* Each rank must send (n−1)/n of its data to ranks that reduce them, and must send as many results. */
static double bus_factor(int nranks) { return 2.0 * (nranks - 1) / nranks; }

static const struct perf_collective all_reduce = {
    .program = "all_reduce_perf",
    .function = "collet_allreduce",
    .planned = "allreduce",
    .has_op = true,
    .reduces = true,
    .has_in_place = true,
    .input = PERF_COUNT,
    .output = PERF_COUNT,
    .run = run,
    .origin = origin,
    .bus_factor = bus_factor,
};

int main(int argc, char **argv) { return perf_main(&all_reduce, argc, argv); }
