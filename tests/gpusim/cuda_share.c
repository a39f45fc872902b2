/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of GPUs between processes: by cudaIpc handles, and by descriptors of virtual memory management.
 *
 *    the file of a piece of memory   │ head, a page │ the memory │
 *
 * The head says whether its maker still has it, and which processes have it open. A handle names the maker and its descriptor of
 * the file.
 */
#include "gpusim/machine.h"
#include "gpusim/sim.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(sizeof(struct sim_file_head) <= SIM_HEAD_BYTES, "has a page");

/* ---- files ---- */

static struct sim_file_head *head_of(int fd) {
    void *head = mmap(NULL, SIM_HEAD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return head == MAP_FAILED ? NULL : head;
}

/* Takes the descriptor. */
static struct sim_file *file_of(int fd) {
    struct sim_file *file = malloc(sizeof(*file));
    if (fd < 0 || file == NULL || (file->head = head_of(fd)) == NULL) {
        free(file);
        return NULL;
    }
    file->fd = fd;
    file->pieces = 0;
    file->base = NULL;
    return file;
}

static void file_close(struct sim_file *file) {
    munmap(file->head, SIM_HEAD_BYTES);
    close(file->fd);
    free(file);
}

struct sim_file *sim_file_make(size_t bytes, uint32_t place) {
    int fd = memfd_create("gpusim", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)(SIM_HEAD_BYTES + bytes)) != 0) {
        close(fd);
        return NULL;
    }
    struct sim_file *file = file_of(fd);
    if (file != NULL)
        *file->head = (struct sim_file_head){.place = place, .bytes = bytes};
    return file;
}

cudaError_t sim_file_create(size_t bytes, const struct sim_device *device, struct sim_file **file_p, void **base_p) {
    *base_p = sim_addresses_take(bytes);
    *file_p = *base_p == NULL ? NULL : sim_file_make(bytes, device->place);
    if (*file_p == NULL || !sim_addresses_back(*base_p, bytes, (*file_p)->fd, SIM_HEAD_BYTES))
        return cudaErrorMemoryAllocation;
    return cudaSuccess;
}

void sim_file_expect_no_user(const struct sim_file *file) {
    for (int k = 0; k < SIM_USERS_MAX; k++) {
        int32_t user = __atomic_load_n(&file->head->users[k], __ATOMIC_ACQUIRE);
        if (user != 0 && kill(user, 0) == 0)
            sim_violation("memory is freed that process %d still has open", user);
    }
}

void sim_file_destroy(struct sim_file *file) {
    file->head->is_freed = 1;
    sim_file_expect_no_user(file);
    file_close(file);
}

static void note_user(struct sim_file_head *head, int32_t before, int32_t after) {
    for (int k = 0; k < SIM_USERS_MAX; k++) {
        int32_t expected = before;
        if (__atomic_compare_exchange_n(&head->users[k], &expected, after, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return;
    }
    sim_violation("memory is open in more than %d processes", SIM_USERS_MAX);
}

/* ---- by handle: it names all that lies in the file, and is opened at the beginning of that. Opened twice it has one address ---- */

struct handle {
    int32_t pid, fd;
    uint64_t bytes;
};
_Static_assert(sizeof(struct handle) <= sizeof(cudaIpcMemHandle_t), "is one");

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory) {
    SIM_CALL(SIM_UNSAFE);
    struct sim_range *range = sim_range_at(memory);
    if (range == NULL || range->kind != MEMORY_OF_GPU || range->device->instance > 0)
        return sim_result(cudaErrorInvalidValue);
    range->has_handle = true;
    struct handle text = {.pid = (int32_t)getpid(), .fd = range->file->fd, .bytes = range->file->head->bytes};
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &text, sizeof(text));
    return cudaSuccess;
}

static struct sim_file *file_of_handle(const struct handle *handle) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->pid, handle->fd);
    return file_of(open(path, O_RDWR | O_CLOEXEC));
}

/* Maps memory of another process for the current device. */
static cudaError_t import(struct sim_file *file, void **memory_p) {
    const struct sim_device *device = sim_device_here();
    size_t bytes = file->head->bytes;
    struct sim_range *range;
    if (file->head->is_freed)
        return cudaErrorInvalidResourceHandle;
    if (sim_link(device->place, file->head->place) == LINK_NONE)
        return cudaErrorMapBufferObjectFailed;
    *memory_p = sim_addresses_take(bytes);
    if (*memory_p == NULL || !sim_addresses_back(*memory_p, bytes, file->fd, SIM_HEAD_BYTES))
        return cudaErrorMemoryAllocation;
    cudaError_t error = sim_range_add(MEMORY_IMPORTED, *memory_p, bytes, file->head->place, &range);
    if (error != cudaSuccess)
        return error;
    gpusim_range_grant(*memory_p, device->place, true, true);
    range->file = file;
    range->opened = 1;
    note_user(file->head, 0, (int32_t)getpid());
    return cudaSuccess;
}

static uint64_t number_of(const struct handle *handle) {
    return (uint64_t)(uint32_t)handle->pid << 32 | (uint32_t)handle->fd;
}

static bool open_again(const struct handle *handle, void **memory_p) {
    struct sim_range *range = sim_range_opened(number_of(handle));
    if (range == NULL || range->device != sim_device_here())
        return false;
    range->opened++;
    *memory_p = range->base;
    return true;
}

cudaError_t cudaIpcOpenMemHandle(void **memory_p, cudaIpcMemHandle_t handle, unsigned flags) {
    SIM_CALL(SIM_UNSAFE);
    struct handle text;
    memcpy(&text, &handle, sizeof(text));
    if (flags != cudaIpcMemLazyEnablePeerAccess)
        return sim_result(cudaErrorInvalidValue);
    if (text.pid == (int32_t)getpid())
        return sim_result(cudaErrorDeviceUninitialized);
    if (open_again(&text, memory_p))
        return cudaSuccess;
    struct sim_file *file = file_of_handle(&text);
    if (file == NULL)
        return sim_result(cudaErrorInvalidResourceHandle);
    cudaError_t error = import(file, memory_p);
    if (error == cudaSuccess)
        sim_range_at(*memory_p)->handle = number_of(&text);
    else
        file_close(file);
    return sim_result(error);
}

void sim_range_close(struct sim_range *range) {
    struct sim_file *file = range->file;
    void *memory = range->base;
    size_t bytes = range->bytes;
    sim_range_remove(range);
    sim_addresses_back(memory, bytes, -1, 0);
    note_user(file->head, (int32_t)getpid(), 0);
    file_close(file);
}

cudaError_t cudaIpcCloseMemHandle(void *memory) {
    SIM_CALL(SIM_UNSAFE);
    struct sim_range *range = sim_range_at(memory);
    if (range == NULL || range->base != memory || range->kind != MEMORY_IMPORTED)
        return sim_result(cudaErrorInvalidValue);
    if (--range->opened > 0)
        return cudaSuccess;
    sim_wait_for_kernels(range->device);
    sim_range_close(range);
    return cudaSuccess;
}

/* ---- by descriptor: a handle is a file; a mapping keeps the file's memory, whatever becomes of handle and descriptor ---- */

static struct sim_file *file_of_vmm(CUmemGenericAllocationHandle handle) {
    return (struct sim_file *)(uintptr_t)handle;
}

CUresult sim_cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *what,
                                           CUmemAllocationGranularity_flags which) {
    SIM_DRIVER_CALL(SIM_SAFE);
    (void)what, (void)which;
    *bytes = SIM_GRANULE;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *what,
                         unsigned long long flags) {
    SIM_DRIVER_CALL(SIM_UNSAFE);
    const struct sim_device *device = sim_device(what->location.id);
    if (device == NULL || bytes % SIM_GRANULE != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_file *file = sim_file_make(bytes, device->place);
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)file;
    return file == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult sim_cuMemRelease(CUmemGenericAllocationHandle handle) {
    SIM_DRIVER_CALL(SIM_UNSAFE);
    file_close(file_of_vmm(handle));
    return CUDA_SUCCESS;
}

CUresult sim_cuMemExportToShareableHandle(void *fd, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                          unsigned long long flags) {
    SIM_DRIVER_CALL(SIM_UNSAFE);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    *(int *)fd = fcntl(file_of_vmm(handle)->fd, F_DUPFD_CLOEXEC, 0);
    return *(int *)fd < 0 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

CUresult sim_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *fd,
                                            CUmemAllocationHandleType type) {
    SIM_DRIVER_CALL(SIM_UNSAFE);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_file *file = file_of(fcntl((int)(intptr_t)fd, F_DUPFD_CLOEXEC, 0));
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)file;
    return file == NULL ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult sim_cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wish,
                                 unsigned long long flags) {
    SIM_DRIVER_CALL(SIM_UNSAFE);
    (void)alignment, (void)wish;
    *address = (CUdeviceptr)(uintptr_t)sim_addresses_take(bytes);
    return *address == 0 || flags != 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult sim_cuMemAddressFree(CUdeviceptr address, size_t bytes) {
    SIM_DRIVER_CALL(SIM_UNSAFE);
    (void)bytes;
    return sim_range_at((void *)(uintptr_t)address) != NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult sim_cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long flags) {
    SIM_DRIVER_CALL(SIM_UNSAFE);
    const struct sim_file *file = file_of_vmm(handle);
    void *base = (void *)(uintptr_t)address;
    struct sim_range *range;
    if (flags != 0 || offset != 0 || bytes != file->head->bytes || sim_range_at(base) != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (file->head->team.wanted > 0)
        return sim_team_map(file->head, base);
    if (!sim_addresses_back(base, bytes, file->fd, SIM_HEAD_BYTES))
        return CUDA_ERROR_INVALID_VALUE;
    cudaError_t error = sim_range_add(MEMORY_MAPPED, base, bytes, file->head->place, &range);
    if (error == cudaSuccess)
        range->file = file_of(fcntl(file->fd, F_DUPFD_CLOEXEC, 0));
    return (CUresult)error;
}

CUresult sim_cuMemUnmap(CUdeviceptr address, size_t bytes) {
    SIM_DRIVER_CALL(SIM_UNSAFE);
    struct sim_range *range = sim_range_at((void *)(uintptr_t)address);
    if (range == NULL || (range->kind != MEMORY_MAPPED && range->kind != MEMORY_MULTICAST) || range->bytes != bytes)
        return CUDA_ERROR_INVALID_VALUE;
    sim_wait_for_kernels(range->device);
    void *base = range->base;
    if (range->file != NULL)
        file_close(range->file);
    sim_range_remove(range);
    sim_addresses_back(base, bytes, -1, 0);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *who, size_t n) {
    SIM_DRIVER_CALL(SIM_UNSAFE);
    struct sim_range *range = sim_range_at((void *)(uintptr_t)address);
    struct gpusim_range_info info;
    if (range == NULL || range->bytes != bytes || !gpusim_range_of(range->base, &info))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < n; k++) {
        const struct sim_device *user = sim_device(who[k].location.id);
        if (user == NULL || sim_link(user->place, info.owner) == LINK_NONE)
            return CUDA_ERROR_INVALID_DEVICE;
        gpusim_range_grant(range->base, user->place, who[k].flags != 0,
                           who[k].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
    return CUDA_SUCCESS;
}
