/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills regions and checks them: an element a thread, with what accept_expect.h says of it.
 */
#include "gpu/accept_expect.h"
#include "gpu/accept_kernels.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 256
#define MOST_BLOCKS 1056 /* some for each multiprocessor of the largest GPUs */

#define MUST(call) must((call), #call)

static void must(cudaError_t error, const char *what) {
    if (error == cudaSuccess)
        return;
    printf("%s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

static __global__ void fill_region(const __grid_constant__ struct expect_region region) {
    const uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t elem = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; elem < region.elems; elem += stride)
        expect_store(&region, elem, expect_before(&region, elem));
}

static __global__ void check_region(const __grid_constant__ struct expect_region region, int *wrong) {
    const uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t elem = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; elem < region.elems; elem += stride)
        if (!expect_is_right(&region, elem, expect_load(&region, elem)))
            *wrong = 1;
}

static __global__ void do_nothing() {}

/* The least that an allreduce of ranks on one GPU can do: every input is read once, every output written once. */
static __global__ void sum_all(const __grid_constant__ struct fused_buffers b) {
    const size_t vectors = b.count / 4, stride = (size_t)gridDim.x * blockDim.x;
    const size_t first = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (size_t k = first; k < vectors; k += stride) {
        float4 sum = ((const float4 *)b.in[0])[k];
        for (int rank = 1; rank < b.nranks; rank++) {
            const float4 next = ((const float4 *)b.in[rank])[k];
            sum.x += next.x, sum.y += next.y, sum.z += next.z, sum.w += next.w;
        }
        for (int rank = 0; rank < b.nranks; rank++)
            ((float4 *)b.out[rank])[k] = sum;
    }
    for (size_t k = 4 * vectors + first; k < b.count; k += stride) {
        float sum = b.in[0][k];
        for (int rank = 1; rank < b.nranks; rank++)
            sum += b.in[rank][k];
        for (int rank = 0; rank < b.nranks; rank++)
            b.out[rank][k] = sum;
    }
}

static unsigned blocks_for(uint64_t threads) {
    const uint64_t blocks = (threads + THREADS - 1) / THREADS;
    return (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

static void load() {
    cudaFuncAttributes attributes;
    MUST(cudaFuncGetAttributes(&attributes, (const void *)fill_region));
    MUST(cudaFuncGetAttributes(&attributes, (const void *)check_region));
    MUST(cudaFuncGetAttributes(&attributes, (const void *)do_nothing));
    MUST(cudaFuncGetAttributes(&attributes, (const void *)sum_all));
}

static void fill(const struct expect_region *region, void *stream) {
    fill_region<<<blocks_for(region->elems), THREADS, 0, (cudaStream_t)stream>>>(*region);
    MUST(cudaGetLastError());
}

static void check(const struct expect_region *region, int *wrong, void *stream) {
    check_region<<<blocks_for(region->elems), THREADS, 0, (cudaStream_t)stream>>>(*region, wrong);
    MUST(cudaGetLastError());
}

static void empty(void *stream) {
    do_nothing<<<1, 32, 0, (cudaStream_t)stream>>>();
    MUST(cudaGetLastError());
}

static void copy(void *to, const void *from, size_t bytes, void *stream) {
    MUST(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, (cudaStream_t)stream));
}

static void fused(const struct fused_buffers *buffers, void *stream) {
    sum_all<<<blocks_for(buffers->count / 4 + 1), THREADS, 0, (cudaStream_t)stream>>>(*buffers);
    MUST(cudaGetLastError());
}

extern "C" const struct accept_kernels accept_kernels_cuda = {load, fill, check, empty, copy, fused};
