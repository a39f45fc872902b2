/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory and streams of GPUs, for measuring. Not run on a GPU yet.
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

static void use(int gpu) { must_cuda(cudaSetDevice(gpu), "cudaSetDevice"); }

static void *allocate(size_t bytes) {
    void *memory;
    must_cuda(cudaMalloc(&memory, bytes), "cudaMalloc: choose a smaller -e or fewer ranks");
    return memory;
}

static void release(void *memory) { must_cuda(cudaFree(memory), "cudaFree"); }

static void copy(void *to, const void *from, size_t bytes) {
    must_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
}

static void *stream(void) {
    cudaStream_t made;
    must_cuda(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return made;
}

static void wait(void *stream) { must_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); }

extern const struct perf_device perf_device_cuda;
const struct perf_device perf_device_cuda = {count, use, allocate, release, copy, stream, wait};
