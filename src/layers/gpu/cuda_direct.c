/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports dma-bufs of a GPU's memory (the runtime has no function for that), and makes writes of NICs visible to the GPU.
 *
 * Never run on hardware: that needs a GPU and an RDMA adapter.
 */
#include "layers/gpu/cuda_direct.h"

#include "base/err.h"
#include "base/os.h"
#include "layers/gpu/cuda_entry.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <errno.h>

typedef CUresult (*get_device)(CUdevice *device, int ordinal);
typedef CUresult (*get_attribute)(int *value, CUdevice_attribute attribute, CUdevice device);
typedef CUresult (*get_handle)(void *handle, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type,
                               unsigned long long flags);

static bool exports_dmabuf(int ordinal) {
    get_device device_of = (get_device)cuda_entry("cuDeviceGet", 11000);
    get_attribute attribute_of = (get_attribute)cuda_entry("cuDeviceGetAttribute", 11000);
    CUdevice device;
    int supported = 0;
    return device_of != NULL && attribute_of != NULL && cuda_entry("cuMemGetHandleForAddressRange", 11070) != NULL &&
           device_of(&device, ordinal) == CUDA_SUCCESS &&
           attribute_of(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device) == CUDA_SUCCESS && supported;
}

static int attribute(enum cudaDeviceAttr which, int ordinal) {
    int value = 0;
    cudaError_t error = cudaDeviceGetAttribute(&value, which, ordinal);
    cudaGetLastError();
    return error == cudaSuccess ? value : 0;
}

struct gpu_direct gpu_cuda_direct(int ordinal) {
    return (struct gpu_direct){
        .exports_dmabuf = exports_dmabuf(ordinal),
        .ordered =
            attribute(cudaDevAttrGPUDirectRDMAWritesOrdering, ordinal) >= (int)cudaGPUDirectRDMAWritesOrderingOwner,
        .flushes = (attribute(cudaDevAttrGPUDirectRDMAFlushWritesOptions, ordinal) &
                    (int)cudaFlushGPUDirectRDMAWritesOptionHost) != 0,
    };
}

int gpu_cuda_export_dmabuf(void *memory, size_t bytes) {
    get_handle handle_of = (get_handle)cuda_entry("cuMemGetHandleForAddressRange", 11070);
    int fd = -1;
    bool done = handle_of != NULL &&
                handle_of(&fd, (CUdeviceptr)memory, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) == CUDA_SUCCESS;
    errno = handle_of == NULL ? ENOTSUP : EINVAL;
    return done ? os_high(fd) : -1;
}

enum collet_result gpu_cuda_flush(void) {
    cudaError_t error = cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                                           cudaFlushGPUDirectRDMAWritesToOwner);
    if (error == cudaSuccess)
        return COLLET_SUCCESS;
    cudaGetLastError();
    return err_set(COLLET_ERR_SYSTEM, "cudaDeviceFlushGPUDirectRDMAWrites: %s", cudaGetErrorString(error));
}
