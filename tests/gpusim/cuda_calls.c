/* SPDX-License-Identifier: Apache-2.0
 *
 * What every call of the runtime does first and last, and errors.
 */
#include "gpusim/gpusim.h"
#include "gpusim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_blocked;  /* by a call that keeps the others out */
static bool is_unloaded; /* behind the last handler of exit() */
static pid_t owner;      /* a child of fork() cannot use what its parent began */
static _Thread_local cudaError_t last_error;
static _Thread_local bool is_host_function; /* what runs in this thread */

/* ---- counting ---- */

#define NAMES_MAX 160
static _Thread_local struct {
    const char *name;
    uint64_t calls;
} counted[NAMES_MAX];

/* The names are those of __func__, but one may be at two addresses. */
static void count(const char *name) {
    int k = 0;
    while (k < NAMES_MAX - 1 && counted[k].name != NULL && strcmp(counted[k].name, name) != 0)
        k++;
    counted[k].name = name;
    counted[k].calls++;
}

uint64_t gpusim_calls(const char *name) {
    uint64_t calls = 0;
    for (int k = 0; k < NAMES_MAX && counted[k].name != NULL; k++)
        if (name == NULL || strcmp(counted[k].name, name) == 0)
            calls += counted[k].calls;
    return calls;
}

void gpusim_print_calls(uint64_t divisor) {
    for (int k = 0; k < NAMES_MAX && counted[k].name != NULL; k++)
        if (counted[k].calls >= divisor)
            printf("    %-44s %6.2f\n", counted[k].name, (double)counted[k].calls / (double)divisor);
}

void gpusim_forget_calls(void) { memset(counted, 0, sizeof(counted)); }

/* ---- calls ---- */

void sim_lock(void) { pthread_mutex_lock(&lock); }
void sim_unlock(void) { pthread_mutex_unlock(&lock); }
void sim_changed(void) { pthread_cond_broadcast(&changed); }
void sim_wait(void) { pthread_cond_wait(&changed, &lock); }

void sim_wait_briefly(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 200000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&changed, &lock, &until);
}

struct sim_call sim_enter(const char *name, enum sim_safety safety) {
    struct sim_call call = {cudaSuccess};
    if (is_host_function)
        sim_violation("a function of the host that a stream calls may not call CUDA, and calls %s", name);
    sim_lock();
    while (is_blocked)
        sim_wait();
    count(name);
    if (owner == 0)
        owner = getpid();
    if (is_unloaded)
        call.error = cudaErrorCudartUnloading;
    else if (owner != getpid())
        call.error = cudaErrorInitializationError;
    else if (sim_device_count() == 0)
        call.error = cudaErrorNoDevice;
    else if (safety == SIM_UNSAFE && !sim_capture_permits())
        call.error = cudaErrorStreamCaptureUnsupported;
    else
        call.error = sim_device_failed();
    return call;
}

void sim_host_function(void (*function)(void *argument), void *argument) {
    is_host_function = true;
    function(argument);
    is_host_function = false;
}

/* The driver goes before the process: threads that still run are told so. */
__attribute__((destructor)) static void unload(void) {
    sim_lock();
    is_unloaded = true;
    sim_unlock();
}

void sim_leave(struct sim_call *call) {
    (void)call;
    sim_unlock();
}

void sim_wait_blocking(void) {
    is_blocked = true;
    sim_wait();
    is_blocked = false;
    sim_changed();
}

void sim_violation(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "gpusim: a rule is broken: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

uint64_t sim_number(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text == NULL || *text == '\0' ? otherwise : strtoull(text, NULL, 0);
}

/* splitmix64 */
uint64_t sim_chance(uint64_t n) {
    static uint64_t state;
    if (state == 0)
        state = sim_number("GPUSIM_SEED", 1);
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % n;
}

uint64_t sim_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- errors ---- */

/* That a stream or an event is not ready is no error that a thread would remember. */
cudaError_t sim_result(cudaError_t error) {
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void) { return last_error; }

#define ERRORS(X)                                                                                                      \
    X(cudaSuccess, "no error")                                                                                         \
    X(cudaErrorInvalidValue, "invalid argument")                                                                       \
    X(cudaErrorMemoryAllocation, "out of memory")                                                                      \
    X(cudaErrorInitializationError, "initialization error")                                                            \
    X(cudaErrorInvalidConfiguration, "invalid configuration argument")                                                 \
    X(cudaErrorCudartUnloading, "driver shutting down")                                                                \
    X(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version")                     \
    X(cudaErrorNoDevice, "no CUDA-capable device is detected")                                                         \
    X(cudaErrorInvalidDevice, "invalid device ordinal")                                                                \
    X(cudaErrorInvalidDeviceFunction, "invalid device function")                                                       \
    X(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device")                     \
    X(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices")                        \
    X(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled")                                             \
    X(cudaErrorTooManyPeers, "peer mapping resources exhausted")                                                       \
    X(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled")                                               \
    X(cudaErrorInvalidResourceHandle, "invalid resource handle")                                                       \
    X(cudaErrorNotReady, "device not ready")                                                                           \
    X(cudaErrorIllegalAddress, "an illegal memory access was encountered")                                             \
    X(cudaErrorDeviceUninitialized, "invalid device context")                                                          \
    X(cudaErrorMapBufferObjectFailed, "mapping of buffer object failed")                                               \
    X(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped")             \
    X(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region")                   \
    X(cudaErrorNotSupported, "operation not supported")                                                                \
    X(cudaErrorSymbolNotFound, "named symbol not found")                                                               \
    X(cudaErrorIllegalState, "the operation cannot be performed in the present state")                                 \
    X(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")                           \
    X(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture")                    \
    X(cudaErrorStreamCaptureUnmatched, "capture was not initiated in this stream")                                     \
    X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                                            \
    X(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream")                      \
    X(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream")  \
    X(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread")   \
    X(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream")               \
    X(cudaErrorUnknown, "unknown error")

#define ROW(error, text) {error, #error, text},
static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {ERRORS(ROW)};

static size_t row_of(cudaError_t error) {
    size_t last = sizeof(errors) / sizeof(*errors) - 1, k = 0;
    while (k < last && errors[k].error != error)
        k++;
    return k; /* the last is cudaErrorUnknown's */
}

const char *cudaGetErrorName(cudaError_t error) { return errors[row_of(error)].name; }
const char *cudaGetErrorString(cudaError_t error) { return errors[row_of(error)].text; }
