/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory and streams of GPUs, for measuring.
 */
#include "perf.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

static void must_cuda(cudaError_t error, const char *what) {
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    _exit(PERF_FAILED);
}

static int count(void) {
    int n = 0, driver = 0;
    cudaError_t error = cudaGetDeviceCount(&n);
    if (error != cudaSuccess && error != cudaErrorNoDevice && cudaDriverGetVersion(&driver) == cudaSuccess &&
        driver > 0)
        fprintf(stderr, "GPUs are left out: %s; the driver is for CUDA %d.%d\n", cudaGetErrorString(error),
                driver / 1000, driver % 1000 / 10);
    return error == cudaSuccess ? n : 0;
}

static void print_uuid(const unsigned char bytes[16], char *text, size_t room) {
    size_t used = (size_t)snprintf(text, room, "GPU");
    for (int i = 0; i < 16; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%02x",
                                 i == 0 || (i >= 4 && i <= 10 && i % 2 == 0) ? "-" : "", bytes[i]);
}

static void describe(int gpu, struct perf_gpu *out) {
    struct cudaDeviceProp properties;
    must_cuda(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
    out->ordinal = gpu;
    out->memory_bytes = properties.totalGlobalMem;
    snprintf(out->name, sizeof(out->name), "%.95s", properties.name);
    snprintf(out->bus, sizeof(out->bus), "%04x:%02x:%02x", properties.pciDomainID, properties.pciBusID,
             properties.pciDeviceID);
    print_uuid((const unsigned char *)properties.uuid.bytes, out->uuid, sizeof(out->uuid));
}

static void use(int gpu) { must_cuda(cudaSetDevice(gpu), "cudaSetDevice"); }

static void *allocate(size_t bytes) {
    void *memory;
    must_cuda(cudaMalloc(&memory, bytes), "cudaMalloc: choose a smaller -e or fewer ranks");
    return memory;
}

static void release(void *memory) { must_cuda(cudaFree(memory), "cudaFree"); }

static void *stream(void) {
    cudaStream_t made;
    must_cuda((cudaError_t)span_gpu_load(), "cudaFuncGetAttributes");
    must_cuda(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return made;
}

static void wait(void *stream) { must_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); }

/* Not cudaMemcpy(): it waits only for the default stream, and may return before the data has arrived. */
static void read_ordered(void *to, const void *from, size_t bytes, void *stream) {
    must_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    wait(stream);
}

static void clear(void *memory, size_t bytes, void *stream) {
    must_cuda(cudaMemsetAsync(memory, 0, bytes, stream), "cudaMemsetAsync");
}

static void fill(void *memory, const struct perf_pattern *pattern, const struct perf_span *span, void *stream) {
    must_cuda((cudaError_t)span_gpu_fill(memory, pattern, span, stream), "a kernel that fills");
}

static void check(const void *memory, const struct perf_pattern *pattern, const struct perf_span *span,
                  struct perf_wrong *wrong, void *stream) {
    must_cuda((cudaError_t)span_gpu_check(memory, pattern, span, wrong, stream), "a kernel that checks");
}

static void begin(void *stream) {
    must_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}

static void order(void *first, void *then) {
    cudaEvent_t event;
    must_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    must_cuda(cudaEventRecord(event, first), "cudaEventRecord");
    must_cuda(cudaStreamWaitEvent(then, event, 0), "cudaStreamWaitEvent");
    must_cuda(cudaEventDestroy(event), "cudaEventDestroy");
}

static void *end(void *stream) {
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    must_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    must_cuda(cudaGraphInstantiateWithFlags(&ready, graph, 0), "cudaGraphInstantiateWithFlags");
    must_cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
    return ready;
}

static void launch(void *graph, void *stream) { must_cuda(cudaGraphLaunch(graph, stream), "cudaGraphLaunch"); }

static void release_graph(void *graph) { must_cuda(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy"); }

static const struct perf_graphs graphs = {begin, order, end, launch, release_graph};

extern const struct perf_device perf_device_cuda;
const struct perf_device perf_device_cuda = {count, describe,     use,   allocate, release, stream,
                                             wait,  read_ordered, clear, fill,     check,   &graphs};
