/* SPDX-License-Identifier: Apache-2.0
 *
 * How long an allreduce of several ranks on one GPU takes: in a graph, which is time on the GPU, and in streams.
 *
 *     first stream   ──●── rank 0 ──●──     a graph begins in the first stream, and the others join it:
 *     second stream    └── rank 1 ──┘       ranks whose kernels wait for each other may not share a stream
 */
#include "gpu/beside_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RANKS_MOST 8
static const size_t all_bytes[] = {8, 2u << 20, 64u << 20}, few_bytes[] = {8, 1024};

struct job {
    const struct library *library;
    int nranks;
    void *comms[RANKS_MOST];
    cudaStream_t streams[RANKS_MOST];
    cudaEvent_t forks, joins[RANKS_MOST];
    float *in[RANKS_MOST], *out[RANKS_MOST];
};

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Element k of rank r is r + 1 + k mod 3. */
static void fill(const struct job *job, int rank, size_t elems) {
    float *numbers = malloc(elems * sizeof(float));
    if (numbers == NULL)
        exit(1);
    for (size_t k = 0; k < elems; k++)
        numbers[k] = (float)(rank + 1) + (float)(k % 3);
    CUDA_MUST(cudaMemcpy(job->in[rank], numbers, elems * sizeof(float), cudaMemcpyDefault));
    CUDA_MUST(cudaDeviceSynchronize());
    free(numbers);
}

static void job_begin(struct job *job, const struct library *library, int nranks, size_t bytes) {
    struct nccl_id id;
    *job = (struct job){.library = library, .nranks = nranks};
    LIBRARY_MUST(library, get_unique_id(&id));
    LIBRARY_MUST(library, group_start());
    for (int rank = 0; rank < nranks; rank++)
        LIBRARY_MUST(library, comm_init_rank(&job->comms[rank], nranks, id, rank));
    LIBRARY_MUST(library, group_end());
    CUDA_MUST(cudaEventCreateWithFlags(&job->forks, cudaEventDisableTiming));
    for (int rank = 0; rank < nranks; rank++) {
        CUDA_MUST(cudaStreamCreateWithFlags(&job->streams[rank], cudaStreamNonBlocking));
        CUDA_MUST(cudaEventCreateWithFlags(&job->joins[rank], cudaEventDisableTiming));
        CUDA_MUST(cudaMalloc((void **)&job->in[rank], bytes));
        CUDA_MUST(cudaMalloc((void **)&job->out[rank], bytes));
        fill(job, rank, bytes / sizeof(float));
    }
}

static void job_end(struct job *job) {
    for (int rank = 0; rank < job->nranks; rank++)
        LIBRARY_MUST(job->library, comm_destroy(job->comms[rank]));
}

static void call(const struct job *job, size_t elems) {
    const struct library *library = job->library;
    LIBRARY_MUST(library, group_start());
    for (int rank = 0; rank < job->nranks; rank++)
        LIBRARY_MUST(library, all_reduce(job->in[rank], job->out[rank], elems, NCCL_FLOAT, NCCL_SUM, job->comms[rank],
                                         job->streams[rank]));
    LIBRARY_MUST(library, group_end());
}

static void wait_all(const struct job *job) {
    for (int rank = 0; rank < job->nranks; rank++)
        CUDA_MUST(cudaStreamSynchronize(job->streams[rank]));
}

/* A sample: acceptance proper is elsewhere. */
static int wrong_elements(const struct job *job, size_t elems) {
    const size_t places[] = {0, elems / 3, elems / 2, elems - 1};
    int wrong = 0;
    for (int rank = 0; rank < job->nranks; rank++)
        for (int k = 0; k < 4; k++) {
            float got,
                expected = (float)(job->nranks * (job->nranks + 1) / 2) + (float)job->nranks * (float)(places[k] % 3);
            CUDA_MUST(cudaMemcpy(&got, job->out[rank] + places[k], sizeof(got), cudaMemcpyDefault));
            wrong += got != expected;
        }
    return wrong;
}

static double time_streams(const struct job *job, size_t elems, int calls) {
    call(job, elems);
    wait_all(job);
    const double start = now_us();
    for (int k = 0; k < calls; k++)
        call(job, elems);
    wait_all(job);
    return (now_us() - start) / calls;
}

static cudaGraphExec_t capture(const struct job *job, size_t elems, int calls) {
    cudaGraph_t graph;
    cudaGraphExec_t made;
    CUDA_MUST(cudaStreamBeginCapture(job->streams[0], cudaStreamCaptureModeThreadLocal));
    CUDA_MUST(cudaEventRecord(job->forks, job->streams[0]));
    for (int rank = 1; rank < job->nranks; rank++)
        CUDA_MUST(cudaStreamWaitEvent(job->streams[rank], job->forks, 0));
    for (int k = 0; k < calls; k++)
        call(job, elems);
    for (int rank = 1; rank < job->nranks; rank++) {
        CUDA_MUST(cudaEventRecord(job->joins[rank], job->streams[rank]));
        CUDA_MUST(cudaStreamWaitEvent(job->streams[0], job->joins[rank], 0));
    }
    CUDA_MUST(cudaStreamEndCapture(job->streams[0], &graph));
    CUDA_MUST(cudaGraphInstantiateWithFlags(&made, graph, 0));
    CUDA_MUST(cudaGraphDestroy(graph));
    return made;
}

static double time_graph(const struct job *job, size_t elems, int calls, int replays) {
    cudaGraphExec_t graph = capture(job, elems, calls);
    CUDA_MUST(cudaGraphLaunch(graph, job->streams[0]));
    wait_all(job);
    const double start = now_us();
    for (int k = 0; k < replays; k++)
        CUDA_MUST(cudaGraphLaunch(graph, job->streams[0]));
    wait_all(job);
    const double us = (now_us() - start) / replays / calls;
    CUDA_MUST(cudaGraphExecDestroy(graph));
    return us;
}

static void report(const struct beside_options *options, const char *mode, size_t bytes, double us) {
    printf("  %-12s n=%d %-8s %10zu bytes: %10.2f us\n", options->name, options->nranks, mode, bytes, us);
    FILE *file = options->results != NULL ? fopen(options->results, "a") : NULL;
    if (file == NULL)
        return;
    fprintf(file, "beside\t%s\t%d\t%s\t%zu\t0\t%.3f\t0\t\n", options->name, options->nranks, mode, bytes, us);
    fclose(file);
}

static int time_size(const struct job *job, const struct beside_options *options, int size) {
    static const int stream_calls[] = {200, 50, 10}, graph_calls[] = {20, 10, 3}, replays[] = {20, 5, 3};
    const size_t bytes = options->slow ? few_bytes[size] : all_bytes[size], elems = bytes / sizeof(float);
    const int few = options->slow ? 2 : 0;
    report(options, "streams", bytes, time_streams(job, elems, few > 0 ? few : stream_calls[size]));
    const int wrong = wrong_elements(job, elems);
    report(options, "graph", bytes,
           time_graph(job, elems, few > 0 ? few : graph_calls[size], few > 0 ? few : replays[size]));
    if (wrong + wrong_elements(job, elems) > 0)
        printf("  %s: %zu bytes: WRONG results\n", options->name, bytes);
    return wrong + wrong_elements(job, elems);
}

int beside_latency(const struct beside_options *options) {
    struct library library;
    struct job job;
    int wrong = 0;
    library_open(&library, options->path, options->name);
    if (options->nranks > 1 && !library_shares_gpus(&library))
        return 77;
    job_begin(&job, &library, options->nranks, options->slow ? few_bytes[1] : all_bytes[2]);
    for (int size = 0; size < (options->slow ? 2 : 3); size++)
        wrong += time_size(&job, options, size);
    job_end(&job);
    return wrong > 0;
}
