/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: where it comes from, and what is known of it.
 */
#include "gpusim/machine.h"
#include "gpusim/sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES ((size_t)4096)
#define ARENA_BYTES ((size_t)64 << 30)
#define FRESH 0xA5

static struct sim_range *ranges;

/* ---- addresses ---- */

void *sim_addresses_take(size_t bytes) {
    static char *next, *end;
    if (next == NULL) {
        next = mmap(NULL, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (next == MAP_FAILED)
            sim_violation("no addresses for memory of GPUs");
        end = next + ARENA_BYTES;
    }
    bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES + PAGE_BYTES; /* one that nobody may touch */
    if (bytes > (size_t)(end - next))
        return NULL;
    next += bytes;
    return next - bytes;
}

bool sim_addresses_back(void *base, size_t bytes, int fd, size_t offset) {
    int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    return mmap(base, bytes, fd >= 0 ? PROT_READ | PROT_WRITE : PROT_NONE, flags | MAP_FIXED, fd, (off_t)offset) ==
           base;
}

/* ---- ranges ---- */

struct sim_range *sim_range_at(const void *address) {
    struct sim_range *range = ranges;
    while (range != NULL &&
           ((const char *)address < range->base || (const char *)address >= range->base + range->bytes))
        range = range->next;
    return range;
}

struct sim_range *sim_range_opened(uint64_t handle) {
    struct sim_range *range = ranges;
    while (range != NULL && (range->kind != MEMORY_IMPORTED || range->handle != handle))
        range = range->next;
    return range;
}

static enum gpusim_kind machine_kind(enum sim_memory kind) {
    switch (kind) {
    case MEMORY_OF_GPU: return GPUSIM_DEVICE_MEMORY;
    case MEMORY_MANAGED:
    case MEMORY_PINNED:
    case MEMORY_REGISTERED: return GPUSIM_HOST_MEMORY;
    case MEMORY_MULTICAST: return GPUSIM_MULTICAST;
    default: return GPUSIM_GRANTED;
    }
}

cudaError_t sim_range_add(enum sim_memory kind, void *base, size_t bytes, uint32_t owner, struct sim_range **range_p) {
    struct sim_range *range = calloc(1, sizeof(*range));
    if (range == NULL || !gpusim_range_add(base, bytes, machine_kind(kind), owner)) {
        free(range);
        return cudaErrorMemoryAllocation;
    }
    *range = (struct sim_range){.next = ranges, .base = base, .bytes = bytes, .kind = kind};
    range->device = sim_device_here();
    ranges = range;
    if (range_p != NULL)
        *range_p = range;
    return cudaSuccess;
}

void sim_range_remove(struct sim_range *range) {
    struct sim_range **link = &ranges;
    while (*link != range)
        link = &(*link)->next;
    *link = range->next;
    /* The machine overwrites what is freed; of a mapping only the mapping ends. */
    if (range->kind == MEMORY_IMPORTED || range->kind == MEMORY_MAPPED)
        mmap(range->base, range->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    gpusim_range_free(range->base);
    free(range);
}

/* ---- memory of a GPU: short pieces lie in one file, as a driver keeps them in one page of the GPU ---- */

#define PIECE_BYTES (SIM_GRANULE / 2) /* what is longer has a file of its own */
#define PIECE_ALIGN ((size_t)512)     /* and as much between two, which is nobody's */

static struct pieces {
    struct sim_file *file; /* NULL: none with room */
    size_t used;
} pieces[SIM_GPUS_MAX]; /* by ordinal */

static cudaError_t piece_take(const struct sim_device *device, size_t bytes, struct sim_file **file_p,
                              void **memory_p) {
    struct pieces *here = &pieces[device->ordinal];
    void *base;
    cudaError_t error = cudaSuccess;
    if (here->file == NULL || here->used + bytes > SIM_GRANULE) {
        here->used = 0;
        error = sim_file_create(SIM_GRANULE, device, &here->file, &base);
        if (error == cudaSuccess)
            here->file->base = base;
    }
    if (error != cudaSuccess)
        return error;
    *file_p = here->file;
    *memory_p = here->file->base + here->used;
    here->used += (bytes + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN + PIECE_ALIGN;
    return cudaSuccess;
}

static cudaError_t memory_take(const struct sim_device *device, size_t bytes, struct sim_file **file_p,
                               void **memory_p) {
    cudaError_t error = bytes <= PIECE_BYTES ? piece_take(device, bytes, file_p, memory_p)
                                             : sim_file_create(bytes, device, file_p, memory_p);
    if (error == cudaSuccess && bytes > PIECE_BYTES)
        (*file_p)->base = *memory_p;
    if (error == cudaSuccess)
        (*file_p)->pieces++;
    return error;
}

/* With its last piece the file goes. */
static void file_give_back(const struct sim_device *device, struct sim_file *file) {
    char *base = file->base;
    size_t bytes = file->head->bytes;
    if (--file->pieces > 0)
        return;
    if (pieces[device->ordinal].file == file)
        pieces[device->ordinal].file = NULL;
    sim_file_destroy(file);
    sim_addresses_back(base, bytes, -1, 0);
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    SIM_CALL(SIM_UNSAFE);
    struct sim_device *device = sim_device_here();
    struct sim_range *range;
    struct sim_file *file;
    *memory = NULL;
    if (bytes == 0)
        return cudaSuccess;
    cudaError_t error = memory_take(device, bytes, &file, memory);
    if (error != cudaSuccess)
        return sim_result(error);
    memset(*memory, FRESH, bytes);
    error = sim_range_add(MEMORY_OF_GPU, *memory, bytes, device->place, &range);
    if (error == cudaSuccess)
        range->file = file;
    return sim_result(error);
}

static void range_end(struct sim_range *range) {
    const struct sim_device *device = range->device;
    struct sim_file *file = range->file;
    void *memory = range->base;
    size_t bytes = range->bytes;
    if (range->has_handle)
        sim_file_expect_no_user(file);
    sim_range_remove(range);
    if (file != NULL)
        file_give_back(device, file);
    else
        sim_addresses_back(memory, bytes, -1, 0);
}

/* Objects that are mapped are of no context. */
void sim_memory_end(const struct sim_device *device) {
    for (struct sim_range *range = ranges, *next; range != NULL; range = next) {
        next = range->next;
        if (range->device != device || range->kind > MEMORY_IMPORTED)
            continue;
        if (range->kind == MEMORY_IMPORTED)
            sim_range_close(range);
        else if (range->kind == MEMORY_REGISTERED)
            sim_range_remove(range);
        else
            range_end(range);
    }
}

/* Of the range that begins there; with nothing of the device under way. */
static cudaError_t memory_end(void *memory, bool of_host) {
    struct sim_range *range = sim_range_at(memory);
    if (range == NULL || range->base != memory || (range->kind == MEMORY_PINNED) != of_host ||
        range->kind >= MEMORY_REGISTERED)
        return cudaErrorInvalidValue;
    sim_wait_for_kernels(of_host ? NULL : range->device);
    range_end(range);
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory) {
    SIM_CALL(SIM_UNSAFE);
    return memory == NULL ? cudaSuccess : sim_result(memory_end(memory, false));
}

cudaError_t cudaFreeHost(void *memory) {
    SIM_CALL(SIM_UNSAFE);
    return memory == NULL ? cudaSuccess : sim_result(memory_end(memory, true));
}

/* Memory with a page of its own at addresses of its own. */
static cudaError_t memory_make(enum sim_memory kind, size_t bytes, void **memory_p) {
    *memory_p = sim_addresses_take(bytes);
    if (*memory_p == NULL || mprotect(*memory_p, bytes, PROT_READ | PROT_WRITE) != 0)
        return cudaErrorMemoryAllocation;
    memset(*memory_p, FRESH, bytes);
    return sim_range_add(kind, *memory_p, bytes, sim_device_here()->place, NULL);
}

cudaError_t cudaMallocManaged(void **memory, size_t bytes, unsigned flags) {
    SIM_CALL(SIM_UNSAFE);
    if (bytes == 0 || flags != cudaMemAttachGlobal)
        return sim_result(cudaErrorInvalidValue);
    return sim_result(memory_make(MEMORY_MANAGED, bytes, memory));
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags) {
    SIM_CALL(SIM_UNSAFE);
    (void)flags; /* with unified addressing all of it is mapped and portable */
    return sim_result(bytes == 0 ? cudaErrorInvalidValue : memory_make(MEMORY_PINNED, bytes, memory));
}

cudaError_t cudaMallocHost(void **memory, size_t bytes) { return cudaHostAlloc(memory, bytes, cudaHostAllocDefault); }

/* ---- pools: each device has one, whose memory its own kernels may use, and those that are granted it ---- */

static void grant_pool(const struct sim_range *range) {
    for (int k = 0; k < sim_device_count(); k++) {
        bool may = range->device->pool >> k & 1;
        gpusim_range_grant(range->base, sim_device(k)->place, may, may);
    }
}

cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream) {
    SIM_CALL(SIM_UNSAFE);
    if (sim_stream_of(stream) == NULL)
        return sim_result(cudaErrorInvalidResourceHandle);
    cudaError_t error = memory_make(MEMORY_OF_POOL, bytes, memory);
    if (error == cudaSuccess)
        grant_pool(sim_range_at(*memory));
    return sim_result(error);
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream) {
    cudaStreamSynchronize(stream);
    return cudaFree(memory);
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int ordinal) {
    SIM_CALL(SIM_SAFE);
    *pool = (cudaMemPool_t)sim_device(ordinal);
    return sim_result(*pool == NULL ? cudaErrorInvalidDevice : cudaSuccess);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *descriptions, size_t n) {
    SIM_CALL(SIM_UNSAFE);
    struct sim_device *device = (struct sim_device *)pool;
    for (size_t k = 0; k < n; k++) {
        const struct sim_device *user = sim_device(descriptions[k].location.id);
        if (user == NULL || (user != device && sim_link(user->place, device->place) == LINK_NONE))
            return sim_result(cudaErrorInvalidDevice);
        device->pool &= ~(1u << user->ordinal);
        device->pool |= (uint32_t)(descriptions[k].flags == cudaMemAccessFlagsProtReadWrite) << user->ordinal;
    }
    for (const struct sim_range *range = ranges; range != NULL; range = range->next)
        if (range->kind == MEMORY_OF_POOL && range->device == device)
            grant_pool(range);
    return cudaSuccess;
}

/* ---- memory of the host that is there already ---- */

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags) {
    SIM_CALL(SIM_UNSAFE);
    (void)flags;
    if (bytes == 0 || memory == NULL)
        return sim_result(cudaErrorInvalidValue);
    if (sim_range_at(memory) != NULL || sim_range_at((char *)memory + bytes - 1) != NULL)
        return sim_result(cudaErrorHostMemoryAlreadyRegistered);
    return sim_result(sim_range_add(MEMORY_REGISTERED, memory, bytes, 0, NULL));
}

cudaError_t cudaHostUnregister(void *memory) {
    SIM_CALL(SIM_UNSAFE);
    struct sim_range *range = sim_range_at(memory);
    if (range == NULL || range->base != memory || range->kind != MEMORY_REGISTERED)
        return sim_result(cudaErrorHostMemoryNotRegistered);
    sim_wait_for_kernels(NULL);
    sim_range_remove(range);
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **on_device, void *memory, unsigned flags) {
    SIM_CALL(SIM_SAFE);
    const struct sim_range *range = sim_range_at(memory);
    if (range == NULL || (range->kind != MEMORY_REGISTERED && range->kind != MEMORY_PINNED) || flags != 0)
        return sim_result(cudaErrorInvalidValue);
    *on_device = memory;
    return cudaSuccess;
}

/* ---- questions ---- */

enum cudaMemoryType sim_type_of(const struct sim_range *range) {
    if (range == NULL)
        return cudaMemoryTypeUnregistered;
    if (range->kind == MEMORY_MANAGED)
        return cudaMemoryTypeManaged;
    return range->kind == MEMORY_PINNED || range->kind == MEMORY_REGISTERED ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory) {
    SIM_CALL(SIM_SAFE);
    const struct sim_range *range = sim_range_at(memory);
    memset(attributes, 0, sizeof(*attributes));
    attributes->type = sim_type_of(range);
    attributes->device = range == NULL ? -2 : range->device->ordinal;
    attributes->devicePointer = range == NULL ? NULL : (void *)memory;
    attributes->hostPointer = attributes->type == cudaMemoryTypeDevice ? NULL : (void *)memory;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total) {
    SIM_CALL(SIM_SAFE);
    *unused = *total = (size_t)4 << 30;
    return cudaSuccess;
}

CUresult sim_cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
    SIM_DRIVER_CALL(SIM_SAFE);
    const struct sim_range *range = sim_range_at((void *)(uintptr_t)address);
    if (range == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const bool is_piece = range->kind == MEMORY_OF_GPU;
    *base = (CUdeviceptr)(uintptr_t)(is_piece ? range->file->base : range->base);
    *bytes = is_piece ? range->file->head->bytes : range->bytes;
    return CUDA_SUCCESS;
}
