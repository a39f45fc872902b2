/* SPDX-License-Identifier: Apache-2.0
 *
 * The same: calls that wait and keep others waiting, first uses of kernels, functions of the host, words.
 */
#include "gpusim/contract.h"

/* ---- calls that wait, and keep others waiting ---- */

static void free_memory(void *memory) { GOOD(cudaFree(memory)); }
static void free_pinned(void *memory) { GOOD(cudaFreeHost(memory)); }

static void freeing_waits_for_kernels(void) {
    struct opener opener = {.word = gate()};
    int *number = number_on(0, 1), *pinned;
    cudaStream_t stream = stream_here();
    GOOD(cudaHostAlloc((void **)&pinned, sizeof(*pinned), cudaHostAllocDefault));
    launch_spin(opener.word, stream);
    opens_before(&opener, free_memory, number);
    *opener.word = opener.is_open = 0;
    launch_spin(opener.word, stream);
    opens_before(&opener, free_pinned, pinned);
}

static void launch_more(void *stream) {
    static int *number;
    if (number == NULL)
        GOOD(cudaHostAlloc((void **)&number, sizeof(*number), cudaHostAllocDefault));
    for (int k = 0; k < 6; k++)
        launch_increment(number, stream);
}

static void a_full_queue_keeps_launches_waiting(void) {
    struct opener opener = {.word = gate()};
    cudaStream_t stream = stream_here();
    setenv("GPUSIM_PENDING", "4", 1);
    launch_spin(opener.word, stream);
    opens_before(&opener, launch_more, stream);
}

static int *stored_to;
static void store_elsewhere(void *stream) { launch_store(stored_to, 2, stream); }
static void ask_for_attributes(void *unused) {
    (void)unused;
    GOOD(load_store());
}

static void the_first_use_of_a_kernel_waits_for_kernels(void) {
    cudaStream_t stream = stream_here();
    stored_to = number_on(0, 1);
    struct opener opener = {.word = spin_alone()};
    opens_before(&opener, store_elsewhere, stream);
    GOOD(cudaDeviceSynchronize());
    EQUAL(*stored_to, 2);
}

static void to_ask_for_a_kernels_attributes_is_its_first_use(void) {
    struct opener opener = {.word = spin_alone()};
    opens_before(&opener, ask_for_attributes, NULL);
    stored_to = number_on(0, 1);
    *opener.word = 0;
    launch_spin(opener.word, stream_here());
    store_elsewhere(stream_here());
    EQUAL(cudaStreamQuery(NULL), cudaSuccess);
    gate_open(opener.word);
    GOOD(cudaDeviceSynchronize());
}

static void a_kernel_has_a_first_use_on_each_gpu(void) {
    gate(); /* on GPU 0 all are loaded */
    stored_to = number_on(1, 1);
    cudaStream_t stream = stream_here();
    struct opener opener = {.word = spin_alone()};
    opens_before(&opener, store_elsewhere, stream);
    GOOD(cudaDeviceSynchronize());
}

static void kernels_that_are_loaded_with_their_context_wait_for_none(void) {
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    stored_to = number_on(0, 1);
    cudaStream_t stream = stream_here();
    int *word = spin_alone();
    store_elsewhere(stream);
    GOOD(cudaStreamSynchronize(stream));
    gate_open(word);
    GOOD(cudaDeviceSynchronize());
    EQUAL(*stored_to, 2);
}

/* ---- functions of the host in a stream ---- */

static void add_one(void *number) { ++*(int *)number; }

/* In its stream's order, and at each replay. What comes behind it waits. */
static void a_function_of_the_host_runs_in_its_streams_order(void) {
    struct opener opener = {.word = gate()};
    cudaStream_t stream = stream_here();
    cudaGraphExec_t made;
    cudaGraph_t graph;
    int called = 0, *number = number_on(0, 0);
    GOOD(cudaLaunchHostFunc(stream, open_later_in_stream, &opener));
    launch_spin(opener.word, stream);
    launch_increment(number, stream);
    GOOD(cudaStreamSynchronize(stream));
    EQUAL(opener.is_open, 1);
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    GOOD(cudaLaunchHostFunc(stream, add_one, &called));
    GOOD(cudaStreamEndCapture(stream, &graph));
    EQUAL(called, 0);
    GOOD(cudaGraphInstantiateWithFlags(&made, graph, 0));
    for (int k = 0; k < 3; k++)
        GOOD(cudaGraphLaunch(made, stream));
    GOOD(cudaStreamSynchronize(stream));
    EQUAL(called, 3);
}

static void synchronize(void *stream) { cudaStreamQuery(stream); }

static void a_function_of_the_host_must_not_call_cuda(void) {
    int status;
    if (fork() == 0) {
        GOOD(cudaLaunchHostFunc(NULL, synchronize, stream_here()));
        GOOD(cudaDeviceSynchronize());
        _exit(0);
    }
    wait(&status);
    EQUAL(WTERMSIG(status), SIGABRT);
}

/* "The driver may synchronize with the stream and stage the copy": under some seeds it does. */
static void an_asynchronous_copy_from_pageable_memory_may_wait_for_its_stream(void) {
    struct opener opener = {.word = gate()};
    cudaStream_t stream = stream_here();
    int *number = number_on(0, 0), waited = 0;
    pthread_t thread;
    for (int k = 1; k <= 8; k++) {
        *opener.word = opener.is_open = 0;
        launch_spin(opener.word, stream);
        EQUAL(pthread_create(&thread, NULL, open_later, &opener), 0);
        GOOD(cudaMemcpyAsync(number, number_in_pageable_memory(k), sizeof(*number), cudaMemcpyDefault, stream));
        waited += opener.is_open;
        number_in_pageable_memory(-1);
        pthread_join(thread, NULL);
        GOOD(cudaStreamSynchronize(stream));
        EQUAL(number_at(number), k);
    }
    EQUAL(waited > 0 && waited < 8, 1);
}

static void an_asynchronous_copy_to_pageable_memory_is_done_on_return(void) {
    struct opener opener = {.word = gate()};
    cudaStream_t stream = stream_here();
    int *number = number_on(0, 7), got = 0;
    pthread_t thread;
    launch_spin(opener.word, stream);
    EQUAL(pthread_create(&thread, NULL, open_later, &opener), 0);
    GOOD(cudaMemcpyAsync(&got, number, sizeof(got), cudaMemcpyDefault, stream));
    EQUAL(opener.is_open, 1);
    EQUAL(got, 7);
    pthread_join(thread, NULL);
}

/* ---- words that streams wait for ---- */

typedef CUresult batch_operations(CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations,
                                  unsigned flags);

static CUresult word_op(uint32_t *word, uint32_t value, int waits, cudaStream_t stream) {
    batch_operations *batch = (batch_operations *)cuda_entry("cuStreamBatchMemOp", 11070);
    CUstreamBatchMemOpParams op;
    EQUAL(batch != NULL, 1);
    memset(&op, 0, sizeof(op));
    op.operation = waits ? CU_STREAM_MEM_OP_WAIT_VALUE_32 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = (CUdeviceptr)(uintptr_t)word;
    op.writeValue.value = value;
    op.writeValue.flags = waits ? CU_STREAM_WAIT_VALUE_EQ : CU_STREAM_WRITE_VALUE_DEFAULT;
    return batch(stream, 1, &op, 0);
}

static uint32_t *pinned_word(void) {
    uint32_t *word;
    GOOD(cudaHostAlloc((void **)&word, sizeof(*word), cudaHostAllocDefault));
    *word = 0;
    return word;
}

static void a_stream_waits_until_a_word_is_equal(void) {
    cudaStream_t a = stream_here(), b = stream_here();
    uint32_t *word = pinned_word();
    int *number = number_on(0, 1);
    gate();
    EQUAL(word_op(word, 7, 1, a), CUDA_SUCCESS);
    launch_store(number, 5, a);
    EQUAL(word_op(word, 8, 0, b), CUDA_SUCCESS); /* another value is none */
    GOOD(cudaStreamSynchronize(b));
    EQUAL(cudaStreamQuery(a), cudaErrorNotReady);
    EQUAL(word_op(word, 7, 0, b), CUDA_SUCCESS);
    GOOD(cudaStreamSynchronize(a));
    EQUAL(number_at(number), 5);
}

static void await_stream(void *stream) { GOOD(cudaStreamSynchronize(stream)); }

/* Not so behind a kernel that has begun. */
static void a_wait_keeps_its_queue_waiting(void) {
    struct opener opener = {.word = gate()};
    cudaStream_t a = stream_here(), b = stream_here();
    int *number = number_on(0, 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
    launch_spin(opener.word, a);
    launch_store(number, 5, b);
    GOOD(cudaStreamSynchronize(b));
    gate_open(opener.word);
    GOOD(cudaStreamSynchronize(a));
    *opener.word = 0;
    EQUAL(word_op((uint32_t *)opener.word, 1, 1, a), CUDA_SUCCESS);
    launch_store(number, 6, b);
    opens_before(&opener, await_stream, b);
    EQUAL(number_at(number), 6);
}

static void a_word_is_of_pinned_memory_or_a_gpus(void) {
    cudaStream_t stream = stream_here();
    static uint32_t pageable;
    uint32_t *managed;
    GOOD(cudaMallocManaged((void **)&managed, sizeof(*managed), cudaMemAttachGlobal));
    EQUAL(word_op(&pageable, 1, 0, stream), CUDA_ERROR_INVALID_VALUE);
    EQUAL(word_op(managed, 1, 0, stream), CUDA_ERROR_INVALID_VALUE);
    EQUAL(word_op((uint32_t *)(void *)number_on(1, 1), 1, 0, stream), CUDA_SUCCESS); /* of a GPU it may not write */
    EQUAL(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
}

/* Each replay waits anew: it has put the word back itself. */
static void words_are_captured(void) {
    cudaStream_t stream = stream_here();
    uint32_t *word = pinned_word();
    cudaGraphExec_t made;
    cudaGraph_t graph;
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    EQUAL(word_op(word, 3, 1, stream), CUDA_SUCCESS);
    EQUAL(word_op(word, 0, 0, stream), CUDA_SUCCESS);
    GOOD(cudaStreamEndCapture(stream, &graph));
    GOOD(cudaGraphInstantiateWithFlags(&made, graph, 0));
    for (int k = 0; k < 3; k++) {
        GOOD(cudaGraphLaunch(made, stream));
        EQUAL(cudaStreamQuery(stream), cudaErrorNotReady);
        __atomic_store_n(word, 3, __ATOMIC_RELEASE);
        GOOD(cudaStreamSynchronize(stream));
        EQUAL(*word, 0);
    }
}

static void a_driver_may_refuse_words_or_not_have_them(void) {
    int can;
    GOOD(cudaDeviceGetAttribute(&can, (enum cudaDeviceAttr)CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0));
    EQUAL(can, 1);
    setenv("GPUSIM_NO_MEMOPS", "1", 1);
    GOOD(cudaDeviceGetAttribute(&can, (enum cudaDeviceAttr)CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0));
    EQUAL(can, 0);
    EQUAL(word_op(pinned_word(), 1, 0, stream_here()), CUDA_ERROR_NOT_SUPPORTED);
    setenv("GPUSIM_NO_MEMOPS", "2", 1);
    EQUAL(cuda_entry("cuStreamBatchMemOp", 11070) == NULL, 1);
}

/* ---- main ---- */

#define CASES(X)                                                                                                       \
    X(an_asynchronous_copy_from_pageable_memory_may_wait_for_its_stream)                                               \
    X(an_asynchronous_copy_to_pageable_memory_is_done_on_return)                                                       \
    X(freeing_waits_for_kernels)                                                                                       \
    X(a_full_queue_keeps_launches_waiting)                                                                             \
    X(the_first_use_of_a_kernel_waits_for_kernels)                                                                     \
    X(to_ask_for_a_kernels_attributes_is_its_first_use)                                                                \
    X(a_kernel_has_a_first_use_on_each_gpu)                                                                            \
    X(kernels_that_are_loaded_with_their_context_wait_for_none)                                                        \
    X(a_function_of_the_host_runs_in_its_streams_order)                                                                \
    X(a_function_of_the_host_must_not_call_cuda)                                                                       \
    X(a_stream_waits_until_a_word_is_equal)                                                                            \
    X(a_wait_keeps_its_queue_waiting)                                                                                  \
    X(a_word_is_of_pinned_memory_or_a_gpus)                                                                            \
    X(a_driver_may_refuse_words_or_not_have_them)                                                                      \
    X(words_are_captured)

static const struct each_case cases[] = {CASES(EACH_ROW)};

int main(int argc, char **argv) { return each_main(cases, (int)(sizeof(cases) / sizeof(*cases)), argc, argv); }
