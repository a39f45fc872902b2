/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated machine keeps CUDA's contract, and no more than that. Each case is a process, since a failure of a GPU stays.
 */
#include "gpu/cuda_entry.h"
#include "gpusim/each.h"
#include "gpusim/gpusim.h"
#include "gpusim/landed.h"
#include "gpusim/machine.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

void launch_store(int *to, int value, cudaStream_t stream);
void launch_increment(int *of, cudaStream_t stream);
void launch_copy(int *to, const int *from, cudaStream_t stream);
void launch_spin(const int *until, cudaStream_t stream);
cudaError_t load_store(void);
void launch_of_bytes(int n, char *last);
cudaError_t blocks_of_store(int *blocks, int lanes);

#define GOOD(call) EQUAL(call, cudaSuccess)

static int *number_on(int gpu, int value) {
    int *number;
    GOOD(cudaSetDevice(gpu));
    GOOD(cudaMalloc((void **)&number, sizeof(*number)));
    GOOD(copy_landed(number, &value, sizeof(value)));
    return number;
}

static int number_at(const int *number) {
    int value;
    GOOD(cudaMemcpy(&value, number, sizeof(value), cudaMemcpyDefault));
    return value;
}

static cudaStream_t stream_here(void) {
    cudaStream_t stream;
    GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

/* A word that kernels wait for. Kernels are loaded here: loading waits for those that run. */
static int *gate(void) {
    int *word;
    GOOD(cudaHostAlloc((void **)&word, sizeof(*word), cudaHostAllocDefault));
    *word = 1;
    launch_spin(word, NULL);
    launch_store(word, 1, NULL);
    launch_increment(word, NULL);
    GOOD(cudaDeviceSynchronize());
    *word = 0;
    return word;
}
static void gate_open(int *word) { __atomic_store_n(word, 1, __ATOMIC_RELEASE); }

/* ---- memory ---- */

static void new_memory_is_not_zero(void) {
    unsigned char bytes[16], *memory;
    GOOD(cudaMalloc((void **)&memory, sizeof(bytes)));
    GOOD(cudaMemcpy(bytes, memory, sizeof(bytes), cudaMemcpyDefault));
    EQUAL(bytes[15], 0xA5);
}

static void a_kernel_writes_what_a_copy_reads(void) {
    int *number = number_on(0, 1);
    launch_store(number, 42, NULL);
    EQUAL(number_at(number), 42);
}

static void a_gpu_may_not_touch_another_ones_memory(void) {
    int *number = number_on(1, 1);
    GOOD(cudaSetDevice(0));
    launch_store(number, 2, NULL);
    EQUAL(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    EQUAL(cudaDeviceSynchronize(), cudaErrorIllegalAddress); /* and it stays */
}

static void peer_access_is_directional(void) {
    int *on_0 = number_on(0, 1), *on_1 = number_on(1, 1);
    GOOD(cudaSetDevice(0));
    GOOD(cudaDeviceEnablePeerAccess(1, 0));
    EQUAL(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    launch_store(on_1, 2, NULL);
    GOOD(cudaDeviceSynchronize());
    GOOD(cudaSetDevice(1));
    launch_store(on_0, 2, NULL);
    EQUAL(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

/* How many it gets of so many others. */
static int peers_of(const char *links, const char *gpus) {
    int status, peers = 0;
    if (fork() == 0) {
        setenv("GPUSIM_LINKS", links, 1);
        setenv("GPUSIM_GPUS", gpus, 1);
        GOOD(cudaSetDevice(0));
        for (int k = 1; k < atoi(gpus); k++) {
            cudaError_t error = cudaDeviceEnablePeerAccess(k, 0);
            EQUAL(error == cudaSuccess || error == cudaErrorTooManyPeers, 1);
            peers += error == cudaSuccess;
        }
        _exit(peers);
    }
    wait(&status);
    EQUAL(WIFEXITED(status), 1);
    return WEXITSTATUS(status);
}

static void a_gpu_has_eight_peers_without_nvswitches(void) {
    EQUAL(peers_of("PCI", "11"), 8);
    EQUAL(peers_of("NVL", "11"), 10);
    setenv("GPUSIM_PEERS", "2", 1);
    EQUAL(peers_of("NVL", "11"), 2);
}

static int *number_of_pool(void) {
    int *number;
    GOOD(cudaSetDevice(1));
    GOOD(cudaMallocAsync((void **)&number, sizeof(*number), NULL));
    GOOD(cudaSetDevice(0));
    GOOD(cudaDeviceEnablePeerAccess(1, 0));
    return number;
}

static void a_pool_is_granted_apart_from_peer_access(void) {
    struct cudaMemAccessDesc access = {.location = {.type = cudaMemLocationTypeDevice},
                                       .flags = cudaMemAccessFlagsProtReadWrite};
    int *number = number_of_pool();
    cudaMemPool_t pool;
    GOOD(cudaDeviceGetDefaultMemPool(&pool, 1));
    GOOD(cudaMemPoolSetAccess(pool, &access, 1));
    launch_store(number, 2, NULL);
    GOOD(cudaDeviceSynchronize());
}

static void peer_access_alone_opens_no_pool(void) {
    int *number = number_of_pool();
    launch_store(number, 2, NULL);
    EQUAL(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

static void freed_memory_may_not_be_touched(void) {
    int *number = number_on(0, 1);
    GOOD(cudaFree(number));
    launch_store(number, 2, NULL);
    EQUAL(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

static void memory_is_registered_once(void) {
    static char page[8192];
    void *on_device;
    EQUAL(cudaHostGetDevicePointer(&on_device, page, 0), cudaErrorInvalidValue);
    EQUAL(cudaHostUnregister(page), cudaErrorHostMemoryNotRegistered);
    GOOD(cudaHostRegister(page, sizeof(page), cudaHostRegisterDefault));
    EQUAL(cudaHostRegister(page + 4096, 4096, cudaHostRegisterDefault), cudaErrorHostMemoryAlreadyRegistered);
    GOOD(cudaHostGetDevicePointer(&on_device, page, 0));
    GOOD(cudaHostUnregister(page));
    launch_store((int *)(void *)page, 1, NULL);
    EQUAL(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

static void memory_is_freed_as_it_was_made(void) {
    int *number = number_on(0, 1), *pinned;
    GOOD(cudaHostAlloc((void **)&pinned, sizeof(*pinned), cudaHostAllocDefault));
    EQUAL(cudaFreeHost(number), cudaErrorInvalidValue);
    EQUAL(cudaFree(pinned), cudaErrorInvalidValue);
    EQUAL(cudaFree(number + 1), cudaErrorInvalidValue);
    GOOD(cudaFree(number));
    EQUAL(cudaFree(number), cudaErrorInvalidValue);
    EQUAL(cudaHostAlloc((void **)&pinned, 0, cudaHostAllocDefault), cudaErrorInvalidValue);
}

/* ---- copies ---- */

#define LATE_US "100000"
#define STAGE_BYTES 65536

/* It may be anywhere in the runtime when the call returns; work of a stream that waits for no other sees the old value then. */
static void a_copy_from_pageable_memory_may_land_late(void) {
    cudaStream_t stream = stream_here();
    int *number = number_on(0, 0), *twin = number_on(0, 0), overtaken = 0;
    setenv("GPUSIM_LATE_US", LATE_US, 1);
    gate();
    launch_copy(twin, number, stream);
    for (int k = 1; k <= 4; k++) {
        int value = k;
        GOOD(cudaMemcpy(number, &value, sizeof(value), cudaMemcpyDefault));
        value = -1; /* nobody looks there any more */
        launch_copy(twin, number, stream);
        GOOD(cudaStreamSynchronize(stream));
        overtaken += __atomic_load_n(twin, __ATOMIC_RELAXED) != k;
        launch_increment(number, NULL); /* the default stream keeps its order */
        EQUAL(number_at(number), k + 1);
    }
    EQUAL(overtaken > 0, 1);
}

static void the_end_of_a_long_copy_may_land_late(void) {
    static char bytes[STAGE_BYTES + 100];
    char *memory;
    int late = 0;
    setenv("GPUSIM_LATE_US", LATE_US, 1);
    GOOD(cudaMalloc((void **)&memory, sizeof(bytes)));
    for (char k = 1; k <= 4; k++) {
        memset(bytes, k, sizeof(bytes));
        GOOD(cudaMemcpy(memory, bytes, sizeof(bytes), cudaMemcpyHostToDevice));
        EQUAL(memory[STAGE_BYTES - 1], k);
        late += __atomic_load_n(&memory[STAGE_BYTES], __ATOMIC_RELAXED) != k;
        GOOD(cudaStreamSynchronize(cudaStreamLegacy));
        EQUAL(memory[STAGE_BYTES], k);
    }
    EQUAL(late > 0, 1);
}

static void copies_to_the_host_and_from_pinned_memory_are_done_on_return(void) {
    int *number = number_on(0, 0), *pinned;
    setenv("GPUSIM_LATE_US", LATE_US, 1);
    GOOD(cudaHostAlloc((void **)&pinned, sizeof(*pinned), cudaHostAllocDefault));
    for (*pinned = 1; *pinned <= 4; ++*pinned) {
        int value = 0;
        GOOD(cudaMemcpy(number, pinned, sizeof(*pinned), cudaMemcpyDefault));
        EQUAL(*number, *pinned);
        GOOD(cudaMemcpy(&value, number, sizeof(value), cudaMemcpyDefault));
        EQUAL(value, *pinned);
    }
}

static void a_copy_between_gpus_waits_for_nothing(void) {
    int *number = number_on(0, 1), *twin = number_on(0, 2), *word;
    cudaStream_t blocking;
    GOOD(cudaStreamCreate(&blocking));
    GOOD(cudaHostAlloc((void **)&word, sizeof(*word), cudaHostAllocDefault));
    *word = 0;
    launch_spin(word, blocking);
    GOOD(cudaMemcpy(twin, number, sizeof(*twin), cudaMemcpyDeviceToDevice));
    EQUAL(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    EQUAL(number_at(twin), 1);
}

/* ---- streams ---- */

static void a_destroyed_event_is_none(void) {
    float ms;
    cudaEvent_t event;
    cudaStream_t stream = stream_here();
    GOOD(cudaEventCreate(&event));
    GOOD(cudaEventRecord(event, stream));
    GOOD(cudaEventSynchronize(event));
    GOOD(cudaEventDestroy(event));
    EQUAL(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle);
    EQUAL(cudaStreamWaitEvent(stream, event, 0), cudaErrorInvalidResourceHandle);
    EQUAL(cudaEventElapsedTime(&ms, event, event), cudaErrorInvalidResourceHandle);
    EQUAL(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
}

static void an_event_is_recorded_by_streams_of_its_gpu(void) {
    cudaEvent_t event;
    GOOD(cudaSetDevice(1));
    GOOD(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    cudaStream_t there = stream_here();
    GOOD(cudaSetDevice(0));
    cudaStream_t stream = stream_here();
    EQUAL(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle);
    GOOD(cudaEventRecord(event, there));
    GOOD(cudaStreamWaitEvent(stream, event, 0)); /* any may wait for it */
}

static void a_kernel_has_at_most_4_kib_of_arguments(void) {
    char *last = (char *)number_on(0, 1);
    launch_of_bytes(4000, last);
    GOOD(cudaGetLastError());
    GOOD(cudaDeviceSynchronize());
    EQUAL(*last, 0);
    launch_of_bytes(4200, last);
    EQUAL(cudaGetLastError(), cudaErrorInvalidValue);
}

static void a_kernel_is_launched_in_streams_of_the_current_gpu(void) {
    int *number = number_on(0, 1);
    cudaStream_t stream = stream_here();
    GOOD(cudaSetDevice(1));
    launch_store(number, 2, stream);
    EQUAL(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

static void a_handle_is_used_again_and_an_id_is_not(void) {
    cudaStream_t first = stream_here();
    unsigned long long a, b;
    GOOD(cudaStreamGetId(first, &a));
    GOOD(cudaStreamDestroy(first));
    cudaStream_t second = stream_here();
    GOOD(cudaStreamGetId(second, &b));
    EQUAL(first == second, 1);
    DIFFER(a, b);
}

static void *id_of_threads_stream(void *id) {
    GOOD(cudaStreamGetId(cudaStreamPerThread, id));
    return NULL;
}

static void each_thread_has_a_stream_of_its_own(void) {
    unsigned long long here, there;
    pthread_t thread;
    id_of_threads_stream(&here);
    EQUAL(pthread_create(&thread, NULL, id_of_threads_stream, &there), 0);
    pthread_join(thread, NULL);
    DIFFER(here, there);
}

static void an_event_is_not_ready_before_the_kernel_ends(void) {
    cudaStream_t stream = stream_here();
    cudaEvent_t event;
    int *word = gate();
    GOOD(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    launch_spin(word, stream);
    GOOD(cudaEventRecord(event, stream));
    EQUAL(cudaEventQuery(event), cudaErrorNotReady);
    gate_open(word);
    GOOD(cudaEventSynchronize(event));
    GOOD(cudaEventQuery(event));
}

static void a_stream_waits_for_an_event_of_another(void) {
    cudaStream_t a = stream_here(), b = stream_here();
    int *word = gate(), *number = number_on(0, 1);
    cudaEvent_t event;
    GOOD(cudaEventCreate(&event));
    launch_spin(word, a);
    launch_store(number, 7, a);
    GOOD(cudaEventRecord(event, a));
    GOOD(cudaStreamWaitEvent(b, event, 0));
    launch_increment(number, b);
    gate_open(word);
    GOOD(cudaStreamSynchronize(b));
    EQUAL(number_at(number), 8);
}

static void the_default_stream_waits_for_blocking_ones(void) {
    int *word = gate(), *number = number_on(0, 1);
    cudaStream_t stream;
    GOOD(cudaStreamCreate(&stream));
    launch_spin(word, stream);
    launch_store(number, 3, stream);
    launch_increment(number, NULL);
    EQUAL(cudaStreamQuery(NULL), cudaErrorNotReady);
    gate_open(word);
    EQUAL(number_at(number), 4);
}

/* ---- calls that wait, and keep others waiting ---- */

struct opener {
    int *word;
    _Atomic int is_open;
};

static void *open_later(void *opener_) {
    struct opener *opener = opener_;
    usleep(50000);
    opener->is_open = 1;
    gate_open(opener->word);
    return NULL;
}

static void open_later_in_stream(void *opener) { open_later(opener); }

static void opens_before(struct opener *opener, void (*call)(void *argument), void *argument) {
    pthread_t thread;
    EQUAL(pthread_create(&thread, NULL, open_later, opener), 0);
    call(argument);
    EQUAL(opener->is_open, 1);
    pthread_join(thread, NULL);
}

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

/* A word that a kernel waits for already, and no other kernel is loaded. */
static int *spin_alone(void) {
    int *word;
    GOOD(cudaHostAlloc((void **)&word, sizeof(*word), cudaHostAllocDefault));
    *word = 0;
    launch_spin(word, stream_here());
    return word;
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

static void *number_in_pageable_memory(int value) {
    static int number;
    number = value;
    return &number;
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

/* ---- processes ---- */

#define SHARED_BYTES ((size_t)2 << 20) /* that lie together, at least */

static cudaError_t cuda_driver_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
    CUresult (*range_of)(CUdeviceptr * base, size_t * bytes, CUdeviceptr address) =
        (CUresult(*)(CUdeviceptr *, size_t *, CUdeviceptr))cuda_entry("cuMemGetAddressRange", 11000);
    return (cudaError_t)range_of(base, bytes, address);
}

static void exporter(int pipes[2], int back[2]) {
    cudaIpcMemHandle_t handle;
    int *number = number_on(0, 5);
    char word;
    GOOD(cudaIpcGetMemHandle(&handle, number));
    EQUAL(write(pipes[1], &handle, sizeof(handle)), sizeof(handle));
    EQUAL(read(back[0], &word, 1), 1);
    EQUAL(number_at(number), 6);
    GOOD(cudaFree(number));
}

static void importer(int pipes[2], int back[2], int closes) {
    cudaIpcMemHandle_t handle;
    void *number;
    EQUAL(read(pipes[0], &handle, sizeof(handle)), sizeof(handle));
    GOOD(cudaSetDevice(1));
    GOOD(cudaIpcOpenMemHandle(&number, handle, cudaIpcMemLazyEnablePeerAccess));
    launch_increment(number, NULL);
    GOOD(cudaDeviceSynchronize());
    if (closes)
        GOOD(cudaIpcCloseMemHandle(number));
    EQUAL(write(back[1], "x", 1), 1);
    pause();
}

/* The signal that the exporter ends by. */
static int share_number(int closes) {
    int pipes[2], back[2], status, importing, exporting;
    EQUAL(pipe(pipes) | pipe(back), 0);
    if ((importing = fork()) == 0) {
        importer(pipes, back, closes);
        _exit(0);
    }
    if ((exporting = fork()) == 0) {
        exporter(pipes, back);
        _exit(0);
    }
    waitpid(exporting, &status, 0);
    kill(importing, SIGKILL);
    waitpid(importing, NULL, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void another_process_uses_memory_by_its_handle(void) { EQUAL(share_number(1), 0); }

static void memory_that_is_open_elsewhere_must_not_be_freed(void) { EQUAL(share_number(0), SIGABRT); }

struct piece {
    cudaIpcMemHandle_t handle;
    size_t offset; /* of the piece, in all that the handle names */
};

static void piece_export(int to, int back) {
    int *neighbour = number_on(0, 1), *number = number_on(0, 5);
    struct piece piece;
    CUdeviceptr base;
    size_t bytes;
    char word;
    GOOD(cuda_driver_range(&base, &bytes, (CUdeviceptr)(uintptr_t)number));
    EQUAL(bytes, SHARED_BYTES);
    piece.offset = (size_t)((CUdeviceptr)(uintptr_t)number - base);
    DIFFER(piece.offset, 0);
    GOOD(cudaIpcGetMemHandle(&piece.handle, number));
    EQUAL(write(to, &piece, sizeof(piece)), sizeof(piece));
    EQUAL(read(back, &word, 1), 1);
    EQUAL(number_at(number), 6);
    EQUAL(number_at(neighbour), 2); /* which nobody has given to anyone */
    GOOD(cudaFree(number));
}

static void piece_import(int from, int back) {
    struct piece piece;
    char *all, *again;
    EQUAL(read(from, &piece, sizeof(piece)), sizeof(piece));
    GOOD(cudaIpcOpenMemHandle((void **)&all, piece.handle, cudaIpcMemLazyEnablePeerAccess));
    GOOD(cudaIpcOpenMemHandle((void **)&again, piece.handle, cudaIpcMemLazyEnablePeerAccess));
    EQUAL(again == all, 1);
    GOOD(cudaIpcCloseMemHandle(again)); /* it is open still */
    launch_increment((int *)(void *)(all + piece.offset), NULL);
    launch_increment((int *)(void *)all, NULL);
    GOOD(cudaDeviceSynchronize());
    GOOD(cudaIpcCloseMemHandle(all));
    EQUAL(cudaIpcCloseMemHandle(all), cudaErrorInvalidValue);
    EQUAL(write(back, "x", 1), 1);
}

/* What cudaMalloc() gives may be a piece of something larger. */
static void a_handle_names_all_that_lies_with_a_piece(void) {
    int to[2], back[2], status;
    EQUAL(pipe(to) | pipe(back), 0);
    if (fork() == 0) {
        piece_export(to[1], back[0]);
        _exit(0);
    }
    piece_import(to[0], back[1]);
    wait(&status);
    EQUAL(status, 0);
}

/* Memory of cudaMalloc() has one, for other processes. */
static void not_all_memory_has_a_handle(void) {
    cudaIpcMemHandle_t handle;
    void *memory, *other;
    GOOD(cudaIpcGetMemHandle(&handle, number_on(0, 1)));
    EQUAL(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess), cudaErrorDeviceUninitialized);
    EQUAL(cudaIpcOpenMemHandle(&memory, handle, 0), cudaErrorInvalidValue);
    GOOD(cudaHostAlloc(&memory, 16, cudaHostAllocDefault));
    GOOD(cudaMallocManaged(&other, 16, cudaMemAttachGlobal));
    EQUAL(cudaIpcGetMemHandle(&handle, memory), cudaErrorInvalidValue);
    EQUAL(cudaIpcGetMemHandle(&handle, other), cudaErrorInvalidValue);
    EQUAL(cudaIpcGetMemHandle(&handle, number_of_pool()), cudaErrorInvalidValue);
    EQUAL(cudaIpcCloseMemHandle(memory), cudaErrorInvalidValue);
}

/* Of a GPU that is divided a process sees one part, and reaches no other memory than this part's and the host's. */
static void a_part_of_a_gpu_shares_no_memory(void) {
    cudaIpcMemHandle_t handle;
    int n;
    setenv("GPUSIM_GPUS", "2", 1);
    setenv("GPUSIM_MIG", "2", 1);
    GOOD(cudaGetDeviceCount(&n));
    EQUAL(n, 1);
    EQUAL(cudaIpcGetMemHandle(&handle, number_on(0, 1)), cudaErrorInvalidValue);
    EQUAL(cudaDeviceEnablePeerAccess(1, 0), cudaErrorInvalidDevice);
}

typedef CUresult context_call(CUcontext *context);

/* Not even by a function that its parent has found. */
static void a_child_of_fork_may_not_use_what_its_parent_began(void) {
    context_call *current = (context_call *)cuda_entry("cuCtxGetCurrent", 11000);
    CUcontext context;
    int n, status;
    GOOD(cudaGetDeviceCount(&n)); /* that is enough */
    if (fork() == 0) {
        EQUAL(current(&context), CUDA_ERROR_NOT_INITIALIZED);
        EQUAL(cudaGetDeviceCount(&n), cudaErrorInitializationError);
        EQUAL(cudaSetDevice(0), cudaErrorInitializationError);
        _exit(0);
    }
    wait(&status);
    EQUAL(status, 0);
}

/* One's kernel waits for a word that the other one's kernel stores, on the same GPU. */
static void kernels_of_two_processes_share_a_gpu(void) {
    cudaIpcMemHandle_t handle;
    int pipes[2], status;
    void *word;
    EQUAL(pipe(pipes), 0);
    if (fork() == 0) {
        int *number = number_on(0, 0);
        gate();
        launch_spin(number, NULL);
        GOOD(cudaIpcGetMemHandle(&handle, number));
        EQUAL(write(pipes[1], &handle, sizeof(handle)), sizeof(handle));
        GOOD(cudaDeviceSynchronize());
        _exit(0);
    }
    EQUAL(read(pipes[0], &handle, sizeof(handle)), sizeof(handle));
    GOOD(cudaIpcOpenMemHandle(&word, handle, cudaIpcMemLazyEnablePeerAccess));
    launch_store(word, 1, NULL);
    GOOD(cudaDeviceSynchronize());
    wait(&status);
    EQUAL(status, 0);
}

/* ---- the driver's functions ---- */

#define DRIVER(name) ((__typeof__(name) *)cuda_entry(#name, 12010))
#define GRANULE ((size_t)2 << 20)

static void contexts_are_pushed_and_popped(void) {
    CUcontext context, popped;
    CUdevice device;
    GOOD(cudaFree(NULL));
    EQUAL(DRIVER(cuDeviceGet)(&device, 9), CUDA_ERROR_INVALID_DEVICE);
    EQUAL(DRIVER(cuDevicePrimaryCtxRetain)(&context, 9), CUDA_ERROR_INVALID_DEVICE);
    EQUAL(DRIVER(cuCtxPopCurrent)(&popped), CUDA_ERROR_INVALID_CONTEXT);
    GOOD(DRIVER(cuDeviceGet)(&device, 1));
    GOOD(DRIVER(cuDevicePrimaryCtxRetain)(&context, device));
    GOOD(DRIVER(cuCtxPushCurrent)(context));
    GOOD(cudaGetDevice(&device));
    EQUAL(device, 1);
    GOOD(DRIVER(cuCtxPopCurrent)(&popped));
    EQUAL(context == popped, 1);
    GOOD(DRIVER(cuCtxGetCurrent)(&context));
    EQUAL(context == NULL, 1);
}

static void a_gpu_that_is_none_has_no_properties(void) {
    int value;
    CUuuid uuid;
    EQUAL(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 9), cudaErrorInvalidDevice);
    EQUAL(cudaDeviceCanAccessPeer(&value, 0, 9), cudaErrorInvalidDevice);
    EQUAL(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrNativeAtomicSupported, 0, 0), cudaErrorInvalidDevice);
    EQUAL(DRIVER(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 9), CUDA_ERROR_INVALID_DEVICE);
    EQUAL(DRIVER(cuDeviceGetUuid)(&uuid, 9), CUDA_ERROR_INVALID_DEVICE);
    GOOD(DRIVER(cuDeviceGetUuid)(&uuid, 1));
}

/* Also one of a call that has nothing to do with it: the thread's last error is whoever's it is. */
static void a_threads_last_error_stays_until_it_is_asked_for(void) {
    int value;
    EQUAL(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 9), cudaErrorInvalidDevice);
    GOOD(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
    EQUAL(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    EQUAL(cudaGetLastError(), cudaErrorInvalidDevice);
    EQUAL(cudaGetLastError(), cudaSuccess);
    EQUAL(strcmp(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice"), 0);
    EQUAL(strcmp(cudaGetErrorString(cudaErrorInvalidDevice), "invalid device ordinal"), 0);
}

static void a_process_without_gpus_is_told_so(void) {
    int n = 5, version;
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    EQUAL(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    EQUAL(n, 0);
    EQUAL(cudaGetDevice(&n), cudaErrorNoDevice);
    GOOD(cudaDriverGetVersion(&version)); /* the driver is there */
    EQUAL(version, CUDART_VERSION);
}

static void a_function_that_the_driver_does_not_have_is_a_null(void) {
    EQUAL(cuda_entry("cuNoSuchFunction", 11000) == NULL, 1);
    EQUAL(cudaGetLastError(), cudaSuccess);
}

static void occupancy_is_that_of_an_empty_gpu(void) {
    int before, beside;
    GOOD(blocks_of_store(&before, 1024));
    EQUAL(before, 1);
    int *word = spin_alone();
    GOOD(blocks_of_store(&beside, 1024)); /* it says nothing of what runs there */
    EQUAL(beside, before);
    GOOD(blocks_of_store(&beside, 2048));
    EQUAL(beside, 0);
    gate_open(word);
    GOOD(cudaDeviceSynchronize());
}

static void a_gpu_that_is_reset_has_nothing_left(void) {
    CUcontext context;
    int *number = number_on(0, 1), *kept = number_on(1, 7), *pinned;
    cudaStream_t stream;
    cudaEvent_t event;
    GOOD(cudaSetDevice(0));
    GOOD(cudaDeviceEnablePeerAccess(1, 0));
    GOOD(cudaHostAlloc((void **)&pinned, sizeof(*pinned), cudaHostAllocDefault));
    GOOD(cudaStreamCreate(&stream));
    GOOD(cudaEventCreate(&event));
    GOOD(DRIVER(cuDevicePrimaryCtxRetain)(&context, 0));
    GOOD(cudaDeviceReset());
    EQUAL(DRIVER(cuCtxPushCurrent)(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EQUAL(gpusim_contexts(), 1 << 1);
    EQUAL(cudaFree(number), cudaErrorInvalidValue);
    EQUAL(cudaFreeHost(pinned), cudaErrorInvalidValue);
    EQUAL(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
    EQUAL(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
    EQUAL(number_at(kept), 7); /* the other GPU's */
    launch_store(kept, 8, NULL);
    EQUAL(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

/* "The process must be terminated and relaunched." */
static void a_reset_does_not_mend_a_gpu_that_has_failed(void) {
    launch_store(number_of_pool(), 2, NULL);
    EQUAL(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    EQUAL(cudaDeviceReset(), cudaErrorIllegalAddress);
    EQUAL(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

static CUmemGenericAllocationHandle object_on(int gpu, size_t bytes, CUresult wanted) {
    CUmemAllocationProp what = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu}};
    CUmemGenericAllocationHandle object = 0;
    size_t granule;
    GOOD(DRIVER(cuMemGetAllocationGranularity)(&granule, &what, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    EQUAL(granule, GRANULE);
    EQUAL(DRIVER(cuMemCreate)(&object, bytes, &what, 0), wanted);
    return object;
}

static CUdeviceptr mapped(CUmemGenericAllocationHandle object) {
    CUdeviceptr address;
    GOOD(DRIVER(cuMemAddressReserve)(&address, GRANULE, 0, 0, 0));
    EQUAL(DRIVER(cuMemMap)(address, GRANULE, 4096, object, 0), CUDA_ERROR_INVALID_VALUE);
    GOOD(DRIVER(cuMemMap)(address, GRANULE, 0, object, 0));
    EQUAL(DRIVER(cuMemMap)(address, GRANULE, 0, object, 0), CUDA_ERROR_INVALID_VALUE);
    GOOD(DRIVER(cuMemRelease)(object)); /* the mapping keeps it */
    return address;
}

static void memory_comes_in_granules(void) {
    object_on(0, GRANULE + 4096, CUDA_ERROR_INVALID_VALUE);
    object_on(9, GRANULE, CUDA_ERROR_INVALID_VALUE);
}

static void mapped_memory_is_for_those_who_are_told_so(void) {
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address = mapped(object_on(0, GRANULE, CUDA_SUCCESS));
    GOOD(DRIVER(cuMemSetAccess)(address, GRANULE, &access, 1));
    launch_store((int *)(uintptr_t)address, 5, NULL);
    GOOD(cudaDeviceSynchronize());
    GOOD(cudaSetDevice(1));
    GOOD(cudaDeviceEnablePeerAccess(0, 0)); /* that alone opens no mapping */
    launch_store((int *)(uintptr_t)address, 6, NULL);
    EQUAL(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

static void mapped_memory_is_unmapped_as_it_was_mapped(void) {
    CUdeviceptr address = mapped(object_on(0, GRANULE, CUDA_SUCCESS)), base;
    size_t bytes;
    GOOD(DRIVER(cuMemGetAddressRange)(&base, &bytes, address + 100));
    EQUAL(base == address && bytes == GRANULE, 1);
    EQUAL(DRIVER(cuMemAddressFree)(address, GRANULE), CUDA_ERROR_INVALID_VALUE);
    EQUAL(DRIVER(cuMemUnmap)(address, GRANULE / 2), CUDA_ERROR_INVALID_VALUE);
    GOOD(DRIVER(cuMemUnmap)(address, GRANULE));
    GOOD(DRIVER(cuMemAddressFree)(address, GRANULE));
    EQUAL(DRIVER(cuMemGetAddressRange)(&base, &bytes, address), CUDA_ERROR_INVALID_VALUE);
}

static void a_descriptor_is_the_only_name_of_an_object(void) {
    CUmemGenericAllocationHandle object = object_on(0, GRANULE, CUDA_SUCCESS), again;
    int fd;
    EQUAL(DRIVER(cuMemExportToShareableHandle)(&fd, object, CU_MEM_HANDLE_TYPE_WIN32, 0), CUDA_ERROR_NOT_SUPPORTED);
    GOOD(DRIVER(cuMemExportToShareableHandle)(&fd, object, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EQUAL(
        DRIVER(cuMemImportFromShareableHandle)(&again, (void *)(intptr_t)-1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        CUDA_ERROR_INVALID_HANDLE);
    GOOD(
        DRIVER(cuMemImportFromShareableHandle)(&again, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    mapped(again);
}

static void unmap_memory(void *address) { GOOD(DRIVER(cuMemUnmap)((CUdeviceptr)(uintptr_t)address, GRANULE)); }

static void unmapping_waits_for_kernels(void) {
    struct opener opener = {.word = gate()};
    CUdeviceptr address = mapped(object_on(0, GRANULE, CUDA_SUCCESS));
    launch_spin(opener.word, stream_here());
    opens_before(&opener, unmap_memory, (void *)(uintptr_t)address);
}

/* As on a machine without GPUDirect. */
static void nics_do_not_reach_memory_of_gpus(void) {
    int value;
    EQUAL(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                             cudaFlushGPUDirectRDMAWritesToOwner),
          cudaErrorNotSupported);
    GOOD(cudaDeviceGetAttribute(&value, cudaDevAttrGPUDirectRDMAFlushWritesOptions, 0));
    EQUAL(value, 0);
    EQUAL(cuda_entry("cuMemGetHandleForAddressRange", 11070) == NULL, 1);
}

/* ---- slices of time ---- */

#define SM_BLOCKS 32

/* Blocks that have begun on GPU 0, once so many grids have come to it and had the time to begin. */
static uint64_t blocks_begun(uint64_t grids) {
    struct gpusim_counts counts;
    for (gpusim_counts(0, &counts); counts.grids < grids; gpusim_counts(0, &counts))
        usleep(1000);
    const uint64_t later = counts.instructions + 100000;
    for (; counts.instructions < later; gpusim_counts(0, &counts))
        usleep(1000);
    return counts.blocks;
}

/* Words that two processes and their kernels see. */
static struct turns { int until, stored, has_begun, is_waiting, is_ready[2]; } * turns;

static void share_machine(const char *how, const char *value) {
    static char name[] = "/tmp/gpusim-machine-XXXXXX";
    close(mkstemp(name));
    setenv("GPUSIM_MACHINE", name, 1);
    setenv(how, value, 1);
    turns = mmap(NULL, sizeof(*turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void until_set(int *word) {
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0)
        usleep(1000);
}
static void set(int *word) { __atomic_store_n(word, 1, __ATOMIC_RELEASE); }

static void each_process(void (*run)(int process)) {
    int status[2];
    for (int k = 0; k < 2; k++)
        if (fork() == 0) {
            GOOD(cudaHostRegister(turns, sizeof(*turns), cudaHostRegisterDefault));
            alarm(EACH_SECONDS);
            gate();
            set(&turns->is_ready[k]);
            until_set(&turns->is_ready[1 - k]);
            run(k);
            _exit(0);
        }
    wait(&status[0]);
    wait(&status[1]);
    unlink(getenv("GPUSIM_MACHINE"));
    EQUAL(status[0] | status[1], 0);
}

static void store_behind_the_other(int process) {
    cudaStream_t stream = stream_here();
    if (process == 0) {
        launch_store(&turns->has_begun, 1, stream);
        launch_spin(&turns->until, stream);
        until_set(&turns->is_waiting);
        EQUAL(turns->stored, 0);
        set(&turns->until);
    } else {
        until_set(&turns->has_begun);
        launch_store(&turns->stored, 1, stream);
        for (int k = 0; k < 20; k++, usleep(1000))
            EQUAL(cudaStreamQuery(stream), cudaErrorNotReady);
        set(&turns->is_waiting);
    }
    GOOD(cudaStreamSynchronize(stream));
}

static void one_process_has_a_gpu_at_a_time(void) {
    share_machine("GPUSIM_SLICE_US", "100000000");
    each_process(store_behind_the_other);
}

/* Process 0 waits for what process 1 stores, and gets the GPU back. */
static void wait_for_the_other(int process) {
    const uint64_t before = gpusim_switches();
    if (process == 0) {
        launch_store(&turns->has_begun, 1, NULL);
        launch_spin(&turns->until, NULL);
    } else {
        until_set(&turns->has_begun);
        launch_store(&turns->until, 1, NULL);
    }
    GOOD(cudaDeviceSynchronize());
    EQUAL(gpusim_switches() > before, 1);
}

static void a_slice_ends_where_another_process_waits(void) {
    share_machine("GPUSIM_SLICE_US", "20");
    each_process(wait_for_the_other);
}

/* ---- MPS ---- */

static void use_half(int process) {
    int sms;
    GOOD(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    EQUAL(sms, 1);
    if (process == 1)
        return;
    int *word = gate();
    gpusim_counts_clear();
    for (int k = 0; k < SM_BLOCKS + 1; k++)
        launch_spin(word, stream_here());
    EQUAL(blocks_begun(SM_BLOCKS + 1), SM_BLOCKS);
    gate_open(word);
    GOOD(cudaDeviceSynchronize());
}

static void a_process_may_be_allowed_a_part_of_a_gpu(void) {
    setenv("GPUSIM_SMS", "2", 1);
    share_machine("GPUSIM_MPS_PERCENT", "50");
    each_process(use_half);
}

/* Process 0 fills the one multiprocessor. */
static void store_beside_the_other(int process) {
    cudaStream_t stream = stream_here();
    if (process == 0) {
        gpusim_counts_clear();
        for (int k = 0; k < SM_BLOCKS; k++)
            launch_spin(&turns->until, stream_here());
        EQUAL(blocks_begun(SM_BLOCKS), SM_BLOCKS);
        set(&turns->has_begun);
        until_set(&turns->is_waiting);
        EQUAL(turns->stored, 0);
        set(&turns->until);
    } else {
        until_set(&turns->has_begun);
        launch_store(&turns->stored, 1, stream);
        for (int k = 0; k < 20; k++, usleep(1000))
            EQUAL(cudaStreamQuery(stream), cudaErrorNotReady);
        set(&turns->is_waiting);
    }
    GOOD(cudaDeviceSynchronize());
}

static void processes_take_room_from_each_other(void) {
    setenv("GPUSIM_SMS", "1", 1);
    share_machine("GPUSIM_MPS_PERCENT", "100");
    each_process(store_beside_the_other);
}

/* ---- exit ---- */

#define REFUSED 42
static int is_leaving, error_in_handler = -1;

static void ask_in_a_handler(void) { error_in_handler = cudaDeviceSynchronize(); }

/* Runs behind the handlers of exit(), and behind the runtime's own end. */
__attribute__((destructor(101))) static void ask_in_the_end(void) {
    CUresult (*current)(CUcontext * context) =
        is_leaving ? (CUresult(*)(CUcontext *))cuda_entry("cuCtxGetCurrent", 11000) : NULL;
    CUcontext context;
    if (is_leaving && error_in_handler == cudaSuccess && cudaDeviceSynchronize() == cudaErrorCudartUnloading &&
        current(&context) == CUDA_ERROR_DEINITIALIZED)
        _exit(REFUSED);
}

static void every_call_is_refused_when_the_runtime_is_gone(void) {
    int status;
    if (fork() == 0) {
        GOOD(cudaDeviceSynchronize());
        is_leaving = 1;
        atexit(ask_in_a_handler);
        exit(0); /* which the destructor changes */
    }
    wait(&status);
    EQUAL(WEXITSTATUS(status), REFUSED);
}

/* ---- the machine ---- */

static void expect_links(int gpus, const char *rows) {
    for (int a = 0; a < gpus; a++)
        for (int b = 0; b < gpus; b++, rows++) {
            int reaches = 0, atomics = 0;
            if (a == b)
                continue;
            GOOD(cudaDeviceCanAccessPeer(&reaches, a, b));
            GOOD(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, a, b));
            EQUAL(reaches, *rows != '-');
            EQUAL(atomics, *rows == 'N');
        }
}

static void a_file_of_words_says_what_joins_gpus(void) {
    char name[] = "/tmp/gpusim-links-XXXXXX";
    static const char words[] = "X NV18 PHB\nNV18 X -\nPHB - X\n";
    int fd = mkstemp(name);
    EQUAL(write(fd, words, strlen(words)), strlen(words));
    setenv("GPUSIM_GPUS", "3", 1);
    setenv("GPUSIM_LINKS", name, 1);
    expect_links(3, "XNP"
                    "NX-"
                    "P-X");
    unlink(name);
}

static void a_topology_file_says_what_joins_gpus(void) {
    char bus[32];
    setenv("GPUSIM_GPUS", "4", 1);
    setenv("GPUSIM_LINKS", "tests/gpusim/pairs.xml", 1);
    expect_links(4, "XNPP"
                    "NXPP"
                    "PPXN"
                    "PPNX");
    GOOD(cudaDeviceGetPCIBusId(bus, sizeof(bus), 2));
    EQUAL(strcmp(bus, "0000:40:00.0"), 0);
}

static void a_process_sees_the_gpus_it_is_shown(void) {
    int n, bus;
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    GOOD(cudaGetDeviceCount(&n));
    EQUAL(n, 1);
    GOOD(cudaDeviceGetAttribute(&bus, cudaDevAttrPciBusId, 0));
    EQUAL(bus, 0x11);
}

/* One of them holds 32 blocks: the next one begins when one of these has ended. */
static void a_gpu_has_as_many_multiprocessors_as_the_environment_says(void) {
    struct cudaDeviceProp properties;
    struct gpusim_counts counts;
    int sms;
    setenv("GPUSIM_SMS", "1", 1);
    GOOD(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    EQUAL(sms, 1);
    GOOD(cudaGetDeviceProperties(&properties, 0));
    EQUAL(properties.multiProcessorCount, 1);
    int *word = gate();
    gpusim_counts_clear();
    for (int k = 0; k < SM_BLOCKS + 1; k++)
        launch_spin(word, stream_here());
    EQUAL(blocks_begun(SM_BLOCKS + 1), SM_BLOCKS);
    gate_open(word);
    GOOD(cudaDeviceSynchronize());
    gpusim_counts(0, &counts);
    EQUAL(counts.blocks, SM_BLOCKS + 1);
}

/* In a process of its own, since a process is shown its GPUs once. The bus of the first GPU that it sees; 0: it sees none. */
static int first_bus(const char *visible, const char *instances) {
    int status;
    if (fork() == 0) {
        int n, bus = 0;
        setenv("CUDA_VISIBLE_DEVICES", visible, 1);
        setenv("GPUSIM_MIG", instances, 1);
        if (cudaGetDeviceCount(&n) == cudaSuccess && n > 0)
            GOOD(cudaDeviceGetAttribute(&bus, cudaDevAttrPciBusId, 0));
        _exit(bus);
    }
    wait(&status);
    return WEXITSTATUS(status);
}

/* As Slurm and Kubernetes name them. */
static void a_gpu_is_named_by_its_uuid(void) {
    setenv("GPUSIM_GPUS", "2", 1);
    EQUAL(first_bus("GPU-73696d20-6770-7520-3031-2f3030000000", "0"), 0x11);
    EQUAL(first_bus("GPU-73696d20-6770-7520-3030-2f3030000000,1", "0"), 0x10);
    EQUAL(first_bus("GPU-73696d20-6770-7520-3031", "0"), 0x11);
    EQUAL(first_bus("GPU-73696d20", "0"), 0);   /* of both */
    EQUAL(first_bus("GPU-deadbeef,1", "0"), 0); /* of none: what comes after it does not count */
    EQUAL(first_bus("MIG-73696d20-6770-7520-3031-2f3032000000", "2"), 0x11);
    EQUAL(first_bus("GPU-73696d20-6770-7520-3031", "2"), 0);
}

/* ---- main ---- */

#define CASES(X)                                                                                                       \
    X(new_memory_is_not_zero)                                                                                          \
    X(a_kernel_writes_what_a_copy_reads)                                                                               \
    X(a_gpu_may_not_touch_another_ones_memory)                                                                         \
    X(peer_access_is_directional)                                                                                      \
    X(a_gpu_has_eight_peers_without_nvswitches)                                                                        \
    X(a_pool_is_granted_apart_from_peer_access)                                                                        \
    X(peer_access_alone_opens_no_pool)                                                                                 \
    X(freed_memory_may_not_be_touched)                                                                                 \
    X(a_copy_from_pageable_memory_may_land_late)                                                                       \
    X(the_end_of_a_long_copy_may_land_late)                                                                            \
    X(copies_to_the_host_and_from_pinned_memory_are_done_on_return)                                                    \
    X(a_copy_between_gpus_waits_for_nothing)                                                                           \
    X(an_asynchronous_copy_from_pageable_memory_may_wait_for_its_stream)                                               \
    X(an_asynchronous_copy_to_pageable_memory_is_done_on_return)                                                       \
    X(pageable_memory_is_refused_in_a_capture)                                                                         \
    X(a_handle_is_used_again_and_an_id_is_not)                                                                         \
    X(each_thread_has_a_stream_of_its_own)                                                                             \
    X(an_event_is_not_ready_before_the_kernel_ends)                                                                    \
    X(a_stream_waits_for_an_event_of_another)                                                                          \
    X(the_default_stream_waits_for_blocking_ones)                                                                      \
    X(freeing_waits_for_kernels)                                                                                       \
    X(a_full_queue_keeps_launches_waiting)                                                                             \
    X(the_first_use_of_a_kernel_waits_for_kernels)                                                                     \
    X(to_ask_for_a_kernels_attributes_is_its_first_use)                                                                \
    X(a_kernel_has_a_first_use_on_each_gpu)                                                                            \
    X(kernels_that_are_loaded_with_their_context_wait_for_none)                                                        \
    X(a_function_of_the_host_runs_in_its_streams_order)                                                                \
    X(a_function_of_the_host_must_not_call_cuda)                                                                       \
    X(a_stream_waits_until_a_word_is_equal)                                                                            \
    X(a_destroyed_event_is_none)                                                                                       \
    X(a_wait_keeps_its_queue_waiting)                                                                                  \
    X(a_word_is_of_pinned_memory_or_a_gpus)                                                                            \
    X(a_driver_may_refuse_words_or_not_have_them)                                                                      \
    X(words_are_captured)                                                                                              \
    X(a_replay_does_what_was_captured)                                                                                 \
    X(an_unsafe_call_spoils_a_capture)                                                                                 \
    X(work_of_other_streams_must_be_joined)                                                                            \
    X(a_capture_does_not_wait_for_what_is_outside)                                                                     \
    X(a_stream_in_a_capture_has_no_id)                                                                                 \
    X(the_default_stream_is_of_no_use_beside_a_capture_of_a_blocking_one)                                              \
    X(another_process_uses_memory_by_its_handle)                                                                       \
    X(memory_that_is_open_elsewhere_must_not_be_freed)                                                                 \
    X(kernels_of_two_processes_share_a_gpu)                                                                            \
    X(memory_is_registered_once)                                                                                       \
    X(memory_is_freed_as_it_was_made)                                                                                  \
    X(an_event_is_recorded_by_streams_of_its_gpu)                                                                      \
    X(a_kernel_has_at_most_4_kib_of_arguments)                                                                         \
    X(a_kernel_is_launched_in_streams_of_the_current_gpu)                                                              \
    X(nobody_may_ask_how_far_a_capture_is)                                                                             \
    X(events_of_the_outside_are_for_captures)                                                                          \
    X(each_thread_has_a_capture_mode_of_its_own)                                                                       \
    X(in_global_mode_a_capture_is_spoiled_by_any_threads_unsafe_call)                                                  \
    X(a_handle_names_all_that_lies_with_a_piece)                                                                       \
    X(not_all_memory_has_a_handle)                                                                                     \
    X(a_part_of_a_gpu_shares_no_memory)                                                                                \
    X(a_child_of_fork_may_not_use_what_its_parent_began)                                                               \
    X(a_gpu_that_is_none_has_no_properties)                                                                            \
    X(a_threads_last_error_stays_until_it_is_asked_for)                                                                \
    X(a_process_without_gpus_is_told_so)                                                                               \
    X(a_function_that_the_driver_does_not_have_is_a_null)                                                              \
    X(occupancy_is_that_of_an_empty_gpu)                                                                               \
    X(a_gpu_that_is_reset_has_nothing_left)                                                                            \
    X(a_reset_does_not_mend_a_gpu_that_has_failed)                                                                     \
    X(contexts_are_pushed_and_popped)                                                                                  \
    X(memory_comes_in_granules)                                                                                        \
    X(mapped_memory_is_for_those_who_are_told_so)                                                                      \
    X(mapped_memory_is_unmapped_as_it_was_mapped)                                                                      \
    X(a_descriptor_is_the_only_name_of_an_object)                                                                      \
    X(unmapping_waits_for_kernels)                                                                                     \
    X(nics_do_not_reach_memory_of_gpus)                                                                                \
    X(one_process_has_a_gpu_at_a_time)                                                                                 \
    X(a_slice_ends_where_another_process_waits)                                                                        \
    X(a_process_may_be_allowed_a_part_of_a_gpu)                                                                        \
    X(processes_take_room_from_each_other)                                                                             \
    X(every_call_is_refused_when_the_runtime_is_gone)                                                                  \
    X(a_file_of_words_says_what_joins_gpus)                                                                            \
    X(a_topology_file_says_what_joins_gpus)                                                                            \
    X(a_gpu_has_as_many_multiprocessors_as_the_environment_says)                                                       \
    X(a_process_sees_the_gpus_it_is_shown)                                                                             \
    X(a_gpu_is_named_by_its_uuid)

static const struct each_case cases[] = {CASES(EACH_ROW)};

int main(int argc, char **argv) { return each_main(cases, (int)(sizeof(cases) / sizeof(*cases)), argc, argv); }
