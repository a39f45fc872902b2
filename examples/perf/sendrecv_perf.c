/* SPDX-License-Identifier: Apache-2.0
 *
 * sendrecv_perf: every rank sends to the next rank and receives from the one before, all at once. There is no in-place
 * half.
 *
 *   rank 0  A            C
 *   rank 1  B     ->     A
 *   rank 2  C            B
 */
#include "perf.h"

static int previous_rank(const struct perf_call *call) { return (call->rank + call->nranks - 1) % call->nranks; }

/* Send and receive are in one group: if every rank first waited for its send, all would wait forever. */
static enum collet_result run(const struct perf_call *call) {
    int next_rank = (call->rank + 1) % call->nranks;
    enum collet_result result = collet_group_start();
    if (result != COLLET_SUCCESS)
        return result;
    enum collet_result sent =
        collet_send(call->send, call->shape.count, call->type->type, next_rank, call->comm, call->stream);
    enum collet_result received =
        collet_recv(call->recv, call->shape.count, call->type->type, previous_rank(call), call->comm, call->stream);
    result = collet_group_end();
    return sent != COLLET_SUCCESS ? sent : received != COLLET_SUCCESS ? received : result;
}

static struct perf_origin origin(const struct perf_call *call, size_t element) {
    return (struct perf_origin){previous_rank(call), element, SIZE_MAX};
}

static const struct perf_collective sendrecv = {
    .program = "sendrecv_perf",
    .function = "collet_send and collet_recv",
    .has_op = true, /* As in nccl-tests, the sweep goes over -o, although nothing is reduced */
    .input = PERF_COUNT,
    .output = PERF_COUNT,
    .run = run,
    .origin = origin,
    .bus_factor = perf_bus_factor_one,
};

int main(int argc, char **argv) { return perf_main(&sendrecv, argc, argv); }
