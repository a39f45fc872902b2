/* SPDX-License-Identifier: Apache-2.0
 *
 * Run on one H200 on 2026-11-26, never on several GPUs.
 */
#include "layers/gpu/cuda_vmm.h"

#include "base/os.h"
#include "base/remedy.h"
#include "layers/gpu/cuda_entry.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

struct cuda_vmm cuda_vmm;

/* Every thread finds the same functions, so no lock is needed. */
enum collet_result cuda_vmm_find_all(const struct cuda_function *functions, size_t n, unsigned version) {
    for (size_t k = 0; k < n; k++) {
        void *function = cuda_entry(functions[k].name, version);
        if (function == NULL)
            return err_set(COLLET_ERR_UNSUPPORTED, "the CUDA driver has no %s", functions[k].name);
        __atomic_store_n((void **)functions[k].place, function, __ATOMIC_RELAXED);
    }
    return COLLET_SUCCESS;
}

enum collet_result cuda_vmm_find(void) {
    const struct cuda_function functions[] = {
        {"cuMemGetAllocationGranularity", &cuda_vmm.granularity},
        {"cuMemCreate", &cuda_vmm.create},
        {"cuMemRelease", &cuda_vmm.release},
        {"cuMemExportToShareableHandle", &cuda_vmm.export_fd},
        {"cuMemImportFromShareableHandle", &cuda_vmm.import_fd},
        {"cuMemAddressReserve", &cuda_vmm.reserve},
        {"cuMemAddressFree", &cuda_vmm.unreserve},
        {"cuMemMap", &cuda_vmm.map},
        {"cuMemUnmap", &cuda_vmm.unmap},
        {"cuMemSetAccess", &cuda_vmm.allow},
    };
    return cuda_vmm_find_all(functions, sizeof(functions) / sizeof(*functions), 10020);
}

enum collet_result cuda_vmm_here(CUmemLocation *location) {
    int ordinal;
    cudaError_t error = cudaGetDevice(&ordinal);
    if (error != cudaSuccess) {
        cudaGetLastError();
        return err_set(COLLET_ERR_SYSTEM, "cudaGetDevice: %s", cudaGetErrorString(error));
    }
    *location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
    return COLLET_SUCCESS;
}

static enum collet_result map_at(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle object) {
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    COLLET_TRY(cuda_vmm_here(&access.location));
    CUDA_VMM_TRY(cuda_vmm.map(address, bytes, 0, object, 0));
    CUresult error = cuda_vmm.allow(address, bytes, &access, 1);
    if (error == CUDA_SUCCESS)
        return COLLET_SUCCESS;
    cuda_vmm.unmap(address, bytes);
    return err_set(COLLET_ERR_SYSTEM, "GPU %d may not use memory that was shared with it (CUresult %d)",
                   access.location.id, (int)error);
}

enum collet_result cuda_vmm_map(size_t bytes, CUmemGenericAllocationHandle object, void **memory_p) {
    CUdeviceptr address;
    CUDA_VMM_TRY(cuda_vmm.reserve(&address, bytes, 0, 0, 0));
    enum collet_result result = map_at(address, bytes, object);
    if (result != COLLET_SUCCESS)
        cuda_vmm.unreserve(address, bytes);
    *memory_p = result == COLLET_SUCCESS ? (void *)(uintptr_t)address : NULL;
    return result;
}

void cuda_vmm_unmap(void *memory, size_t bytes) {
    cuda_vmm.unmap((CUdeviceptr)(uintptr_t)memory, bytes);
    cuda_vmm.unreserve((CUdeviceptr)(uintptr_t)memory, bytes);
}

enum collet_result cuda_vmm_export(CUmemGenericAllocationHandle object, int *fd_p) {
    int fd;
    CUDA_VMM_TRY(cuda_vmm.export_fd(&fd, object, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    *fd_p = os_high(fd);
    return *fd_p >= 0 ? COLLET_SUCCESS
                      : err_set(COLLET_ERR_SYSTEM, "no descriptor for memory of a GPU: %m%s", os_remedy());
}

enum collet_result cuda_vmm_import(int fd, CUmemGenericAllocationHandle *object_p) {
    COLLET_TRY(cuda_vmm_find());
    CUDA_VMM_TRY(cuda_vmm.import_fd(object_p, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    return COLLET_SUCCESS;
}
