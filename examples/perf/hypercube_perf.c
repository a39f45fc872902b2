/* SPDX-License-Identifier: Apache-2.0
 *
 * hypercube_perf: an allgather that is made of sends and receives. The ranks are the corners of a cube of log₂ n dimensions. In each
 * phase, two neighbours along one dimension exchange all the blocks that they have. In place, a rank's block already lies where it
 * belongs.
 *
 *              at first   phase 1: 0↔1 2↔3   phase 2: 0↔2 1↔3
 *   rank 0     A          A B                A B C D
 *   rank 1       B        A B                A B C D
 *   rank 2         C          C D            A B C D
 *   rank 3           D        C D            A B C D
 */
#include "perf.h"

/* Send and receive are in one group: if each rank first waited for its send, both would wait forever. */
static enum collet_result swap(const struct perf_call *call, const void *send, void *recv, size_t count, int peer) {
    enum collet_result result = collet_group_start();
    if (result != COLLET_SUCCESS)
        return result;
    enum collet_result sent = collet_send(send, count, call->type->type, peer, call->comm, call->stream);
    enum collet_result received = collet_recv(recv, count, call->type->type, peer, call->comm, call->stream);
    result = collet_group_end();
    return sent != COLLET_SUCCESS ? sent : received != COLLET_SUCCESS ? received : result;
}

static enum collet_result run(const struct perf_call *call) {
    size_t block = call->shape.count, block_bytes = block * call->type->bytes;
    char *blocks = call->recv;
    char *own = blocks + (size_t)call->rank * block_bytes;
    enum collet_result result = COLLET_SUCCESS;
    if (own != call->send)
        result = swap(call, call->send, own, block, call->rank);
    for (int edge = 1; edge < call->nranks && result == COLLET_SUCCESS; edge *= 2) {
        /* First of the `edge` blocks that this rank has, and that its peer has. */
        int first = call->rank / edge * edge, peers_first = first ^ edge;
        result = swap(call, blocks + (size_t)first * block_bytes, blocks + (size_t)peers_first * block_bytes,
                      block * (size_t)edge, call->rank ^ edge);
    }
    return result;
}

static const char *refuses(const struct perf_job *job) {
    if (job->nranks & (job->nranks - 1))
        return "the number of ranks must be a power of two";
    if (job->options->gpus > 1 || job->options->agg_iters > 1)
        return "its phases come one after the other, which no group allows: leave out -g and -m";
    return NULL;
}

static const struct perf_collective hypercube = {
    .program = "hypercube_perf",
    .function = "collet_send and collet_recv",
    .has_in_place = true,
    .input = PERF_COUNT,
    .output = PERF_BLOCKS,
    .run = run,
    .origin = perf_origin_gathered,
    .bus_factor = perf_bus_factor_one,
    .alg_factor = perf_bus_factor_blocks, /* Only blocks that travel count, as in nccl-tests */
    .refuses = refuses,
};

int main(int argc, char **argv) { return perf_main(&hypercube, argc, argv); }
