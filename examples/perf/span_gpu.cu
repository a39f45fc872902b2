/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans in GPU memory: a kernel fills a span or checks it. A lane takes one element in each round of all lanes, so that a warp reads
 * and writes neighbours. Each lane counts its wrong elements, and adds its count to the common count once.
 */
#include "span.h"

#include <cuda_runtime.h>

enum { LANES = 256, BLOCKS_MAX = 1024 };

__device__ static uint64_t lane_first() { return blockIdx.x * (uint64_t)LANES + threadIdx.x; }
__device__ static uint64_t lane_stride() { return gridDim.x * (uint64_t)LANES; }

__global__ void __launch_bounds__(LANES) perf_fill(void *memory, struct perf_pattern pattern, struct perf_span span) {
    for (uint64_t i = lane_first(); i < span.count; i += lane_stride())
        span_store(memory, span.first + i, pattern.bytes, span_expected(&pattern, &span, i));
}

__global__ void __launch_bounds__(LANES)
    perf_check(const void *memory, struct perf_pattern pattern, struct perf_span span, struct perf_wrong *wrong) {
    unsigned long long count = 0;
    uint64_t place = 0;
    for (uint64_t i = lane_first(); i < span.count; i += lane_stride()) {
        uint64_t got = span_load(memory, span.first + i, pattern.bytes);
        if (pattern_accepts(&pattern, got, span_expected(&pattern, &span, i)))
            continue;
        place = count++ == 0 ? span.first + i : place;
    }
    if (count == 0)
        return;
    atomicAdd((unsigned long long *)&wrong->count, count);
    uint32_t noted = atomicAdd(&wrong->nplaces, 1);
    if (noted < SPAN_PLACES)
        wrong->places[noted] = place;
}

static unsigned blocks_for(uint64_t count) {
    uint64_t blocks = (count + LANES - 1) / LANES;
    return (unsigned)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX);
}

int span_gpu_load(void) {
    struct cudaFuncAttributes attributes;
    cudaError_t error = cudaFuncGetAttributes(&attributes, (const void *)perf_fill);
    return error != cudaSuccess ? error : cudaFuncGetAttributes(&attributes, (const void *)perf_check);
}

int span_gpu_fill(void *memory, const struct perf_pattern *pattern, const struct perf_span *span, void *stream) {
    if (span->count == 0)
        return cudaSuccess;
    perf_fill<<<blocks_for(span->count), LANES, 0, (cudaStream_t)stream>>>(memory, *pattern, *span);
    return cudaGetLastError();
}

int span_gpu_check(const void *memory, const struct perf_pattern *pattern, const struct perf_span *span,
                   struct perf_wrong *wrong, void *stream) {
    if (span->count == 0)
        return cudaSuccess;
    perf_check<<<blocks_for(span->count), LANES, 0, (cudaStream_t)stream>>>(memory, *pattern, *span, wrong);
    return cudaGetLastError();
}
