/* SPDX-License-Identifier: Apache-2.0
 *
 * The same: what is legal in a capture, and what spoils it.
 */
#include "gpusim/contract.h"

/* ---- captures ---- */

static void a_replay_does_what_was_captured(void) {
    cudaStream_t stream = stream_here(), other = stream_here();
    int *number = number_on(0, 0), *twin = number_on(0, 0);
    cudaEvent_t fork, join;
    cudaGraphExec_t made;
    cudaGraph_t graph;
    GOOD(cudaEventCreate(&fork));
    GOOD(cudaEventCreate(&join));
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    launch_increment(number, stream);
    GOOD(cudaEventRecord(fork, stream));
    GOOD(cudaStreamWaitEvent(other, fork, 0));
    launch_copy(twin, number, other);
    GOOD(cudaEventRecord(join, other));
    GOOD(cudaStreamWaitEvent(stream, join, 0));
    GOOD(cudaStreamEndCapture(stream, &graph));
    EQUAL(number_at(number), 0);
    GOOD(cudaGraphInstantiateWithFlags(&made, graph, 0));
    GOOD(cudaGraphDestroy(graph));
    for (int k = 0; k < 3; k++)
        GOOD(cudaGraphLaunch(made, stream));
    GOOD(cudaStreamSynchronize(stream));
    EQUAL(number_at(twin), 3);
}

static void an_unsafe_call_spoils_a_capture(void) {
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaStream_t stream = stream_here();
    cudaGraph_t graph;
    void *memory;
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    GOOD(cudaThreadExchangeStreamCaptureMode(&mode));
    GOOD(cudaMalloc(&memory, 16)); /* a thread that says so may */
    GOOD(cudaThreadExchangeStreamCaptureMode(&mode));
    EQUAL(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
    EQUAL(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
}

static void *allocate_in_vain(void *unused) {
    void *memory;
    EQUAL(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
    EQUAL(cudaHostAlloc(&memory, 16, cudaHostAllocDefault), cudaErrorStreamCaptureUnsupported);
    EQUAL(cudaStreamCreateWithFlags((cudaStream_t *)&memory, 0), cudaErrorStreamCaptureUnsupported);
    return unused;
}

static void work_of_other_streams_must_be_joined(void) {
    cudaStream_t stream = stream_here(), other = stream_here();
    int *number = number_on(0, 0);
    cudaEvent_t fork;
    cudaGraph_t graph;
    GOOD(cudaEventCreate(&fork));
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    GOOD(cudaEventRecord(fork, stream));
    GOOD(cudaStreamWaitEvent(other, fork, 0));
    launch_increment(number, other);
    EQUAL(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
}

static void a_capture_does_not_wait_for_what_is_outside(void) {
    cudaStream_t stream = stream_here();
    cudaEvent_t event;
    GOOD(cudaEventCreate(&event));
    GOOD(cudaEventRecord(event, NULL));
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    EQUAL(cudaStreamWaitEvent(stream, event, 0), cudaErrorStreamCaptureIsolation);
}

/* A question that no capture survives. */
static void question_spoils(cudaError_t (*ask)(cudaStream_t stream), unsigned flags, cudaStream_t asked,
                            cudaError_t answer) {
    cudaStream_t stream;
    cudaGraph_t graph;
    GOOD(cudaStreamCreateWithFlags(&stream, flags));
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    EQUAL(ask(asked == NULL ? stream : asked), answer);
    EQUAL(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
}

static cudaError_t ask_for_id(cudaStream_t stream) {
    unsigned long long id;
    return cudaStreamGetId(stream, &id);
}

static cudaError_t ask_driver_for_id(cudaStream_t stream) {
    CUresult (*get_id)(CUstream stream, unsigned long long *id) =
        (CUresult(*)(CUstream, unsigned long long *))cuda_entry("cuStreamGetId", 12000);
    unsigned long long id;
    return (cudaError_t)get_id(stream, &id);
}

static void a_stream_in_a_capture_has_no_id(void) {
    question_spoils(ask_for_id, cudaStreamNonBlocking, NULL, cudaErrorStreamCaptureUnsupported);
    question_spoils(ask_driver_for_id, cudaStreamNonBlocking, NULL, cudaErrorStreamCaptureUnsupported);
    question_spoils(cudaStreamQuery, cudaStreamNonBlocking, NULL, cudaErrorStreamCaptureUnsupported);
    question_spoils(cudaStreamSynchronize, cudaStreamNonBlocking, NULL, cudaErrorStreamCaptureUnsupported);
}

static cudaError_t wait_there(cudaStream_t stream) {
    cudaEvent_t event;
    GOOD(cudaEventCreate(&event));
    return cudaStreamWaitEvent(stream, event, 0);
}

static void the_default_stream_is_of_no_use_beside_a_capture_of_a_blocking_one(void) {
    enum cudaStreamCaptureStatus status;
    cudaStream_t stream;
    cudaGraph_t graph;
    GOOD(cudaStreamCreate(&stream));
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    EQUAL(cudaStreamIsCapturing(NULL, &status), cudaErrorStreamCaptureImplicit);
    GOOD(cudaStreamEndCapture(stream, &graph)); /* that may be asked */
    gate();
    question_spoils(ask_for_id, cudaStreamDefault, cudaStreamLegacy, cudaErrorStreamCaptureImplicit);
    question_spoils(wait_there, cudaStreamDefault, cudaStreamLegacy, cudaErrorStreamCaptureImplicit);
    question_spoils(cudaStreamQuery, cudaStreamDefault, cudaStreamLegacy, cudaErrorStreamCaptureImplicit);
    GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    EQUAL(ask_for_id(NULL), cudaSuccess); /* beside one that does not wait for it */
    GOOD(cudaStreamEndCapture(stream, &graph));
}

static cudaError_t wait_for_gpu(cudaStream_t stream) { return stream == NULL ? cudaSuccess : cudaDeviceSynchronize(); }

static cudaError_t record_and_ask(cudaStream_t stream) {
    cudaEvent_t event;
    GOOD(cudaEventCreate(&event));
    GOOD(cudaEventRecord(event, stream));
    return cudaEventQuery(event);
}

static cudaError_t record_and_wait(cudaStream_t stream) {
    cudaEvent_t event;
    GOOD(cudaEventCreate(&event));
    GOOD(cudaEventRecord(event, stream));
    return cudaEventSynchronize(event);
}

/* Whatever mode the capture or the thread is in. */
static void nobody_may_ask_how_far_a_capture_is(void) {
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    GOOD(cudaThreadExchangeStreamCaptureMode(&mode));
    question_spoils(record_and_ask, cudaStreamNonBlocking, NULL, cudaErrorCapturedEvent);
    question_spoils(record_and_wait, cudaStreamNonBlocking, NULL, cudaErrorCapturedEvent);
    question_spoils(wait_for_gpu, cudaStreamNonBlocking, NULL, cudaErrorStreamCaptureUnsupported);
}

static void events_of_the_outside_are_for_captures(void) {
    cudaStream_t stream = stream_here();
    int *number = number_on(0, 0);
    cudaGraphExec_t made;
    cudaEvent_t event;
    cudaGraph_t graph;
    GOOD(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    EQUAL(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal), cudaErrorIllegalState);
    EQUAL(cudaStreamWaitEvent(stream, event, cudaEventWaitExternal), cudaErrorIllegalState);
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    GOOD(cudaStreamWaitEvent(stream, event, cudaEventWaitExternal));
    launch_increment(number, stream);
    GOOD(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal));
    GOOD(cudaStreamEndCapture(stream, &graph));
    GOOD(cudaGraphInstantiateWithFlags(&made, graph, 0));
    GOOD(cudaGraphLaunch(made, stream));
    GOOD(cudaEventSynchronize(event));
    EQUAL(number_at(number), 1);
}

static void *mode_of_thread(void *mode_) {
    enum cudaStreamCaptureMode *mode = mode_;
    *mode = cudaStreamCaptureModeRelaxed;
    GOOD(cudaThreadExchangeStreamCaptureMode(mode));
    return NULL;
}

static void each_thread_has_a_capture_mode_of_its_own(void) {
    enum cudaStreamCaptureMode here = cudaStreamCaptureModeThreadLocal, there;
    pthread_t thread;
    GOOD(cudaThreadExchangeStreamCaptureMode(&here));
    EQUAL(here, cudaStreamCaptureModeGlobal);
    EQUAL(pthread_create(&thread, NULL, mode_of_thread, &there), 0);
    pthread_join(thread, NULL);
    EQUAL(there, cudaStreamCaptureModeGlobal);
    GOOD(cudaThreadExchangeStreamCaptureMode(&here));
    EQUAL(here, cudaStreamCaptureModeThreadLocal);
}

static void in_global_mode_a_capture_is_spoiled_by_any_threads_unsafe_call(void) {
    cudaStream_t stream = stream_here();
    cudaGraph_t graph;
    pthread_t thread;
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    EQUAL(pthread_create(&thread, NULL, allocate_in_vain, NULL), 0);
    pthread_join(thread, NULL);
    EQUAL(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
}

static cudaError_t copy_to_pageable(cudaStream_t stream) {
    return cudaMemcpyAsync(number_in_pageable_memory(1), number_on(0, 1), sizeof(int), cudaMemcpyDefault, stream);
}
static cudaError_t copy_from_pageable(cudaStream_t stream) {
    return cudaMemcpyAsync(number_on(0, 1), number_in_pageable_memory(1), sizeof(int), cudaMemcpyDefault, stream);
}

static void pageable_memory_is_refused_in_a_capture(void) {
    question_spoils(copy_to_pageable, cudaStreamNonBlocking, NULL, cudaErrorStreamCaptureUnsupported);
    question_spoils(copy_from_pageable, cudaStreamNonBlocking, NULL, cudaErrorStreamCaptureUnsupported);
    EQUAL(cudaMemsetAsync(number_in_pageable_memory(1), 0, sizeof(int), NULL), cudaErrorInvalidValue);
}

/* ---- main ---- */

#define CASES(X)                                                                                                       \
    X(pageable_memory_is_refused_in_a_capture)                                                                         \
    X(a_replay_does_what_was_captured)                                                                                 \
    X(an_unsafe_call_spoils_a_capture)                                                                                 \
    X(work_of_other_streams_must_be_joined)                                                                            \
    X(a_capture_does_not_wait_for_what_is_outside)                                                                     \
    X(a_stream_in_a_capture_has_no_id)                                                                                 \
    X(the_default_stream_is_of_no_use_beside_a_capture_of_a_blocking_one)                                              \
    X(nobody_may_ask_how_far_a_capture_is)                                                                             \
    X(events_of_the_outside_are_for_captures)                                                                          \
    X(each_thread_has_a_capture_mode_of_its_own)                                                                       \
    X(in_global_mode_a_capture_is_spoiled_by_any_threads_unsafe_call)

static const struct each_case cases[] = {CASES(EACH_ROW)};

int main(int argc, char **argv) { return each_main(cases, (int)(sizeof(cases) / sizeof(*cases)), argc, argv); }
