/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies. How long does a call wait?
 *
 *    cudaMemcpy        from pageable memory to a GPU's    until the default stream is empty, and the bytes lie in a buffer of the
 *                                                         runtime. All but the last 64 KB are there then. The rest comes late
 *                      between memory of GPUs             not at all
 *                      else                               until it is done
 *    cudaMemcpyAsync   to pageable memory                 until it is done
 *                      from it                            perhaps until the stream is empty: the seed decides
 *
 *    GPUSIM_LATE_US=200   how late the rest may come, in microseconds; 0: it is there when the call returns
 *
 * What comes late keeps the default stream waiting, and the streams that wait for this one. Others may overtake it.
 */
#include "gpusim/sim.h"

#include <stdlib.h>
#include <string.h>

#define STAGE_BYTES ((size_t)64 << 10)
#define LATE_US 200

/* The runtime knows nothing of this memory: it is the host's, and no copy engine can reach it later. */
static bool is_pageable(const void *memory) { return sim_range_at(memory) == NULL; }

static bool is_of_gpu(const void *memory) {
    const enum cudaMemoryType type = sim_type_of(sim_range_at(memory));
    return type == cudaMemoryTypeDevice || type == cudaMemoryTypeManaged;
}

static cudaError_t wait_for_all(struct sim_stream *stream) { return sim_wait_for(sim_mark_of(stream), stream->device); }

static bool stage(struct sim_op *op) {
    op->staged = malloc(op->bytes + 1);
    if (op->staged != NULL)
        memcpy(op->staged, op->from, op->bytes);
    return op->staged != NULL;
}

static cudaError_t copy_put(struct sim_stream *stream, void *to, const void *from, size_t bytes, uint64_t late_ns) {
    struct sim_op op = {.kind = OP_COPY, .to = to, .from = (char *)from, .bytes = bytes};
    if (is_pageable(from) && !stage(&op))
        return cudaErrorMemoryAllocation;
    op.begins_ns = late_ns == 0 ? 0 : sim_now_ns() + late_ns;
    return sim_put(stream, &op);
}

/* ---- asynchronous ones ---- */

static cudaError_t copy_async(struct sim_stream *stream, void *to, const void *from, size_t bytes) {
    if (stream == NULL)
        return cudaErrorInvalidResourceHandle;
    if (stream->capture != NULL && (is_pageable(to) || is_pageable(from)))
        return sim_capture_spoil(stream, cudaErrorStreamCaptureUnsupported);
    cudaError_t error = is_pageable(from) && sim_chance(2) ? wait_for_all(stream) : cudaSuccess;
    if (error == cudaSuccess)
        error = copy_put(stream, to, from, bytes, 0);
    return error == cudaSuccess && is_pageable(to) ? wait_for_all(stream) : error;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
    SIM_CALL(SIM_SAFE);
    (void)kind;
    return sim_result(bytes == 0 ? cudaSuccess : copy_async(sim_stream_of(stream), to, from, bytes));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_ordinal, const void *from, int from_ordinal, size_t bytes,
                                cudaStream_t stream) {
    (void)to_ordinal, (void)from_ordinal;
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}

/* ---- synchronous ones ---- */

static cudaError_t copy_now(struct sim_stream *stream, char *to, const char *from, size_t bytes) {
    cudaError_t error = copy_put(stream, to, from, bytes, 0);
    return error == cudaSuccess ? wait_for_all(stream) : error;
}

static cudaError_t copy_late(struct sim_stream *stream, char *to, const char *from, size_t bytes) {
    size_t last = bytes <= STAGE_BYTES ? bytes : (bytes - 1) % STAGE_BYTES + 1, first = bytes - last;
    uint64_t most_us = sim_number("GPUSIM_LATE_US", LATE_US);
    if (most_us == 0)
        return copy_now(stream, to, from, bytes);
    cudaError_t error = first > 0 ? copy_now(stream, to, from, first) : wait_for_all(stream);
    uint64_t late_us = sim_chance(most_us + 1);
    return error == cudaSuccess ? copy_put(stream, to + first, from + first, last, late_us * 1000) : error;
}

static cudaError_t copy_sync(struct sim_stream *stream, void *to, const void *from, size_t bytes) {
    if (is_pageable(from) && is_of_gpu(to))
        return copy_late(stream, to, from, bytes);
    return is_of_gpu(to) && is_of_gpu(from) ? copy_put(stream, to, from, bytes, 0) : copy_now(stream, to, from, bytes);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    SIM_CALL(SIM_UNSAFE);
    (void)kind;
    return sim_result(bytes == 0 ? cudaSuccess : copy_sync(sim_stream_of(cudaStreamLegacy), to, from, bytes));
}

/* ---- bytes of one value ---- */

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream_) {
    SIM_CALL(SIM_SAFE);
    struct sim_stream *stream = sim_stream_of(stream_);
    struct sim_op op = {.kind = OP_SET, .to = memory, .value = value, .bytes = bytes};
    if (stream == NULL)
        return sim_result(cudaErrorInvalidResourceHandle);
    if (bytes > 0 && is_pageable(memory))
        return sim_result(cudaErrorInvalidValue);
    return sim_result(bytes == 0 ? cudaSuccess : sim_put(stream, &op));
}

/* Asynchronous to the host, in the default stream. */
cudaError_t cudaMemset(void *memory, int value, size_t bytes) {
    return cudaMemsetAsync(memory, value, bytes, cudaStreamLegacy);
}
