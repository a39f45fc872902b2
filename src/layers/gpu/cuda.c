/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver of NVIDIA GPUs, on CUDA's runtime. The runtime is linked in statically. It finds the machine's driver at its first call; if
 * there is none, count() is 0. This file is built if there is nvcc.
 *
 * Run on one H200 on 2026-11-26, never on several GPUs (docs/gpu.md).
 */
#include "layers/gpu/cuda_blocks.h"
#include "layers/gpu/cuda_context.h"
#include "layers/gpu/cuda_direct.h"
#include "layers/gpu/cuda_entry.h"
#include "layers/gpu/cuda_share.h"
#include "layers/gpu/cuda_team.h"
#include "layers/gpu/cuda_words.h"
#include "layers/gpu/gpu.h"
#include "layers/gpu/kernels.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mapping.h"
#include "base/os.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum collet_result err_cuda(cudaError_t error, const char *what) {
    enum collet_result code = error == cudaErrorMemoryAllocation ? COLLET_ERR_NO_MEMORY : COLLET_ERR_SYSTEM;
    cudaGetLastError(); /* we report the error; the user's next call must not find it again */
    return err_set(code, "%s: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

#define CUDA_TRY(call)                                                                                                 \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess)                                                                                     \
            return err_cuda(error_, #call);                                                                            \
    } while (0)

/* ---- GPUs ---- */

/* The runtime says "insufficient" in two cases: the driver is too old, or there is no driver. */
static const char *why_none(cudaError_t error) {
    static _Thread_local char text[160];
    int driver = 0;
    if (error == cudaSuccess || error == cudaErrorNoDevice)
        return "this process sees no GPU";
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
        return "this machine has no CUDA driver";
    snprintf(text, sizeof(text), "%s (the driver is for CUDA %d.%d, this build of CUDA %d.%d)",
             cudaGetErrorString(error), driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
             CUDART_VERSION % 1000 / 10);
    return text;
}

static int cuda_count(const char **why) {
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    *why = why_none(error);
    cudaGetLastError();
    return error == cudaSuccess ? count : 0;
}

static enum collet_result cuda_current(int *ordinal) {
    CUDA_TRY(cudaGetDevice(ordinal));
    return COLLET_SUCCESS;
}

/* [GPU]: set when the GPU is opened; 0 before. */
static uint32_t resident_blocks[CUDA_GPUS_MAX];

/* Our transfers must not wait for the user's streams. So each GPU has one stream of ours that waits for no other stream. */
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static cudaStream_t streams[CUDA_GPUS_MAX];
static uint64_t opened[CUDA_GPUS_MAX]; /* the context in which all of the above was made; 0: nothing was made yet */

/* The library has no machine code for this GPU, and the driver could not compile the library's PTX. */
static bool no_code(cudaError_t error) {
    return error == cudaErrorNoKernelImageForDevice || error == cudaErrorUnsupportedPtxVersion ||
           error == cudaErrorInvalidPtx || error == cudaErrorJitCompilerNotFound;
}

/* Loads a kernel. If a multiprocessor runs fewer of its blocks at once than *blocks, lowers *blocks to that number. */
static enum collet_result load(const void *kernel, int *blocks) {
    struct cudaFuncAttributes attributes;
    int each;
    cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
    if (no_code(error))
        return err_set(COLLET_ERR_UNSUPPORTED,
                       "%s: this library has kernels for %s alone; build it where this GPU is, or with CUDA_ARCH=all",
                       cudaGetErrorString(error), gpu_cuda_kernels.code);
    CUDA_TRY(error);
    CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, GPU_LANES, 0));
    *blocks = each < *blocks ? each : *blocks;
    return COLLET_SUCCESS;
}

static struct gpu_scope cuda_enter(int ordinal) {
    struct gpu_scope scope = {cuda_context_push(ordinal) ? ordinal : -1, (int)cudaStreamCaptureModeRelaxed};
    cudaThreadExchangeStreamCaptureMode((enum cudaStreamCaptureMode *)&scope.capture_mode);
    return scope;
}

static struct gpu_scope cuda_enter_streams(int ordinal) {
    return (struct gpu_scope){cuda_context_push(ordinal) ? ordinal : -1, GPU_CAPTURE_MODE_KEPT};
}

static void cuda_leave(struct gpu_scope scope) {
    if (scope.capture_mode != GPU_CAPTURE_MODE_KEPT)
        cudaThreadExchangeStreamCaptureMode((enum cudaStreamCaptureMode *)&scope.capture_mode);
    if (scope.ordinal >= 0)
        cuda_context_pop();
}

/* Loads every kernel. If a kernel is PTX, the driver compiles it now, and not at its first launch: a compilation then would wait for the
 * kernels that already spin. */
static enum collet_result load_all(int ordinal) {
    uint64_t began = os_now_ns();
    int processors, each = 32;
    CUDA_TRY(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, ordinal));
    COLLET_TRY(load(gpu_cuda_kernels.copy, &each));
    COLLET_TRY(load(gpu_cuda_kernels.signals, &each));
    COLLET_TRY(load(gpu_cuda_kernels.pieces, &each));
    cuda_team_open(ordinal);
    for (int type = 0; type < COLLET_TYPE_COUNT && cuda_can_team(ordinal); type++)
        if (gpu_cuda_kernels.team_sum(COLLET_SUM, type) != NULL)
            COLLET_TRY(load(gpu_cuda_kernels.team_sum(COLLET_SUM, type), &each));
    for (int op = 0; op < COLLET_OP_COUNT; op++)
        for (int type = 0; type < COLLET_TYPE_COUNT; type++)
            if (gpu_cuda_kernels.reduce[op][type] != NULL)
                COLLET_TRY(load(gpu_cuda_kernels.reduce[op][type], &each));
    __atomic_store_n(&resident_blocks[ordinal], (uint32_t)(processors * each), __ATOMIC_RELAXED);
    log_info(INIT, "GPU %d: its kernels (of %s) were loaded in %.1f s", ordinal, gpu_cuda_kernels.code,
             (double)(os_now_ns() - began) / 1e9);
    return COLLET_SUCCESS;
}

/* The caller holds the lock. If the context is another one than before, the program has reset the GPU: older objects are gone. */
static bool take_context(int ordinal, uint64_t context) {
    if (opened[ordinal] == context)
        return true;
    if (opened[ordinal] != 0 && !cuda_blocks_forget(ordinal))
        return false;
    streams[ordinal] = NULL;
    __atomic_store_n(&resident_blocks[ordinal], 0, __ATOMIC_RELAXED);
    opened[ordinal] = context;
    return true;
}

static enum collet_result open_context(int ordinal) {
    COLLET_TRY(cuda_context_make(ordinal));
    pthread_mutex_lock(&streams_lock);
    const bool taken = take_context(ordinal, cuda_context_id(ordinal));
    pthread_mutex_unlock(&streams_lock);
    return taken ? COLLET_SUCCESS
                 : err_set(COLLET_ERR_INVALID_USAGE,
                           "GPU %d was reset under communicators of this process: end those first, by "
                           "collet_comm_abort()",
                           ordinal);
}

static enum collet_result cuda_open(int ordinal) {
    int major = 0, unified = 0;
    COLLET_TRY(open_context(ordinal));
    if (__atomic_load_n(&resident_blocks[ordinal], __ATOMIC_RELAXED) > 0)
        return COLLET_SUCCESS;
    CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal));
    CUDA_TRY(cudaDeviceGetAttribute(&unified, cudaDevAttrUnifiedAddressing, ordinal));
    if (major < 7 || !unified)
        return err_set(COLLET_ERR_UNSUPPORTED,
                       "GPU %d has compute capability %d.x%s: 7.0 or later with unified addressing", ordinal, major,
                       unified ? "" : " without unified addressing");
    struct gpu_scope scope = cuda_enter(ordinal);
    enum collet_result result = load_all(ordinal);
    cuda_leave(scope);
    return result;
}

static uint32_t cuda_bus(int ordinal) {
    int domain = 0, bus = 0, device = 0;
    cudaDeviceGetAttribute(&domain, cudaDevAttrPciDomainId, ordinal);
    cudaDeviceGetAttribute(&bus, cudaDevAttrPciBusId, ordinal);
    cudaDeviceGetAttribute(&device, cudaDevAttrPciDeviceId, ordinal);
    return (uint32_t)domain << 16 | (uint32_t)bus << 8 | (uint32_t)device;
}

typedef CUresult (*get_device)(CUdevice *device, int ordinal);
typedef CUresult (*get_uuid)(CUuuid *uuid, CUdevice device);

/* The UUID, folded. From CUDA 11.4 on, a driver knows the UUIDs of parts of a GPU. An older driver shows no such parts to a process. */
static uint64_t cuda_identity(int ordinal) {
    get_device device_of = (get_device)cuda_entry("cuDeviceGet", 11000);
    get_uuid uuid_of = (get_uuid)cuda_entry("cuDeviceGetUuid", 11040);
    CUdevice device;
    CUuuid uuid;
    uint64_t folded = 14695981039346656037ull; /* FNV-1a */
    if (device_of == NULL || uuid_of == NULL || device_of(&device, ordinal) != CUDA_SUCCESS ||
        uuid_of(&uuid, device) != CUDA_SUCCESS)
        return (uint64_t)cuda_bus(ordinal) + 1;
    for (size_t k = 0; k < sizeof(uuid.bytes); k++)
        folded = (folded ^ (uint8_t)uuid.bytes[k]) * 1099511628211ull;
    return folded | 1;
}

static uint32_t cuda_capability(int ordinal) {
    int major = 0, minor = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal);
    return (uint32_t)(major * 10 + minor);
}

typedef CUresult (*get_name)(char *name, int room, CUdevice device);

static void cuda_model(int ordinal, char name[GPU_MODEL_BYTES]) {
    get_device device_of = (get_device)cuda_entry("cuDeviceGet", 11000);
    get_name name_of = (get_name)cuda_entry("cuDeviceGetName", 11000);
    CUdevice device;
    if (device_of == NULL || name_of == NULL || device_of(&device, ordinal) != CUDA_SUCCESS ||
        name_of(name, GPU_MODEL_BYTES, device) != CUDA_SUCCESS)
        name[0] = '\0';
    name[GPU_MODEL_BYTES - 1] = '\0';
}

/* cudaDevAttrMpsEnabled of CUDA 12.4. An older driver does not know it. Then we assume that there is no MPS, as on most machines. */
#define MPS_ENABLED ((enum cudaDeviceAttr)133)

static bool cuda_takes_turns(int ordinal) {
    int mps = 0;
    if (cudaDeviceGetAttribute(&mps, MPS_ENABLED, ordinal) != cudaSuccess)
        cudaGetLastError();
    return mps == 0;
}

/* ---- memory ---- */

static enum collet_result own_stream(cudaStream_t *stream_p) {
    int ordinal;
    CUDA_TRY(cudaGetDevice(&ordinal));
    cudaError_t error = cudaSuccess;
    pthread_mutex_lock(&streams_lock);
    if (streams[ordinal] == NULL)
        error = cudaStreamCreateWithFlags(&streams[ordinal], cudaStreamNonBlocking);
    *stream_p = streams[ordinal];
    pthread_mutex_unlock(&streams_lock);
    return error == cudaSuccess ? COLLET_SUCCESS : err_cuda(error, "cudaStreamCreateWithFlags");
}

static enum collet_result cuda_write(void *to, const void *from, size_t bytes) {
    cudaStream_t stream;
    COLLET_TRY(own_stream(&stream));
    CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    return COLLET_SUCCESS;
}

enum collet_result cuda_clear(void *memory, size_t bytes) {
    cudaStream_t stream;
    COLLET_TRY(own_stream(&stream));
    CUDA_TRY(cudaMemsetAsync(memory, 0, bytes, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    return COLLET_SUCCESS;
}

static enum collet_result noted(enum cuda_block kind, int ordinal, void *memory, size_t bytes,
                                cudaError_t (*undo)(void *memory)) {
    if (cuda_block_note(kind, ordinal, memory, bytes))
        return COLLET_SUCCESS;
    undo(memory);
    return err_set(COLLET_ERR_NO_MEMORY, "no memory to note %zu bytes of CUDA's", bytes);
}

static enum collet_result cuda_memory_create(size_t bytes, void **memory_p) {
    int ordinal;
    CUDA_TRY(cudaGetDevice(&ordinal));
    void *memory = cuda_block_take(BLOCK_PLAIN, ordinal, bytes);
    if (memory == NULL) {
        CUDA_TRY(cudaMalloc(&memory, bytes));
        COLLET_TRY(noted(BLOCK_PLAIN, ordinal, memory, bytes, cudaFree));
    }
    enum collet_result result = cuda_clear(memory, bytes);
    if (result == COLLET_SUCCESS)
        *memory_p = memory;
    else
        cuda_block_give_back(memory);
    return result;
}

/* Every GPU may use pinned memory, but the registration ends with the context of the GPU where it was made. */
static enum collet_result note_pinned(enum cuda_block kind, void *memory, size_t bytes) {
    int ordinal;
    cudaError_t error = cudaGetDevice(&ordinal);
    if (error == cudaSuccess)
        return noted(kind, ordinal, memory, bytes, cudaHostUnregister);
    cudaHostUnregister(memory);
    return err_cuda(error, "cudaGetDevice");
}

/* Why not cudaHostAlloc()? If a program resets the GPU, these pages stay mapped for threads that look at them. Also, these pages are
 * shared: after fork() there are no copies that the GPU does not know. */
static enum collet_result register_pages(void *memory, size_t bytes) {
    void *on_gpu = NULL;
    CUDA_TRY(cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
    cudaError_t error = cudaHostGetDevicePointer(&on_gpu, memory, 0);
    if (error == cudaSuccess && on_gpu == memory)
        return note_pinned(BLOCK_PINNED, memory, bytes);
    cudaHostUnregister(memory);
    return error != cudaSuccess ? err_cuda(error, "cudaHostGetDevicePointer")
                                : err_set(COLLET_ERR_UNSUPPORTED, "GPUs see memory of the host at other addresses");
}

static enum collet_result cuda_pinned_create(size_t bytes, void **memory_p) {
    int ordinal;
    CUDA_TRY(cudaGetDevice(&ordinal));
    void *memory = cuda_block_take(BLOCK_PINNED, ordinal, bytes);
    if (memory == NULL) {
        int fd;
        COLLET_TRY(os_shared_create("collet-pinned", bytes, &memory, &fd));
        close(fd);
        enum collet_result result = register_pages(memory, bytes);
        if (result != COLLET_SUCCESS) {
            os_memory_destroy(memory, bytes);
            return result;
        }
    }
    memset(memory, 0, bytes);
    *memory_p = memory;
    return COLLET_SUCCESS;
}

static enum collet_result cuda_pin(void *memory, size_t bytes, void **device_p) {
    CUDA_TRY(cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
    cudaError_t error = cudaHostGetDevicePointer(device_p, memory, 0);
    if (error == cudaSuccess)
        return note_pinned(BLOCK_REGISTERED, memory, bytes);
    cudaHostUnregister(memory);
    return err_cuda(error, "cudaHostGetDevicePointer");
}

static void cuda_unpin(void *memory, size_t bytes) {
    (void)bytes;
    cuda_block_give_back(memory);
}

static bool cuda_can_reach(int ordinal, int other) {
    int can = 0;
    return ordinal == other || (cudaDeviceCanAccessPeer(&can, ordinal, other) == cudaSuccess && can);
}

static bool cuda_open_peer(int ordinal, int other) {
    if (ordinal == other || !cuda_can_reach(ordinal, other) || cuda_context_make(ordinal) != COLLET_SUCCESS)
        return ordinal == other;
    struct gpu_scope scope = cuda_enter(ordinal);
    cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
    cudaGetLastError(); /* "already enabled" is no error */
    cuda_leave(scope);
    return error == cudaSuccess || error == cudaErrorPeerAccessAlreadyEnabled;
}

/* CUDA does not say whether a link between two GPUs is NVLink. But NVLink has native atomics, and PCI does not. */
static bool cuda_keeps_lines(int ordinal, int other) {
    int native = 0;
    if (!cuda_can_reach(ordinal, other))
        return false;
    return ordinal == other ||
           (cudaDeviceGetP2PAttribute(&native, cudaDevP2PAttrNativeAtomicSupported, ordinal, other) == cudaSuccess &&
            native);
}

/* ---- work ---- */

static enum collet_result cuda_event_create(void **event_p) {
    CUDA_TRY(cudaEventCreateWithFlags((cudaEvent_t *)event_p, cudaEventDisableTiming));
    return COLLET_SUCCESS;
}

static void cuda_event_destroy(void *event) {
    if (event != NULL)
        cudaEventDestroy(event);
}

static enum collet_result cuda_record(void *event, void *stream, bool external) {
    CUDA_TRY(cudaEventRecordWithFlags(event, stream, external ? cudaEventRecordExternal : cudaEventRecordDefault));
    return COLLET_SUCCESS;
}

static enum collet_result cuda_wait(void *stream, void *event, bool external) {
    CUDA_TRY(cudaStreamWaitEvent(stream, event, external ? cudaEventWaitExternal : cudaEventWaitDefault));
    return COLLET_SUCCESS;
}

/* When a process exits, CUDA may be unloaded while our threads still run. Then no work is under way, and nothing has failed. */
static enum collet_result cuda_query(void *event) {
    cudaError_t error = cudaEventQuery(event);
    if (error == cudaErrorCudartUnloading)
        return COLLET_SUCCESS;
    if (error != cudaErrorNotReady)
        return error == cudaSuccess ? COLLET_SUCCESS : err_cuda(error, "work on the GPU has failed");
    cudaGetLastError();
    return COLLET_IN_PROGRESS;
}

/* The default stream has two names. It cannot be captured. Even a query of it is an error during a capture of another stream. */
static bool is_legacy(const void *stream) { return stream == NULL || stream == cudaStreamLegacy; }

static enum collet_result cuda_capture(void *stream, uint64_t *capture_p) {
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
#if CUDART_VERSION >= 13000
    if (!is_legacy(stream))
        CUDA_TRY(cudaStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL, NULL));
#else
    if (!is_legacy(stream))
        CUDA_TRY(cudaStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL));
#endif
    *capture_p = status == cudaStreamCaptureStatusActive ? id : 0;
    return COLLET_SUCCESS;
}

static enum collet_result cuda_id(void *stream, uint64_t *id_p) {
    unsigned long long id = UINT64_MAX;
    if (!is_legacy(stream))
        CUDA_TRY(cudaStreamGetId(stream, &id));
    *id_p = id;
    return COLLET_SUCCESS;
}

static enum collet_result cuda_copy(void *to, const void *from, size_t bytes, void *stream) {
    CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
    return COLLET_SUCCESS;
}

static enum collet_result cuda_call(void (*function)(void *argument), void *argument, void *stream) {
    CUDA_TRY(cudaLaunchHostFunc(stream, function, argument));
    return COLLET_SUCCESS;
}

static enum collet_result cuda_launch(const void *kernel, uint32_t blocks, uint32_t lanes, const void *argument,
                                      void *stream) {
    void *arguments[] = {(void *)argument};
    struct dim3 grid = {blocks, 1, 1}, block = {lanes, 1, 1};
    CUDA_TRY(cudaLaunchKernel(kernel, grid, block, arguments, 0, stream));
    return COLLET_SUCCESS;
}

static uint32_t cuda_resident(int ordinal) { return __atomic_load_n(&resident_blocks[ordinal], __ATOMIC_RELAXED); }

static bool cuda_is_for_gpus(const void *address) {
    struct cudaPointerAttributes attributes;
    const cudaError_t error = cudaPointerGetAttributes(&attributes, address);
    if (error != cudaSuccess)
        cudaGetLastError();
    return error == cudaSuccess && attributes.type != cudaMemoryTypeUnregistered;
}

static const struct gpu_memory cuda_memory = {
    .create = cuda_memory_create,
    .clear = cuda_clear,
    .destroy = cuda_block_give_back,
    .destroy_now = cuda_block_free,
    .pinned_create = cuda_pinned_create,
    .pinned_destroy = cuda_block_give_back,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .sweep = cuda_blocks_sweep,
    .write = cuda_write,
    .is_for_gpus = cuda_is_for_gpus,
};

static const struct gpu_sharing cuda_sharing = {
    .can_reach = cuda_can_reach,
    .open_peer = cuda_open_peer,
    .keeps_lines = cuda_keeps_lines,
    .create = cuda_shared_create,
    .destroy = cuda_shared_destroy,
    .attach = cuda_attach,
    .detach = cuda_detach,
    .sweep = cuda_blocks_unmap,
    .direct = gpu_cuda_direct,
    .export_dmabuf = gpu_cuda_export_dmabuf,
    .flush = gpu_cuda_flush,
};

static const struct gpu_streams cuda_streams = {
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .record = cuda_record,
    .wait = cuda_wait,
    .query = cuda_query,
    .capture = cuda_capture,
    .id = cuda_id,
    .copy = cuda_copy,
    .has_words = gpu_cuda_has_words,
    .words = gpu_cuda_words,
    .call = cuda_call,
    .launch = cuda_launch,
    .resident = cuda_resident,
};

extern const struct gpu_driver gpu_driver_cuda;
const struct gpu_driver gpu_driver_cuda = {
    .kernels = &gpu_cuda_kernels,
    .max_lanes = GPU_LANES,
    .memory = &cuda_memory,
    .sharing = &cuda_sharing,
    .teams = &cuda_teams,
    .streams = &cuda_streams,
    .count = cuda_count,
    .current = cuda_current,
    .open = cuda_open,
    .bus = cuda_bus,
    .identity = cuda_identity,
    .capability = cuda_capability,
    .model = cuda_model,
    .takes_turns = cuda_takes_turns,
    .enter = cuda_enter,
    .enter_streams = cuda_enter_streams,
    .leave = cuda_leave,
};
