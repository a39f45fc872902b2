/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's virtual memory management. An object (memory) and its mapping (an address) are two things here. The driver has these functions;
 * the runtime does not offer them.
 *
 *    cuMemCreate, cuMulticastCreate ─▶ object ─▶ export ══ a descriptor ══▶ import ─▶ object, in another process
 *                                        └─▶ reserve addresses ─▶ map ─▶ allow access
 *
 * An object and every mapping of it keep it alive.
 */
#ifndef COLLET_LAYERS_GPU_CUDA_VMM_H
#define COLLET_LAYERS_GPU_CUDA_VMM_H

#include "base/err.h"

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

struct cuda_vmm {
    CUresult (*granularity)(size_t *bytes, const CUmemAllocationProp *what, CUmemAllocationGranularity_flags which);
    CUresult (*create)(CUmemGenericAllocationHandle *object, size_t bytes, const CUmemAllocationProp *what,
                       unsigned long long flags);
    CUresult (*release)(CUmemGenericAllocationHandle object);
    CUresult (*export_fd)(void *fd, CUmemGenericAllocationHandle object, CUmemAllocationHandleType type,
                          unsigned long long flags);
    CUresult (*import_fd)(CUmemGenericAllocationHandle *object, void *fd, CUmemAllocationHandleType type);
    CUresult (*reserve)(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wish,
                        unsigned long long flags);
    CUresult (*unreserve)(CUdeviceptr address, size_t bytes);
    CUresult (*map)(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle object,
                    unsigned long long flags);
    CUresult (*unmap)(CUdeviceptr address, size_t bytes);
    CUresult (*allow)(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *who, size_t n);
};
extern struct cuda_vmm cuda_vmm;

/* Finds the functions. Call it before any of them. UNSUPPORTED: the driver lacks one. */
enum collet_result cuda_vmm_find(void);

struct cuda_function {
    const char *name;
    void *place; /* address of the pointer to the function */
};
enum collet_result cuda_vmm_find_all(const struct cuda_function *functions, size_t n, unsigned version);

#define CUDA_VMM_TRY(call)                                                                                             \
    do {                                                                                                               \
        CUresult error_ = (call);                                                                                      \
        if (error_ != CUDA_SUCCESS)                                                                                    \
            return err_set(error_ == CUDA_ERROR_OUT_OF_MEMORY ? COLLET_ERR_NO_MEMORY : COLLET_ERR_SYSTEM,              \
                           "memory of a GPU that is shared by descriptor: %s failed (CUresult %d)", #call,             \
                           (int)error_);                                                                               \
    } while (0)

/* Stores the GPU that is current, as a place of memory. */
enum collet_result cuda_vmm_here(CUmemLocation *location);

/* Maps all of an object, for the GPU that is current. */
enum collet_result cuda_vmm_map(size_t bytes, CUmemGenericAllocationHandle object, void **memory_p);
void cuda_vmm_unmap(void *memory, size_t bytes);

enum collet_result cuda_vmm_export(CUmemGenericAllocationHandle object, int *fd_p);
enum collet_result cuda_vmm_import(int fd, CUmemGenericAllocationHandle *object_p);

#endif
