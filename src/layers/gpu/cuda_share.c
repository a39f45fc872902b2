/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a GPU that other processes attach, in CUDA's two ways:
 *
 *    a handle       cudaMalloc ─▶ cudaIpcGetMemHandle ══ 64 bytes ══▶ cudaIpcOpenMemHandle
 *    a descriptor   cuMemCreate ─▶ cuMemExport… ══ a descriptor ══▶ cuMemImport… ─▶ reserve addresses ─▶ map ─▶ allow access
 *
 * The second way is virtual memory management (cuda_vmm.h). The object's handle is released as soon as the object is mapped. The memory
 * ends with the last mapping, in either process.
 *
 * Nothing is unmapped or closed at once: cuda_blocks.h says when it happens.
 *
 * Run between processes on one H200 on 2026-11-26, never between GPUs.
 */
#include "layers/gpu/cuda_share.h"

#include "base/err.h"
#include "layers/gpu/cuda_blocks.h"
#include "layers/gpu/cuda_entry.h"
#include "layers/gpu/cuda_team.h"
#include "layers/gpu/cuda_vmm.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define PAGE_BYTES ((size_t)2 << 20) /* whole pages of a GPU: no other memory lies on the pages that a handle shares */

_Static_assert(sizeof(cudaIpcMemHandle_t) <= GPU_HANDLE_BYTES, "travels in an offer");

static enum collet_result err_runtime(cudaError_t error, const char *what) {
    cudaGetLastError();
    return err_set(error == cudaErrorMemoryAllocation ? COLLET_ERR_NO_MEMORY : COLLET_ERR_SYSTEM, "%s: %s", what,
                   cudaGetErrorString(error));
}

/* Notes memory. If there is no room for the note, frees the memory: it could not be given back later. */
static enum collet_result note(enum cuda_block kind, void *memory, size_t bytes) {
    int ordinal;
    cudaError_t error = cudaGetDevice(&ordinal);
    if (error != cudaSuccess)
        return err_runtime(error, "cudaGetDevice");
    return cuda_block_note(kind, ordinal, memory, bytes)
               ? COLLET_SUCCESS
               : err_set(COLLET_ERR_NO_MEMORY, "no memory to note %zu bytes of CUDA's", bytes);
}

/* ---- by descriptor ---- */

/* A GPU that has opened this one as a peer reaches memory of cudaMalloc. It reaches mapped memory only after this call. */
static enum collet_result allow_peers(void *memory, size_t bytes) {
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    int own, count, can;
    COLLET_TRY(cuda_vmm_here(&access.location));
    own = access.location.id;
    if (cudaGetDeviceCount(&count) != cudaSuccess)
        return COLLET_SUCCESS;
    for (access.location.id = 0; access.location.id < count; access.location.id++)
        if (access.location.id != own && cudaDeviceCanAccessPeer(&can, access.location.id, own) == cudaSuccess && can)
            CUDA_VMM_TRY(cuda_vmm.allow((CUdeviceptr)(uintptr_t)memory, bytes, &access, 1));
    return COLLET_SUCCESS;
}

/* Undoes create(), which has made, mapped and named the memory. */
static enum collet_result publish(CUmemGenericAllocationHandle object, void **memory_p, struct gpu_name *name) {
    int fd;
    COLLET_TRY(cuda_vmm_export(object, &fd));
    enum collet_result result = cuda_vmm_map(name->bytes, object, memory_p);
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
    CUmemGenericAllocationHandle object;
    size_t page;
    COLLET_TRY(cuda_vmm_find());
    COLLET_TRY(cuda_vmm_here(&what.location));
    CUDA_VMM_TRY(cuda_vmm.granularity(&page, &what, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    page = cuda_team_granule(what.location.id, page);
    *name = (struct gpu_name){.bytes = (bytes + page - 1) / page * page, .fd = -1};
    *memory_p = NULL;
    CUDA_VMM_TRY(cuda_vmm.create(&object, name->bytes, &what, 0));
    enum collet_result result = publish(object, memory_p, name);
    cuda_vmm.release(object);
    if (result == COLLET_SUCCESS) {
        result = note(BLOCK_MAPPED, *memory_p, name->bytes);
        if (result != COLLET_SUCCESS)
            close(name->fd);
    }
    if (result != COLLET_SUCCESS && *memory_p != NULL) {
        cuda_vmm_unmap(*memory_p, name->bytes);
        *memory_p = NULL;
    }
    return result;
}

static enum collet_result attach_by_fd(const struct gpu_name *name, void **memory_p) {
    CUmemGenericAllocationHandle object;
    COLLET_TRY(cuda_vmm_import(name->fd, &object));
    enum collet_result result = cuda_vmm_map(name->bytes, object, memory_p);
    cuda_vmm.release(object);
    COLLET_TRY(result);
    result = note(BLOCK_MAPPED, *memory_p, name->bytes);
    if (result != COLLET_SUCCESS)
        cuda_vmm_unmap(*memory_p, name->bytes);
    return result;
}

/* ---- by handle ---- */

/* A handle names a whole allocation of the driver, and is opened at the beginning of that. Is `memory` such a beginning? */
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
        enum collet_result noted = note(BLOCK_NAMED, memory, name->bytes);
        if (noted != COLLET_SUCCESS)
            cudaFree(memory);
        COLLET_TRY(noted);
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
    if (error != cudaSuccess)
        return err_runtime(error, "cudaIpcOpenMemHandle");
    enum collet_result result = note(BLOCK_OPENED, *memory_p, name->bytes);
    if (result != COLLET_SUCCESS)
        cudaIpcCloseMemHandle(*memory_p);
    return result;
}

/* ---- either ---- */

enum collet_result cuda_shared_create(size_t bytes, bool by_fd, void **memory_p, struct gpu_name *name) {
    return by_fd ? create_by_fd(bytes, memory_p, name) : create_by_handle(bytes, memory_p, name);
}

void cuda_shared_destroy(void *memory, const struct gpu_name *name) {
    (void)name;
    cuda_block_give_back(memory);
}

enum collet_result cuda_attach(const struct gpu_name *name, void **memory_p) {
    return name->fd >= 0 ? attach_by_fd(name, memory_p) : attach_by_handle(name, memory_p);
}

void cuda_detach(void *memory, const struct gpu_name *name) {
    (void)name;
    cuda_block_give_back(memory);
}
