/* SPDX-License-Identifier: Apache-2.0 */
#include "common/gpu_side.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MUST(call) must((call), #call)

static void must(cudaError_t error, const char *what) {
    if (error == cudaSuccess)
        return;
    printf("%s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

static int count(char *name, size_t room) {
    struct cudaDeviceProp properties;
    int n = 0, driver = 0;
    cudaError_t error = cudaGetDeviceCount(&n);
    MUST(cudaDriverGetVersion(&driver)); /* 0: there is none */
    if (driver == 0 || error == cudaErrorNoDevice || (error == cudaSuccess && n == 0))
        return 0;
    snprintf(name, room, "%s; the driver is for CUDA %d.%d, this build of CUDA %d.%d", cudaGetErrorString(error),
             driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    if (error != cudaSuccess)
        return -1;
    MUST(cudaGetDeviceProperties(&properties, 0));
    snprintf(name, room, "%s, driver for CUDA %d.%d", properties.name, driver / 1000, driver % 1000 / 10);
    return n;
}

static void use(int gpu) { MUST(cudaSetDevice(gpu)); }

static int current(void) {
    int gpu;
    MUST(cudaGetDevice(&gpu));
    return gpu;
}

static int multiprocessors(void) {
    int n;
    MUST(cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, current()));
    return n;
}

static void *memory(size_t bytes, enum gpu_side_memory kind) {
    void *got = NULL;
    if (kind == MEMORY_PLAIN)
        MUST(cudaMalloc(&got, bytes));
    else if (kind == MEMORY_POOL)
        MUST(cudaMallocAsync(&got, bytes, NULL));
    else if (kind == MEMORY_MANAGED)
        MUST(cudaMallocManaged(&got, bytes, cudaMemAttachGlobal));
    else
        MUST(cudaHostAlloc(&got, bytes, cudaHostAllocDefault));
    MUST(cudaDeviceSynchronize());
    return got;
}

static void memory_free(void *memory, enum gpu_side_memory kind) {
    if (kind == MEMORY_PINNED)
        MUST(cudaFreeHost(memory));
    else
        MUST(cudaFree(memory));
}

/* From pageable memory it may land behind cudaMemcpy()'s return, and calls are in streams that do not wait for it. */
static void copy(void *to, const void *from, size_t bytes) {
    MUST(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
    MUST(cudaStreamSynchronize(cudaStreamLegacy));
}

static void *stream(void) {
    cudaStream_t made;
    MUST(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    return made;
}

static void stream_free(void *stream) { MUST(cudaStreamDestroy(stream)); }
static void stream_wait(void *stream) { MUST(cudaStreamSynchronize(stream)); }

static bool stream_wait_for(void *stream, int ms) {
    for (int waited = 0; waited < ms; waited++) {
        cudaError_t state = cudaStreamQuery(stream);
        if (state != cudaErrorNotReady) {
            must(state, "cudaStreamQuery");
            return true;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return cudaStreamQuery(stream) == cudaSuccess;
}

static void capture_begin(void *stream) { MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal)); }

static void *capture_end(void *stream) {
    cudaGraph_t graph;
    MUST(cudaStreamEndCapture(stream, &graph));
    return graph;
}

static void *graph_make(void *captured) {
    cudaGraphExec_t made;
    MUST(cudaGraphInstantiateWithFlags(&made, captured, 0));
    MUST(cudaGraphDestroy(captured));
    return made;
}

static void graph_run(void *graph, void *stream) { MUST(cudaGraphLaunch(graph, stream)); }
static void graph_free(void *graph) { MUST(cudaGraphExecDestroy(graph)); }

const struct gpu_side gpu_side_cuda = {
    .count = count,
    .use = use,
    .current = current,
    .multiprocessors = multiprocessors,
    .memory = memory,
    .memory_free = memory_free,
    .copy = copy,
    .stream = stream,
    .stream_free = stream_free,
    .stream_wait = stream_wait,
    .stream_wait_for = stream_wait_for,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .graph_make = graph_make,
    .graph_run = graph_run,
    .graph_free = graph_free,
};
