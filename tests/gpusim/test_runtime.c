/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated machine keeps CUDA's contract, and no more than that: memory, copies, streams, events.
 */
#include "gpusim/contract.h"

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

static enum cudaMemoryType kind_of(const void *memory) {
    struct cudaPointerAttributes attributes;
    GOOD(cudaPointerGetAttributes(&attributes, memory));
    return attributes.type;
}

/* Memory of the host that CUDA does not know is no error: it has a kind of its own. */
static void the_kind_of_memory_is_told(void) {
    static char plain[64];
    void *pinned;
    GOOD(cudaHostAlloc(&pinned, 64, cudaHostAllocDefault));
    EQUAL(kind_of(number_on(0, 1)), cudaMemoryTypeDevice);
    EQUAL(kind_of(pinned), cudaMemoryTypeHost);
    EQUAL(kind_of(plain), cudaMemoryTypeUnregistered);
    GOOD(cudaPeekAtLastError());
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

/* ---- main ---- */

#define CASES(X)                                                                                                       \
    X(new_memory_is_not_zero)                                                                                          \
    X(the_kind_of_memory_is_told)                                                                                      \
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
    X(a_handle_is_used_again_and_an_id_is_not)                                                                         \
    X(each_thread_has_a_stream_of_its_own)                                                                             \
    X(an_event_is_not_ready_before_the_kernel_ends)                                                                    \
    X(a_stream_waits_for_an_event_of_another)                                                                          \
    X(the_default_stream_waits_for_blocking_ones)                                                                      \
    X(a_destroyed_event_is_none)                                                                                       \
    X(memory_is_registered_once)                                                                                       \
    X(memory_is_freed_as_it_was_made)                                                                                  \
    X(an_event_is_recorded_by_streams_of_its_gpu)                                                                      \
    X(a_kernel_has_at_most_4_kib_of_arguments)                                                                         \
    X(a_kernel_is_launched_in_streams_of_the_current_gpu)

static const struct each_case cases[] = {CASES(EACH_ROW)};

int main(int argc, char **argv) { return each_main(cases, (int)(sizeof(cases) / sizeof(*cases)), argc, argv); }
