/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and events: queues of operations, and places in them.
 *
 *    stream    │ op 1 │ op 2 │ record │ op 4 │ …        done: how many are over      an event: (stream, 3)
 *
 * An operation may begin when the one before it in its stream is over and the places that it waits for are reached. The default
 * stream of a device waits for all others there but those that were made not to wait, and these others wait for it.
 *
 * Streams are never freed: events and operations refer to places in them. Handles are: the next stream gets the one that was
 * given back last.
 */
#include "gpusim/sim.h"

#include <stdlib.h>
#include <string.h>

#define HANDLES_MAX 1024
#define PENDING_MAX 1024 /* launches of a device */

struct sim_stream *sim_streams;
static struct sim_stream *handles[HANDLES_MAX];
static _Thread_local struct sim_stream *of_thread[SIM_GPUS_MAX];

/* ---- streams ---- */

struct sim_stream *sim_stream_create(struct sim_device *device, bool waits_for_none) {
    static unsigned long long ids;
    struct sim_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        abort();
    stream->id = ++ids;
    stream->device = device;
    stream->waits_for_none = waits_for_none;
    stream->end = &stream->first;
    stream->next = sim_streams;
    sim_streams = stream;
    return stream;
}

static struct sim_stream *made_once(struct sim_stream **place, struct sim_device *device) {
    if (*place == NULL || (*place)->is_gone)
        *place = sim_stream_create(device, false);
    return *place;
}

static struct sim_stream **slot_of(cudaStream_t handle) {
    struct sim_stream **slot = (struct sim_stream **)(void *)handle;
    return slot >= handles && slot < handles + HANDLES_MAX && *slot != NULL ? slot : NULL;
}

struct sim_stream *sim_stream_of(cudaStream_t handle) {
    if (handle == NULL || handle == cudaStreamLegacy)
        return made_once(&sim_device_here()->legacy, sim_device_here());
    if (handle == cudaStreamPerThread)
        return made_once(&of_thread[sim_device_here()->ordinal], sim_device_here());
    struct sim_stream **slot = slot_of(handle);
    return slot == NULL ? NULL : *slot;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *handle, unsigned flags) {
    SIM_CALL(SIM_UNSAFE);
    int k = 0;
    while (k < HANDLES_MAX && handles[k] != NULL)
        k++;
    if (k == HANDLES_MAX || flags > cudaStreamNonBlocking)
        return sim_result(cudaErrorInvalidValue);
    handles[k] = sim_stream_create(sim_device_here(), flags == cudaStreamNonBlocking);
    *handle = (cudaStream_t)(void *)&handles[k];
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *handle) { return cudaStreamCreateWithFlags(handle, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *handle, unsigned flags, int priority) {
    (void)priority;
    return cudaStreamCreateWithFlags(handle, flags);
}

/* Its work goes on, and so does a capture that it is in. */
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
    SIM_CALL(SIM_UNSAFE);
    struct sim_stream **slot = slot_of(handle);
    if (slot == NULL)
        return sim_result(cudaErrorInvalidResourceHandle);
    *slot = NULL;
    return cudaSuccess;
}

/* Nobody may ask for more than whether a stream is in a capture, while it is in one. */
static cudaError_t may_be_asked(struct sim_stream *stream) {
    if (stream == NULL)
        return cudaErrorInvalidResourceHandle;
    if (stream->capture != NULL)
        return sim_capture_spoil(stream, cudaErrorStreamCaptureUnsupported);
    return sim_capture_permits_legacy(stream) ? cudaSuccess : cudaErrorStreamCaptureImplicit;
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long *id) {
    SIM_CALL(SIM_SAFE);
    struct sim_stream *stream = sim_stream_of(handle);
    cudaError_t error = may_be_asked(stream);
    if (error == cudaSuccess)
        *id = stream->id;
    return sim_result(error);
}

CUresult sim_cuStreamGetId(CUstream handle, unsigned long long *id) { return (CUresult)cudaStreamGetId(handle, id); }

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int *ordinal) {
    SIM_CALL(SIM_SAFE);
    const struct sim_stream *stream = sim_stream_of(handle);
    if (stream == NULL)
        return sim_result(cudaErrorInvalidResourceHandle);
    *ordinal = stream->device->ordinal;
    return cudaSuccess;
}

/* ---- putting operations into them ---- */

struct sim_mark sim_mark_of(const struct sim_stream *stream) {
    return (struct sim_mark){(struct sim_stream *)stream, stream->put};
}

bool sim_is_reached(struct sim_mark mark) { return mark.stream == NULL || mark.stream->done >= mark.position; }

static void add_wait(struct sim_op *op, struct sim_mark mark) {
    if (sim_is_reached(mark))
        return;
    op->waits = realloc(op->waits, (size_t)(op->nwaits + 1) * sizeof(*op->waits));
    if (op->waits == NULL)
        abort();
    op->waits[op->nwaits++] = mark;
}

static void wait_by_default(struct sim_op *op, const struct sim_stream *stream) {
    if (stream != stream->device->legacy) {
        if (!stream->waits_for_none && stream->device->legacy != NULL)
            add_wait(op, sim_mark_of(stream->device->legacy));
        return;
    }
    for (const struct sim_stream *other = sim_streams; other != NULL; other = other->next)
        if (other != stream && other->device == stream->device && !other->waits_for_none)
            add_wait(op, sim_mark_of(other));
}

void sim_put_behind(struct sim_stream *stream, const struct sim_op *text, const struct sim_mark *marks, int n) {
    static uint64_t numbers;
    struct sim_op *op = malloc(sizeof(*op));
    if (op == NULL)
        abort();
    *op = *text;
    op->next = NULL;
    op->number = ++numbers;
    op->nwaits = 0;
    op->waits = NULL;
    for (int k = 0; k < n; k++)
        add_wait(op, marks[k]);
    wait_by_default(op, stream);
    stream->device->pending += op->kind == OP_KERNEL;
    *stream->end = op;
    stream->end = &op->next;
    stream->put++;
    if (op->kind == OP_RECORD)
        op->event->mark = sim_mark_of(stream);
    sim_engine_start();
    sim_changed();
}

cudaError_t sim_put(struct sim_stream *stream, const struct sim_op *text) {
    if (stream->capture != NULL)
        return sim_capture_put(stream, text);
    if (!sim_capture_permits_legacy(stream))
        return cudaErrorStreamCaptureImplicit;
    while (text->kind == OP_KERNEL && stream->device->pending >= sim_number("GPUSIM_PENDING", PENDING_MAX))
        sim_wait_blocking();
    sim_put_behind(stream, text, NULL, 0);
    return stream->device->failed;
}

void sim_op_ended(struct sim_stream *stream) {
    struct sim_op *op = stream->first;
    stream->first = op->next;
    if (stream->first == NULL)
        stream->end = &stream->first;
    stream->done++;
    stream->device->pending -= op->kind == OP_KERNEL;
    if (op->kind == OP_RECORD)
        op->event->reached_ns = sim_now_ns();
    free(op->launch);
    free(op->staged);
    free(op->words);
    free(op->waits);
    free(op);
    sim_changed();
}

/* ---- waiting for them ---- */

cudaError_t sim_wait_for(struct sim_mark mark, const struct sim_device *device) {
    while (!sim_is_reached(mark))
        sim_wait();
    return device->failed;
}

static bool is_idle(const struct sim_device *device) {
    for (const struct sim_stream *stream = sim_streams; stream != NULL; stream = stream->next)
        if ((device == NULL || stream->device == device) && stream->first != NULL)
            return false;
    return true;
}

void sim_wait_for_kernels(const struct sim_device *device) {
    while (!is_idle(device))
        sim_wait_blocking();
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    SIM_CALL(SIM_SAFE);
    struct sim_stream *stream = sim_stream_of(handle);
    cudaError_t error = may_be_asked(stream);
    return sim_result(error != cudaSuccess ? error : sim_wait_for(sim_mark_of(stream), stream->device));
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
    SIM_CALL(SIM_UNSAFE);
    struct sim_stream *stream = sim_stream_of(handle);
    cudaError_t error = may_be_asked(stream);
    if (error != cudaSuccess)
        return sim_result(error);
    if (stream->device->failed != cudaSuccess)
        return sim_result(stream->device->failed);
    return sim_result(sim_is_reached(sim_mark_of(stream)) ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaDeviceSynchronize(void) {
    SIM_CALL(SIM_UNSAFE);
    const struct sim_device *device = sim_device_here();
    if (!sim_captures_permit_waiting(device))
        return sim_result(cudaErrorStreamCaptureUnsupported);
    for (const struct sim_stream *stream = sim_streams; stream != NULL; stream = stream->next)
        if (stream->device == device)
            sim_wait_for(sim_mark_of(stream), device);
    return sim_result(device->failed);
}

/* ---- events ---- */

static struct sim_event *events;

/* NULL: a program may not name it. Real CUDA need not notice that an event has been destroyed. */
static struct sim_event *event_of(cudaEvent_t handle) {
    struct sim_event *event = (struct sim_event *)(void *)handle;
    return event == NULL || event->is_destroyed ? NULL : event;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *handle, unsigned flags) {
    SIM_CALL(SIM_SAFE);
    struct sim_event *event = calloc(1, sizeof(*event));
    if (event == NULL)
        return sim_result(cudaErrorMemoryAllocation);
    event->device = sim_device_here();
    event->keeps_time = (flags & cudaEventDisableTiming) == 0;
    event->next = events;
    events = event;
    *handle = (cudaEvent_t)(void *)event;
    return cudaSuccess;
}

void sim_streams_end(struct sim_device *device) {
    for (struct sim_stream *stream = sim_streams; stream != NULL; stream = stream->next) {
        if (stream->device == device && stream->capture != NULL)
            sim_capture_spoil(stream, cudaErrorStreamCaptureInvalidated);
        stream->is_gone |= stream->device == device;
    }
    for (int k = 0; k < HANDLES_MAX; k++)
        if (handles[k] != NULL && handles[k]->is_gone)
            handles[k] = NULL;
    for (struct sim_event *event = events; event != NULL; event = event->next)
        event->is_destroyed |= event->device == device;
}

cudaError_t cudaEventCreate(cudaEvent_t *handle) { return cudaEventCreateWithFlags(handle, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
    SIM_CALL(SIM_SAFE);
    struct sim_event *event = event_of(handle);
    if (event == NULL)
        return sim_result(cudaErrorInvalidResourceHandle);
    event->is_destroyed = true;
    return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream_, unsigned flags) {
    SIM_CALL(SIM_SAFE);
    struct sim_stream *stream = sim_stream_of(stream_);
    struct sim_event *event = event_of(handle);
    if (stream == NULL || event == NULL || event->device != stream->device)
        return sim_result(cudaErrorInvalidResourceHandle);
    if (stream->capture != NULL && flags != cudaEventRecordExternal)
        return sim_result(sim_capture_record(stream, event));
    if (stream->capture == NULL && flags == cudaEventRecordExternal)
        return sim_result(cudaErrorIllegalState);
    if (stream->capture == NULL)
        event->capture = NULL;
    return sim_result(sim_put(stream, &(struct sim_op){.kind = OP_RECORD, .event = event}));
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
    return cudaEventRecordWithFlags(handle, stream, cudaEventRecordDefault);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_, cudaEvent_t handle, unsigned flags) {
    SIM_CALL(SIM_SAFE);
    struct sim_stream *stream = sim_stream_of(stream_);
    struct sim_event *event = event_of(handle);
    if (stream == NULL || event == NULL)
        return sim_result(cudaErrorInvalidResourceHandle);
    if (flags == cudaEventWaitExternal)
        return sim_result(stream->capture == NULL ? cudaErrorIllegalState
                                                  : sim_put(stream, &(struct sim_op){.kind = OP_WAIT, .event = event}));
    if (event->capture != NULL)
        return sim_result(sim_capture_wait(stream, event));
    if (stream->capture != NULL)
        return sim_result(sim_capture_spoil(stream, cudaErrorStreamCaptureIsolation));
    if (!sim_capture_permits_legacy(stream))
        return sim_result(cudaErrorStreamCaptureImplicit);
    sim_put_behind(stream, &(struct sim_op){.kind = OP_WAIT}, &event->mark, 1);
    return sim_result(stream->device->failed);
}

/* Of what is in a capture nobody may ask how far it is. */
static cudaError_t event_may_be_asked(const struct sim_event *event) {
    if (event == NULL)
        return cudaErrorInvalidResourceHandle;
    if (event->capture != NULL)
        sim_capture_of_event_spoil(event);
    return event->capture == NULL ? cudaSuccess : cudaErrorCapturedEvent;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
    SIM_CALL(SIM_UNSAFE);
    const struct sim_event *event = event_of(handle);
    cudaError_t error = event_may_be_asked(event);
    if (error != cudaSuccess)
        return sim_result(error);
    if (event->mark.stream != NULL && event->mark.stream->device->failed != cudaSuccess)
        return sim_result(event->mark.stream->device->failed);
    return sim_result(sim_is_reached(event->mark) ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
    SIM_CALL(SIM_UNSAFE);
    const struct sim_event *event = event_of(handle);
    cudaError_t error = event_may_be_asked(event);
    if (error != cudaSuccess)
        return sim_result(error);
    return event->mark.stream == NULL ? cudaSuccess : sim_result(sim_wait_for(event->mark, event->mark.stream->device));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start_, cudaEvent_t end_) {
    SIM_CALL(SIM_SAFE);
    const struct sim_event *start = event_of(start_), *end = event_of(end_);
    if (start == NULL || end == NULL || !start->keeps_time || !end->keeps_time || start->mark.stream == NULL ||
        end->mark.stream == NULL)
        return sim_result(cudaErrorInvalidResourceHandle);
    if (!sim_is_reached(start->mark) || !sim_is_reached(end->mark))
        return sim_result(cudaErrorNotReady);
    *ms = (float)(end->reached_ns - start->reached_ns) / 1e6f;
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void *argument) {
    SIM_CALL(SIM_SAFE);
    struct sim_stream *stream = sim_stream_of(handle);
    struct sim_op op = {.kind = OP_HOST, .function = function, .argument = argument};
    return sim_result(stream == NULL ? cudaErrorInvalidResourceHandle : sim_put(stream, &op));
}

/* ---- words ---- */

CUstreamBatchMemOpParams *sim_words_copy(const CUstreamBatchMemOpParams *words, unsigned nwords) {
    CUstreamBatchMemOpParams *copy = malloc(nwords * sizeof(*copy));
    if (copy == NULL)
        abort();
    memcpy(copy, words, nwords * sizeof(*copy));
    return copy;
}

/* Writes and waits for equality, of 32 bits: no others are made here. Managed memory is refused. */
static bool is_legal(const CUstreamBatchMemOpParams *op) {
    const struct sim_range *range = sim_range_at((void *)(uintptr_t)op->writeValue.address);
    bool is_wait = op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32;
    if (range == NULL || range->kind == MEMORY_MANAGED || op->writeValue.address % 4 != 0)
        return false;
    return is_wait ? op->waitValue.flags == CU_STREAM_WAIT_VALUE_EQ
                   : op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 &&
                         op->writeValue.flags == CU_STREAM_WRITE_VALUE_DEFAULT;
}

CUresult sim_cuStreamBatchMemOp(CUstream handle, unsigned count, const CUstreamBatchMemOpParams *ops, unsigned flags) {
    SIM_DRIVER_CALL(SIM_SAFE);
    struct sim_stream *stream = sim_stream_of(handle);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_number("GPUSIM_NO_MEMOPS", 0) != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (count == 0 || count >= 256 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned k = 0; k < count; k++)
        if (!is_legal(&ops[k]))
            return CUDA_ERROR_INVALID_VALUE;
    return (CUresult)sim_put(stream,
                             &(struct sim_op){.kind = OP_WORDS, .words = sim_words_copy(ops, count), .nwords = count});
}
