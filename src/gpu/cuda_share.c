/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a GPU that other processes attach, in CUDA's two ways:
 *
 *    a handle       cudaMalloc ─▶ cudaIpcGetMemHandle ══ 64 bytes ══▶ cudaIpcOpenMemHandle
 *    a descriptor   cuMemCreate ─▶ cuMemExport… ══ a descriptor ══▶ cuMemImport… ─▶ reserve addresses ─▶ map ─▶ allow access
 *
 * The second one, virtual memory management, is the driver's, without names in the runtime. Memory and every mapping of it
 * keep it alive: its handle goes as soon as it is mapped, and it ends with the last mapping, here or there.
 *
 * Not run on a GPU yet.
 */
#include "gpu/cuda_share.h"

#include "base/err.h"
#include "gpu/cuda_blocks.h"
#include "gpu/cuda_entry.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define PAGE_BYTES                                                                                                     \
    ((size_t)2 << 20) /* whole pages of a GPU: what a handle shares has none in common with anything else */

_Static_assert(sizeof(cudaIpcMemHandle_t) <= GPU_HANDLE_BYTES, "travels in an offer");

static enum collet_result err_runtime(cudaError_t error, const char *what) {
    cudaGetLastError();
    return err_set(error == cudaErrorMemoryAllocation ? COLLET_ERR_NO_MEMORY : COLLET_ERR_SYSTEM, "%s: %s", what,
                   cudaGetErrorString(error));
}

/* ---- the driver's functions ---- */

static struct {
    CUresult (*granularity)(size_t *bytes, const CUmemAllocationProp *what, CUmemAllocationGranularity_flags which);
    CUresult (*create)(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *what,
                       unsigned long long flags);
    CUresult (*release)(CUmemGenericAllocationHandle handle);
    CUresult (*export_fd)(void *fd, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                          unsigned long long flags);
    CUresult (*import_fd)(CUmemGenericAllocationHandle *handle, void *fd, CUmemAllocationHandleType type);
    CUresult (*reserve)(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wish,
                        unsigned long long flags);
    CUresult (*unreserve)(CUdeviceptr address, size_t bytes);
    CUresult (*map)(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags);
    CUresult (*unmap)(CUdeviceptr address, size_t bytes);
    CUresult (*allow)(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *who, size_t n);
} vmm;

/* Finds them; each is the same whoever finds it. */
static enum collet_result find_all(void) {
    const struct {
        const char *name;
        void *place;
    } functions[] = {
        {"cuMemGetAllocationGranularity", &vmm.granularity},
        {"cuMemCreate", &vmm.create},
        {"cuMemRelease", &vmm.release},
        {"cuMemExportToShareableHandle", &vmm.export_fd},
        {"cuMemImportFromShareableHandle", &vmm.import_fd},
        {"cuMemAddressReserve", &vmm.reserve},
        {"cuMemAddressFree", &vmm.unreserve},
        {"cuMemMap", &vmm.map},
        {"cuMemUnmap", &vmm.unmap},
        {"cuMemSetAccess", &vmm.allow},
    };
    for (size_t k = 0; k < sizeof(functions) / sizeof(*functions); k++) {
        void *function = cuda_entry(functions[k].name, 10020);
        if (function == NULL)
            return err_set(COLLET_ERR_UNSUPPORTED, "the CUDA driver has no %s", functions[k].name);
        __atomic_store_n((void **)functions[k].place, function, __ATOMIC_RELAXED);
    }
    return COLLET_SUCCESS;
}

#define VMM_TRY(call)                                                                                                  \
    do {                                                                                                               \
        CUresult error_ = vmm.call;                                                                                    \
        if (error_ != CUDA_SUCCESS)                                                                                    \
            return err_set(error_ == CUDA_ERROR_OUT_OF_MEMORY ? COLLET_ERR_NO_MEMORY : COLLET_ERR_SYSTEM,              \
                           "memory of a GPU that is shared by descriptor: %s failed (CUresult %d)", #call,             \
                           (int)error_);                                                                               \
    } while (0)

/* ---- by descriptor ---- */

static enum collet_result here(CUmemLocation *location) {
    int ordinal;
    cudaError_t error = cudaGetDevice(&ordinal);
    if (error != cudaSuccess)
        return err_runtime(error, "cudaGetDevice");
    *location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
    return COLLET_SUCCESS;
}

static enum collet_result map_at(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle) {
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    COLLET_TRY(here(&access.location));
    VMM_TRY(map(address, bytes, 0, handle, 0));
    CUresult error = vmm.allow(address, bytes, &access, 1);
    if (error == CUDA_SUCCESS)
        return COLLET_SUCCESS;
    vmm.unmap(address, bytes);
    return err_set(COLLET_ERR_SYSTEM, "GPU %d may not use memory that was shared with it (CUresult %d)",
                   access.location.id, (int)error);
}

static enum collet_result map_handle(size_t bytes, CUmemGenericAllocationHandle handle, void **memory_p) {
    CUdeviceptr address;
    VMM_TRY(reserve(&address, bytes, 0, 0, 0));
    enum collet_result result = map_at(address, bytes, handle);
    if (result != COLLET_SUCCESS)
        vmm.unreserve(address, bytes);
    *memory_p = result == COLLET_SUCCESS ? (void *)(uintptr_t)address : NULL;
    return result;
}

static void unmap(void *memory, size_t bytes) {
    vmm.unmap((CUdeviceptr)(uintptr_t)memory, bytes);
    vmm.unreserve((CUdeviceptr)(uintptr_t)memory, bytes);
}

/* GPUs that have opened this one as a peer reach what cudaMalloc gives there, but nothing that is mapped, before it is said. */
static enum collet_result allow_peers(void *memory, size_t bytes) {
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    int own, count, can;
    COLLET_TRY(here(&access.location));
    own = access.location.id;
    if (cudaGetDeviceCount(&count) != cudaSuccess)
        return COLLET_SUCCESS;
    for (access.location.id = 0; access.location.id < count; access.location.id++)
        if (access.location.id != own && cudaDeviceCanAccessPeer(&can, access.location.id, own) == cudaSuccess && can)
            VMM_TRY(allow((CUdeviceptr)(uintptr_t)memory, bytes, &access, 1));
    return COLLET_SUCCESS;
}

/* What create() made, mapped and named. */
static enum collet_result publish(CUmemGenericAllocationHandle handle, void **memory_p, struct gpu_name *name) {
    int fd;
    VMM_TRY(export_fd(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    enum collet_result result = map_handle(name->bytes, handle, memory_p);
    if (result == COLLET_SUCCESS)
        result = allow_peers(*memory_p, name->bytes);
    if (result == COLLET_SUCCESS)
        result = cuda_clear(*memory_p, name->bytes);
    if (result == COLLET_SUCCESS)
        name->fd = fd;
    else
        close(fd);
    return result;
}

static enum collet_result create_by_fd(size_t bytes, void **memory_p, struct gpu_name *name) {
    CUmemAllocationProp what = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemGenericAllocationHandle handle;
    size_t page;
    COLLET_TRY(find_all());
    COLLET_TRY(here(&what.location));
    VMM_TRY(granularity(&page, &what, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    *name = (struct gpu_name){.bytes = (bytes + page - 1) / page * page, .fd = -1};
    *memory_p = NULL;
    VMM_TRY(create(&handle, name->bytes, &what, 0));
    enum collet_result result = publish(handle, memory_p, name);
    vmm.release(handle);
    if (result != COLLET_SUCCESS && *memory_p != NULL) {
        unmap(*memory_p, name->bytes);
        *memory_p = NULL;
    }
    return result;
}

static enum collet_result attach_by_fd(const struct gpu_name *name, void **memory_p) {
    CUmemGenericAllocationHandle handle;
    COLLET_TRY(find_all());
    VMM_TRY(import_fd(&handle, (void *)(uintptr_t)name->fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    enum collet_result result = map_handle(name->bytes, handle, memory_p);
    vmm.release(handle);
    return result;
}

/* ---- by handle ---- */

/* A handle names the whole of what the driver keeps together, and is opened at the beginning of that. */
static bool is_whole(void *memory) {
    CUresult (*range_of)(CUdeviceptr * base, size_t * bytes, CUdeviceptr address) =
        cuda_entry("cuMemGetAddressRange", 11000);
    CUdeviceptr base;
    size_t bytes;
    return range_of != NULL && range_of(&base, &bytes, (CUdeviceptr)(uintptr_t)memory) == CUDA_SUCCESS &&
           base == (CUdeviceptr)(uintptr_t)memory;
}

static enum collet_result create_by_handle(size_t bytes, void **memory_p, struct gpu_name *name) {
    cudaIpcMemHandle_t handle;
    void *memory;
    *name = (struct gpu_name){.bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES, .fd = -1};
    int ordinal;
    cudaError_t error = cudaGetDevice(&ordinal);
    memory = error == cudaSuccess ? cuda_block_take(BLOCK_NAMED, ordinal, name->bytes) : NULL;
    if (memory == NULL) {
        error = cudaMalloc(&memory, name->bytes);
        if (error != cudaSuccess)
            return err_runtime(error, "cudaMalloc");
        if (!cuda_block_note(BLOCK_NAMED, ordinal, memory, name->bytes)) {
            cudaFree(memory);
            return err_set(COLLET_ERR_NO_MEMORY, "no memory to note %zu bytes of CUDA's", (size_t)name->bytes);
        }
    }
    error = cudaIpcGetMemHandle(&handle, memory);
    enum collet_result result = error != cudaSuccess ? err_runtime(error, "cudaIpcGetMemHandle")
                                : is_whole(memory)
                                    ? cuda_clear(memory, name->bytes)
                                    : err_set(COLLET_ERR_UNSUPPORTED, "cudaMalloc gave a part of something larger, "
                                                                      "which has no handle of its own");
    if (result != COLLET_SUCCESS) {
        cuda_block_give_back(memory);
        return result;
    }
    memcpy(name->handle, &handle, sizeof(handle));
    *memory_p = memory;
    return COLLET_SUCCESS;
}

static enum collet_result attach_by_handle(const struct gpu_name *name, void **memory_p) {
    cudaIpcMemHandle_t handle;
    memcpy(&handle, name->handle, sizeof(handle));
    cudaError_t error = cudaIpcOpenMemHandle(memory_p, handle, cudaIpcMemLazyEnablePeerAccess);
    return error == cudaSuccess ? COLLET_SUCCESS : err_runtime(error, "cudaIpcOpenMemHandle");
}

/* ---- either ---- */

enum collet_result cuda_shared_create(size_t bytes, bool by_fd, void **memory_p, struct gpu_name *name) {
    return by_fd ? create_by_fd(bytes, memory_p, name) : create_by_handle(bytes, memory_p, name);
}

void cuda_shared_destroy(void *memory, const struct gpu_name *name) {
    if (name->fd >= 0)
        unmap(memory, name->bytes);
    else
        cuda_block_give_back(memory);
}

enum collet_result cuda_attach(const struct gpu_name *name, void **memory_p) {
    return name->fd >= 0 ? attach_by_fd(name, memory_p) : attach_by_handle(name, memory_p);
}

void cuda_detach(void *memory, const struct gpu_name *name) {
    if (name->fd >= 0)
        unmap(memory, name->bytes);
    else
        cudaIpcCloseMemHandle(memory);
}
