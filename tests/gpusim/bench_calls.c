/* SPDX-License-Identifier: Apache-2.0
 *
 * How many calls of CUDA a collective takes, on the simulated machine: two processes with a rank each, on a GPU each.
 *
 *    bench_calls           prints them, for each collective
 *    bench_calls check     fails if a collective takes more than one launch and four further calls
 */
#include "gpusim/gpusim.h"

#include "collet.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS 20
#define COUNT 256
#define MOST_CALLS 5

static void must(int result, const char *what) {
    if (result == 0)
        return;
    printf("%s: %d: %s\n", what, result, collet_last_error(NULL));
    exit(1);
}
#define MUST(call) must((int)(call), #call)

struct bench {
    struct collet_comm *comm;
    cudaStream_t stream;
    float *in, *out;
};

static void run_allreduce(const struct bench *b) {
    MUST(collet_allreduce(b->in, b->out, COUNT, COLLET_FLOAT32, COLLET_SUM, b->comm, b->stream));
}
static void run_broadcast(const struct bench *b) {
    MUST(collet_broadcast(b->in, b->out, COUNT, COLLET_FLOAT32, 0, b->comm, b->stream));
}
static void run_allgather(const struct bench *b) {
    MUST(collet_allgather(b->in, b->out, COUNT, COLLET_FLOAT32, b->comm, b->stream));
}
static void run_reducescatter(const struct bench *b) {
    MUST(collet_reducescatter(b->in, b->out, COUNT, COLLET_FLOAT32, COLLET_SUM, b->comm, b->stream));
}
static void run_alltoall(const struct bench *b) {
    MUST(collet_alltoall(b->in, b->out, COUNT, COLLET_FLOAT32, b->comm, b->stream));
}

static const struct {
    const char *name;
    void (*run)(const struct bench *b);
} collectives[] = {
    {"allreduce", run_allreduce},         {"broadcast", run_broadcast}, {"allgather", run_allgather},
    {"reducescatter", run_reducescatter}, {"alltoall", run_alltoall},
};

/* The first call makes connections. */
static bool too_many(const struct bench *b, int k, bool prints) {
    collectives[k].run(b);
    MUST(cudaStreamSynchronize(b->stream));
    gpusim_forget_calls();
    for (int call = 0; call < CALLS; call++)
        collectives[k].run(b);
    uint64_t launches = gpusim_calls("cudaLaunchKernel");
    uint64_t calls = gpusim_calls(NULL);
    MUST(cudaStreamSynchronize(b->stream));
    if (prints) {
        printf("%-16s %4.1f launches, %4.1f calls in all:\n", collectives[k].name, (double)launches / CALLS,
               (double)calls / CALLS);
        gpusim_print_calls(CALLS);
    }
    return launches > CALLS || calls > MOST_CALLS * CALLS;
}

static int run_rank(int rank, const struct collet_unique_id *id, bool prints) {
    struct collet_config config = {.size = sizeof(config), .device = COLLET_DEVICE_CUDA(rank)};
    struct bench b;
    int failed = 0;
    MUST(cudaSetDevice(rank));
    MUST(collet_comm_init_rank_config(&b.comm, 2, *id, rank, &config));
    MUST(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking));
    MUST(cudaMalloc((void **)&b.in, 2 * COUNT * sizeof(float)));
    MUST(cudaMalloc((void **)&b.out, 2 * COUNT * sizeof(float)));
    for (size_t k = 0; k < sizeof(collectives) / sizeof(*collectives); k++)
        failed += too_many(&b, (int)k, prints && rank == 0);
    MUST(collet_comm_destroy(b.comm));
    return failed;
}

int main(int argc, char **argv) {
    bool checks = argc > 1 && strcmp(argv[1], "check") == 0;
    struct collet_unique_id id;
    int failed = 0, status;
    MUST(collet_get_unique_id(&id));
    for (int rank = 0; rank < 2; rank++)
        if (fork() == 0)
            exit(run_rank(rank, &id, !checks));
    while (wait(&status) > 0)
        failed |= status;
    return checks && failed != 0;
}
