/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduces gradients while the backward pass runs, on GPUs. A backward pass computes the gradients of the last layer first. The gradients of
 * several layers fill a bucket. A full bucket is reduced in a second stream, while the next layers are computed:
 *
 *    compute stream   layer 9 │ layer 8 │ layer 7 │ layer 6 │ …
 *    reduce stream                      │ bucket 9,8       │ bucket 7,6 │ …
 *
 * Prints how long a step takes with all reductions at the end, and with reductions beside the layers, and how much the latter saves.
 *
 *    overlap [ranks [elements [steps]]]     2 ranks by default, on the GPUs in turn; elements per layer
 */
#include <collet.h>

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS_MAX = 8, LAYERS = 16, LAYERS_A_BUCKET = 4 };
static size_t layer_elems = 4u << 20;
static int steps = 20;

#define MUST_CUDA(call)                                                                                                \
    do {                                                                                                               \
        cudaError_t error = (call);                                                                                    \
        if (error != cudaSuccess) {                                                                                    \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static void must(enum collet_result result) {
    if (result == COLLET_SUCCESS)
        return;
    fprintf(stderr, "%s: %s\n", collet_error_string(result), collet_last_error(NULL));
    exit(1);
}

/* Stands for the backward pass of a layer: it computes for some time, and then writes gradients. */
__global__ void backward(float *gradients, size_t elems, float value) {
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < elems; i += stride) {
        float x = value;
        for (int k = 0; k < 400; k++)
            x = x * 0.999f + 0.001f * value;
        gradients[i] = x;
    }
}

struct rank {
    int gpu;
    struct collet_comm *comm;
    float *gradients; /* Gradients of all layers */
    cudaStream_t compute, reduce;
    cudaEvent_t made, reduced;
};

static int nranks;
static struct rank ranks[RANKS_MAX];

static void run_layer(int layer) {
    for (int r = 0; r < nranks; r++) {
        MUST_CUDA(cudaSetDevice(ranks[r].gpu));
        backward<<<64, 256, 0, ranks[r].compute>>>(ranks[r].gradients + layer * layer_elems, layer_elems,
                                                   (float)(r + 1));
    }
}

/* Reduces the gradients of some layers, after they were computed. */
static void reduce_layers(int first, int count) {
    must(collet_group_start());
    for (int r = 0; r < nranks; r++) {
        struct rank *rank = &ranks[r];
        float *bucket = rank->gradients + first * layer_elems;
        MUST_CUDA(cudaSetDevice(rank->gpu));
        MUST_CUDA(cudaEventRecord(rank->made, rank->compute));
        MUST_CUDA(cudaStreamWaitEvent(rank->reduce, rank->made, 0));
        must(collet_allreduce(bucket, bucket, count * layer_elems, COLLET_FLOAT32, COLLET_AVG, rank->comm,
                              rank->reduce));
    }
    must(collet_group_end());
}

static void run_step(bool overlapped) {
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        run_layer(layer);
        if (overlapped && layer % LAYERS_A_BUCKET == 0)
            reduce_layers(layer, LAYERS_A_BUCKET);
    }
    if (!overlapped)
        reduce_layers(0, LAYERS);
    for (int r = 0; r < nranks; r++) { /* The next step's layers overwrite these gradients */
        MUST_CUDA(cudaSetDevice(ranks[r].gpu));
        MUST_CUDA(cudaEventRecord(ranks[r].reduced, ranks[r].reduce));
        MUST_CUDA(cudaStreamWaitEvent(ranks[r].compute, ranks[r].reduced, 0));
    }
}

static void finish(void) {
    for (int r = 0; r < nranks; r++) {
        MUST_CUDA(cudaStreamSynchronize(ranks[r].compute));
        MUST_CUDA(cudaStreamSynchronize(ranks[r].reduce));
    }
}

static float time_steps(bool overlapped) {
    cudaEvent_t begin, end;
    float ms = 0;
    MUST_CUDA(cudaSetDevice(ranks[0].gpu));
    MUST_CUDA(cudaEventCreate(&begin));
    MUST_CUDA(cudaEventCreate(&end));
    for (int step = 0; step < steps / 7 + 1; step++)
        run_step(overlapped);
    finish();
    MUST_CUDA(cudaSetDevice(ranks[0].gpu));
    MUST_CUDA(cudaEventRecord(begin, ranks[0].compute));
    for (int step = 0; step < steps; step++)
        run_step(overlapped);
    MUST_CUDA(cudaSetDevice(ranks[0].gpu));
    MUST_CUDA(cudaEventRecord(end, ranks[0].compute));
    finish();
    MUST_CUDA(cudaEventElapsedTime(&ms, begin, end));
    MUST_CUDA(cudaEventDestroy(begin));
    MUST_CUDA(cudaEventDestroy(end));
    return ms / (float)steps;
}

static bool gradients_are_averages(void) {
    float expected = (float)(nranks + 1) / 2, got;
    for (int r = 0; r < nranks; r++)
        for (size_t i = 0; i < LAYERS * layer_elems; i += layer_elems / 2 + 1) {
            MUST_CUDA(cudaMemcpy(&got, ranks[r].gradients + i, sizeof(got), cudaMemcpyDefault));
            if (got < expected * 0.999f || got > expected * 1.001f) {
                fprintf(stderr, "rank %d, gradient %zu is %g, should be %g\n", r, i, got, expected);
                return false;
            }
        }
    return true;
}

int main(int argc, char **argv) {
    int gpus = 0, devices[RANKS_MAX];
    struct collet_comm *comms[RANKS_MAX];
    nranks = argc > 1 ? atoi(argv[1]) : 2;
    layer_elems = argc > 2 ? strtoull(argv[2], NULL, 10) : layer_elems;
    steps = argc > 3 ? atoi(argv[3]) : steps;
    if (nranks < 1 || nranks > RANKS_MAX || layer_elems < 1 || steps < 1) {
        fprintf(stderr, "usage: overlap [ranks [elements [steps]]], 1 to %d ranks\n", RANKS_MAX);
        return 2;
    }
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    for (int r = 0; r < nranks; r++)
        devices[r] = COLLET_DEVICE_CUDA(r % gpus);
    must(collet_comm_init_all(comms, nranks, devices));
    for (int r = 0; r < nranks; r++) {
        struct rank *rank = &ranks[r];
        rank->gpu = r % gpus;
        rank->comm = comms[r];
        MUST_CUDA(cudaSetDevice(rank->gpu));
        MUST_CUDA(cudaMalloc(&rank->gradients, LAYERS * layer_elems * sizeof(float)));
        MUST_CUDA(cudaStreamCreateWithFlags(&rank->compute, cudaStreamNonBlocking));
        MUST_CUDA(cudaStreamCreateWithFlags(&rank->reduce, cudaStreamNonBlocking));
        MUST_CUDA(cudaEventCreateWithFlags(&rank->made, cudaEventDisableTiming));
        MUST_CUDA(cudaEventCreateWithFlags(&rank->reduced, cudaEventDisableTiming));
    }
    float apart = time_steps(false), together = time_steps(true);
    printf("%d ranks on %d GPU(s), %d layers of %zu KiB, buckets of %d\n", nranks, gpus < nranks ? gpus : nranks,
           LAYERS, layer_elems * sizeof(float) >> 10, LAYERS_A_BUCKET);
    printf("a step with the reduction behind the backward pass  %8.3f ms\n", apart);
    printf("a step with both at once                            %8.3f ms\n", together);
    printf("saved                                               %8.1f %%\n", 100 * (1 - together / apart));
    bool right = gradients_are_averages();
    for (int r = 0; r < nranks; r++)
        must(collet_comm_destroy(ranks[r].comm));
    return !right;
}
