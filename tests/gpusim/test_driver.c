/* SPDX-License-Identifier: Apache-2.0
 *
 * The same: the driver's functions, and what the environment makes of the machine.
 */
#include "gpusim/contract.h"

/* ---- the driver's functions ---- */

#define DRIVER(name) ((__typeof__(name) *)cuda_entry(#name, 12010))
#define GRANULE ((size_t)2 << 20)

static void contexts_are_pushed_and_popped(void) {
    CUcontext context, popped;
    CUdevice device;
    GOOD(cudaFree(NULL));
    EQUAL(DRIVER(cuDeviceGet)(&device, 9), CUDA_ERROR_INVALID_DEVICE);
    EQUAL(DRIVER(cuDevicePrimaryCtxRetain)(&context, 9), CUDA_ERROR_INVALID_DEVICE);
    EQUAL(DRIVER(cuCtxPopCurrent)(&popped), CUDA_ERROR_INVALID_CONTEXT);
    GOOD(DRIVER(cuDeviceGet)(&device, 1));
    GOOD(DRIVER(cuDevicePrimaryCtxRetain)(&context, device));
    GOOD(DRIVER(cuCtxPushCurrent)(context));
    GOOD(cudaGetDevice(&device));
    EQUAL(device, 1);
    GOOD(DRIVER(cuCtxPopCurrent)(&popped));
    EQUAL(context == popped, 1);
    GOOD(DRIVER(cuCtxGetCurrent)(&context));
    EQUAL(context == NULL, 1);
}

static void a_gpu_that_is_none_has_no_properties(void) {
    int value;
    char name[64];
    CUuuid uuid;
    EQUAL(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 9), cudaErrorInvalidDevice);
    EQUAL(cudaDeviceCanAccessPeer(&value, 0, 9), cudaErrorInvalidDevice);
    EQUAL(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrNativeAtomicSupported, 0, 0), cudaErrorInvalidDevice);
    EQUAL(DRIVER(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 9), CUDA_ERROR_INVALID_DEVICE);
    EQUAL(DRIVER(cuDeviceGetUuid)(&uuid, 9), CUDA_ERROR_INVALID_DEVICE);
    GOOD(DRIVER(cuDeviceGetUuid)(&uuid, 1));
    EQUAL(DRIVER(cuDeviceGetName)(name, (int)sizeof name, 9), CUDA_ERROR_INVALID_DEVICE);
    GOOD(DRIVER(cuDeviceGetName)(name, (int)sizeof name, 1));
    EQUAL(strcmp(name, "Simulated GPU"), 0);
}

/* Also one of a call that has nothing to do with it: the thread's last error is whoever's it is. */
static void a_threads_last_error_stays_until_it_is_asked_for(void) {
    int value;
    EQUAL(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 9), cudaErrorInvalidDevice);
    GOOD(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
    EQUAL(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    EQUAL(cudaGetLastError(), cudaErrorInvalidDevice);
    EQUAL(cudaGetLastError(), cudaSuccess);
    EQUAL(strcmp(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice"), 0);
    EQUAL(strcmp(cudaGetErrorString(cudaErrorInvalidDevice), "invalid device ordinal"), 0);
}

static void a_process_without_gpus_is_told_so(void) {
    int n = 5, version;
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    EQUAL(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    EQUAL(n, 0);
    EQUAL(cudaGetDevice(&n), cudaErrorNoDevice);
    GOOD(cudaDriverGetVersion(&version)); /* the driver is there */
    EQUAL(version, CUDART_VERSION);
}

static void a_function_that_the_driver_does_not_have_is_a_null(void) {
    EQUAL(cuda_entry("cuNoSuchFunction", 11000) == NULL, 1);
    EQUAL(cudaGetLastError(), cudaSuccess);
}

static void occupancy_is_that_of_an_empty_gpu(void) {
    int before, beside;
    GOOD(blocks_of_store(&before, 1024));
    EQUAL(before, 1);
    int *word = spin_alone();
    GOOD(blocks_of_store(&beside, 1024)); /* it says nothing of what runs there */
    EQUAL(beside, before);
    GOOD(blocks_of_store(&beside, 2048));
    EQUAL(beside, 0);
    gate_open(word);
    GOOD(cudaDeviceSynchronize());
}

static void a_gpu_that_is_reset_has_nothing_left(void) {
    CUcontext context;
    int *number = number_on(0, 1), *kept = number_on(1, 7), *pinned;
    cudaStream_t stream;
    cudaEvent_t event;
    GOOD(cudaSetDevice(0));
    GOOD(cudaDeviceEnablePeerAccess(1, 0));
    GOOD(cudaHostAlloc((void **)&pinned, sizeof(*pinned), cudaHostAllocDefault));
    GOOD(cudaStreamCreate(&stream));
    GOOD(cudaEventCreate(&event));
    GOOD(DRIVER(cuDevicePrimaryCtxRetain)(&context, 0));
    GOOD(cudaDeviceReset());
    EQUAL(DRIVER(cuCtxPushCurrent)(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EQUAL(gpusim_contexts(), 1 << 1);
    EQUAL(cudaFree(number), cudaErrorInvalidValue);
    EQUAL(cudaFreeHost(pinned), cudaErrorInvalidValue);
    EQUAL(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
    EQUAL(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
    EQUAL(number_at(kept), 7); /* the other GPU's */
    launch_store(kept, 8, NULL);
    EQUAL(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

static void a_context_behind_a_reset_is_another_one(void) {
    unsigned long long before, behind;
    CUcontext context;
    GOOD(DRIVER(cuDevicePrimaryCtxRetain)(&context, 0));
    GOOD(DRIVER(cuCtxGetId)(context, &before));
    GOOD(cudaSetDevice(0));
    GOOD(cudaDeviceReset());
    EQUAL(DRIVER(cuCtxGetId)(context, &behind), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    GOOD(DRIVER(cuDevicePrimaryCtxRetain)(&context, 0));
    GOOD(DRIVER(cuCtxGetId)(context, &behind));
    DIFFER(before, behind);
}

/* "The process must be terminated and relaunched." */
static void a_reset_does_not_mend_a_gpu_that_has_failed(void) {
    launch_store(number_of_pool(), 2, NULL);
    EQUAL(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    EQUAL(cudaDeviceReset(), cudaErrorIllegalAddress);
    EQUAL(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

static CUmemGenericAllocationHandle object_on(int gpu, size_t bytes, CUresult wanted) {
    CUmemAllocationProp what = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu}};
    CUmemGenericAllocationHandle object = 0;
    size_t granule;
    GOOD(DRIVER(cuMemGetAllocationGranularity)(&granule, &what, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    EQUAL(granule, GRANULE);
    EQUAL(DRIVER(cuMemCreate)(&object, bytes, &what, 0), wanted);
    return object;
}

static CUdeviceptr mapped(CUmemGenericAllocationHandle object) {
    CUdeviceptr address;
    GOOD(DRIVER(cuMemAddressReserve)(&address, GRANULE, 0, 0, 0));
    EQUAL(DRIVER(cuMemMap)(address, GRANULE, 4096, object, 0), CUDA_ERROR_INVALID_VALUE);
    GOOD(DRIVER(cuMemMap)(address, GRANULE, 0, object, 0));
    EQUAL(DRIVER(cuMemMap)(address, GRANULE, 0, object, 0), CUDA_ERROR_INVALID_VALUE);
    GOOD(DRIVER(cuMemRelease)(object)); /* the mapping keeps it */
    return address;
}

static void memory_comes_in_granules(void) {
    object_on(0, GRANULE + 4096, CUDA_ERROR_INVALID_VALUE);
    object_on(9, GRANULE, CUDA_ERROR_INVALID_VALUE);
}

static void mapped_memory_is_for_those_who_are_told_so(void) {
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address = mapped(object_on(0, GRANULE, CUDA_SUCCESS));
    GOOD(DRIVER(cuMemSetAccess)(address, GRANULE, &access, 1));
    launch_store((int *)(uintptr_t)address, 5, NULL);
    GOOD(cudaDeviceSynchronize());
    GOOD(cudaSetDevice(1));
    GOOD(cudaDeviceEnablePeerAccess(0, 0)); /* that alone opens no mapping */
    launch_store((int *)(uintptr_t)address, 6, NULL);
    EQUAL(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

static void mapped_memory_is_unmapped_as_it_was_mapped(void) {
    CUdeviceptr address = mapped(object_on(0, GRANULE, CUDA_SUCCESS)), base;
    size_t bytes;
    GOOD(DRIVER(cuMemGetAddressRange)(&base, &bytes, address + 100));
    EQUAL(base == address && bytes == GRANULE, 1);
    EQUAL(DRIVER(cuMemAddressFree)(address, GRANULE), CUDA_ERROR_INVALID_VALUE);
    EQUAL(DRIVER(cuMemUnmap)(address, GRANULE / 2), CUDA_ERROR_INVALID_VALUE);
    GOOD(DRIVER(cuMemUnmap)(address, GRANULE));
    GOOD(DRIVER(cuMemAddressFree)(address, GRANULE));
    EQUAL(DRIVER(cuMemGetAddressRange)(&base, &bytes, address), CUDA_ERROR_INVALID_VALUE);
}

static void a_descriptor_is_the_only_name_of_an_object(void) {
    CUmemGenericAllocationHandle object = object_on(0, GRANULE, CUDA_SUCCESS), again;
    int fd;
    EQUAL(DRIVER(cuMemExportToShareableHandle)(&fd, object, CU_MEM_HANDLE_TYPE_WIN32, 0), CUDA_ERROR_NOT_SUPPORTED);
    GOOD(DRIVER(cuMemExportToShareableHandle)(&fd, object, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EQUAL(
        DRIVER(cuMemImportFromShareableHandle)(&again, (void *)(intptr_t)-1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        CUDA_ERROR_INVALID_HANDLE);
    GOOD(
        DRIVER(cuMemImportFromShareableHandle)(&again, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    mapped(again);
}

static void unmap_memory(void *address) { GOOD(DRIVER(cuMemUnmap)((CUdeviceptr)(uintptr_t)address, GRANULE)); }

static void unmapping_waits_for_kernels(void) {
    struct opener opener = {.word = gate()};
    CUdeviceptr address = mapped(object_on(0, GRANULE, CUDA_SUCCESS));
    launch_spin(opener.word, stream_here());
    opens_before(&opener, unmap_memory, (void *)(uintptr_t)address);
}

/* As on a machine without GPUDirect. */
static void nics_do_not_reach_memory_of_gpus(void) {
    int value;
    EQUAL(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                             cudaFlushGPUDirectRDMAWritesToOwner),
          cudaErrorNotSupported);
    GOOD(cudaDeviceGetAttribute(&value, cudaDevAttrGPUDirectRDMAFlushWritesOptions, 0));
    EQUAL(value, 0);
    EQUAL(cuda_entry("cuMemGetHandleForAddressRange", 11070) == NULL, 1);
}

/* ---- the machine ---- */

static void expect_links(int gpus, const char *rows) {
    for (int a = 0; a < gpus; a++)
        for (int b = 0; b < gpus; b++, rows++) {
            int reaches = 0, atomics = 0;
            if (a == b)
                continue;
            GOOD(cudaDeviceCanAccessPeer(&reaches, a, b));
            GOOD(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, a, b));
            EQUAL(reaches, *rows != '-');
            EQUAL(atomics, *rows == 'N');
        }
}

static void a_file_of_words_says_what_joins_gpus(void) {
    char name[] = "/tmp/gpusim-links-XXXXXX";
    static const char words[] = "X NV18 PHB\nNV18 X -\nPHB - X\n";
    int fd = mkstemp(name);
    EQUAL(write(fd, words, strlen(words)), strlen(words));
    setenv("GPUSIM_GPUS", "3", 1);
    setenv("GPUSIM_LINKS", name, 1);
    expect_links(3, "XNP"
                    "NX-"
                    "P-X");
    unlink(name);
}

static void a_topology_file_says_what_joins_gpus(void) {
    char bus[32];
    setenv("GPUSIM_GPUS", "4", 1);
    setenv("GPUSIM_LINKS", "tests/gpusim/pairs.xml", 1);
    expect_links(4, "XNPP"
                    "NXPP"
                    "PPXN"
                    "PPNX");
    GOOD(cudaDeviceGetPCIBusId(bus, sizeof(bus), 2));
    EQUAL(strcmp(bus, "0000:40:00.0"), 0);
}

static void a_process_sees_the_gpus_it_is_shown(void) {
    int n, bus;
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    GOOD(cudaGetDeviceCount(&n));
    EQUAL(n, 1);
    GOOD(cudaDeviceGetAttribute(&bus, cudaDevAttrPciBusId, 0));
    EQUAL(bus, 0x11);
}

/* One of them holds 32 blocks: the next one begins when one of these has ended. */
static void a_gpu_has_as_many_multiprocessors_as_the_environment_says(void) {
    struct cudaDeviceProp properties;
    struct gpusim_counts counts;
    int sms;
    setenv("GPUSIM_SMS", "1", 1);
    GOOD(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    EQUAL(sms, 1);
    GOOD(cudaGetDeviceProperties(&properties, 0));
    EQUAL(properties.multiProcessorCount, 1);
    int *word = gate();
    gpusim_counts_clear();
    for (int k = 0; k < SM_BLOCKS + 1; k++)
        launch_spin(word, stream_here());
    EQUAL(blocks_begun(SM_BLOCKS + 1), SM_BLOCKS);
    gate_open(word);
    GOOD(cudaDeviceSynchronize());
    gpusim_counts(0, &counts);
    EQUAL(counts.blocks, SM_BLOCKS + 1);
}

/* In a process of its own, since a process is shown its GPUs once. The bus of the first GPU that it sees; 0: it sees none. */
static int first_bus(const char *visible, const char *instances) {
    int status;
    if (fork() == 0) {
        int n, bus = 0;
        setenv("CUDA_VISIBLE_DEVICES", visible, 1);
        setenv("GPUSIM_MIG", instances, 1);
        if (cudaGetDeviceCount(&n) == cudaSuccess && n > 0)
            GOOD(cudaDeviceGetAttribute(&bus, cudaDevAttrPciBusId, 0));
        _exit(bus);
    }
    wait(&status);
    return WEXITSTATUS(status);
}

/* As Slurm and Kubernetes name them. */
static void a_gpu_is_named_by_its_uuid(void) {
    setenv("GPUSIM_GPUS", "2", 1);
    EQUAL(first_bus("GPU-73696d20-6770-7520-3031-2f3030000000", "0"), 0x11);
    EQUAL(first_bus("GPU-73696d20-6770-7520-3030-2f3030000000,1", "0"), 0x10);
    EQUAL(first_bus("GPU-73696d20-6770-7520-3031", "0"), 0x11);
    EQUAL(first_bus("GPU-73696d20", "0"), 0);   /* of both */
    EQUAL(first_bus("GPU-deadbeef,1", "0"), 0); /* of none: what comes after it does not count */
    EQUAL(first_bus("MIG-73696d20-6770-7520-3031-2f3032000000", "2"), 0x11);
    EQUAL(first_bus("GPU-73696d20-6770-7520-3031", "2"), 0);
}

/* ---- main ---- */

#define CASES(X)                                                                                                       \
    X(a_gpu_that_is_none_has_no_properties)                                                                            \
    X(a_threads_last_error_stays_until_it_is_asked_for)                                                                \
    X(a_process_without_gpus_is_told_so)                                                                               \
    X(a_function_that_the_driver_does_not_have_is_a_null)                                                              \
    X(occupancy_is_that_of_an_empty_gpu)                                                                               \
    X(a_gpu_that_is_reset_has_nothing_left)                                                                            \
    X(a_context_behind_a_reset_is_another_one)                                                                         \
    X(a_reset_does_not_mend_a_gpu_that_has_failed)                                                                     \
    X(contexts_are_pushed_and_popped)                                                                                  \
    X(memory_comes_in_granules)                                                                                        \
    X(mapped_memory_is_for_those_who_are_told_so)                                                                      \
    X(mapped_memory_is_unmapped_as_it_was_mapped)                                                                      \
    X(a_descriptor_is_the_only_name_of_an_object)                                                                      \
    X(unmapping_waits_for_kernels)                                                                                     \
    X(nics_do_not_reach_memory_of_gpus)                                                                                \
    X(a_file_of_words_says_what_joins_gpus)                                                                            \
    X(a_topology_file_says_what_joins_gpus)                                                                            \
    X(a_gpu_has_as_many_multiprocessors_as_the_environment_says)                                                       \
    X(a_process_sees_the_gpus_it_is_shown)                                                                             \
    X(a_gpu_is_named_by_its_uuid)

static const struct each_case cases[] = {CASES(EACH_ROW)};

int main(int argc, char **argv) { return each_main(cases, (int)(sizeof(cases) / sizeof(*cases)), argc, argv); }
