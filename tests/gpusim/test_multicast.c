/* SPDX-License-Identifier: Apache-2.0
 *
 * Multicast objects on the simulated machine: what a team of GPUs has bound, of one process or of two, is reduced and stored
 * through one address. A GPU that has bound nothing, or a right that is missing, ends the grid. Each case is a process.
 */
#include "layers/gpu/cuda_entry.h"
#include "gpusim/each.h"
#include "gpusim/landed.h"
#include "gpusim/machine.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <signal.h>

#define BYTES ((size_t)2 << 20)
#define GOOD(call) EQUAL(call, 0)

static void *entry(const char *name) {
    void *function = cuda_entry(name, 12010);
    EQUAL(function != NULL, 1);
    return function;
}
#define DRIVER(name) ((__typeof__(&(name)))entry(#name))

/* An object of any kind at an address of its own, for so many GPUs from `first` on. */
static CUdeviceptr mapped(CUmemGenericAllocationHandle handle, int first, int ngpus) {
    CUdeviceptr address;
    GOOD(DRIVER(cuMemAddressReserve)(&address, BYTES, 0, 0, 0));
    GOOD(DRIVER(cuMemMap)(address, BYTES, 0, handle, 0));
    for (int gpu = first; gpu < first + ngpus; gpu++) {
        CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu},
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        GOOD(DRIVER(cuMemSetAccess)(address, BYTES, &access, 1));
    }
    return address;
}

/* Memory of a GPU, with a number. */
static float *number_on(int gpu, float value) {
    CUmemAllocationProp what = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu}};
    CUmemGenericAllocationHandle handle;
    GOOD(cudaSetDevice(gpu));
    GOOD(DRIVER(cuMemCreate)(&handle, BYTES, &what, 0));
    float *number = (float *)(uintptr_t)mapped(handle, gpu, 1);
    GOOD(DRIVER(cuMemRelease)(handle));
    GOOD(copy_landed(number, &value, sizeof(value)));
    return number;
}

static float number_at(const float *number) {
    float value;
    GOOD(cudaMemcpy(&value, number, sizeof(value), cudaMemcpyDefault));
    return value;
}

static CUmemGenericAllocationHandle team_of(unsigned ngpus) {
    CUmulticastObjectProp what = {
        .numDevices = ngpus, .size = BYTES, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemGenericAllocationHandle team;
    GOOD(DRIVER(cuMulticastCreate)(&team, &what));
    return team;
}

static void bind(CUmemGenericAllocationHandle team, const float *number) {
    GOOD(DRIVER(cuMulticastBindAddr)(team, 0, (CUdeviceptr)(uintptr_t)number, BYTES, 0));
}

/* A lane of the GPU puts the sum of all numbers where they are. The grid's fault, or "". */
static void reduce_on(uint32_t gpu, CUdeviceptr team, char fault[256]) {
    struct gpusim_dim one = {1, 1, 1};
    struct gpusim_module *module = gpusim_module_load(
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 k_param_0)\n{\n"
        ".reg .b64 %d<2>;\n.reg .f32 %f<2>;\nld.param.u64 %d1, [k_param_0];\n"
        "multimem.ld_reduce.relaxed.sys.global.add.f32 %f1, [%d1];\n"
        "multimem.st.relaxed.sys.global.f32 [%d1], %f1;\nret;\n}\n");
    struct gpusim_grid *grid = gpusim_grid_start(gpu, gpusim_kernel(module, "k"), one, one, 0, &team);
    while (!gpusim_grid_done(grid))
        gpusim_run(100);
    snprintf(fault, 256, "%s", gpusim_grid_fault(grid) != NULL ? gpusim_grid_fault(grid) : "");
    gpusim_grid_free(grid);
    gpusim_module_unload(module);
}

static void expect_fault(const char *fault, const char *text) {
    each_equal(strstr(fault, text) != NULL, 1, text, fault, __LINE__);
}

static void a_team_of_four_gpus_reduces_through_one_address(void) {
    setenv("GPUSIM_GPUS", "4", 1);
    CUmemGenericAllocationHandle team = team_of(4);
    float *numbers[4];
    char fault[256];
    for (int gpu = 0; gpu < 4; gpu++)
        GOOD(DRIVER(cuMulticastAddDevice)(team, gpu));
    for (int gpu = 0; gpu < 4; gpu++)
        bind(team, numbers[gpu] = number_on(gpu, (float)(1 << gpu)));
    CUdeviceptr address = mapped(team, 0, 4);
    GOOD(DRIVER(cuMemRelease)(team));
    reduce_on(2, address, fault);
    EQUAL(*fault, '\0');
    for (int gpu = 0; gpu < 4; gpu++) {
        GOOD(cudaSetDevice(gpu));
        EQUAL(number_at(numbers[gpu]), 15);
    }
    GOOD(DRIVER(cuMemUnmap)(address, BYTES));
    reduce_on(2, address, fault);
    expect_fault(fault, "was freed");
}

static void a_gpu_that_has_bound_nothing_is_a_fault(void) {
    CUmemGenericAllocationHandle team = team_of(2);
    char fault[256];
    for (int gpu = 0; gpu < 2; gpu++)
        GOOD(DRIVER(cuMulticastAddDevice)(team, gpu));
    for (int gpu = 0; gpu < 2; gpu++)
        bind(team, number_on(gpu, 1));
    GOOD(DRIVER(cuMulticastUnbind)(team, 1, 0, BYTES));
    reduce_on(0, mapped(team, 0, 2), fault);
    expect_fault(fault, "GPU 1 of the team has no memory");
    reduce_on(1, mapped(team, 0, 1), fault);
    expect_fault(fault, "without the right");
}

/* What is bound lies in memory of a GPU of the team, whole, and made by descriptor. */
static void only_memory_of_the_team_is_bound(void) {
    setenv("GPUSIM_GPUS", "3", 1);
    CUmemGenericAllocationHandle team = team_of(2);
    float *outside = number_on(2, 0), *inside = number_on(1, 0);
    void *plain;
    GOOD(cudaMalloc(&plain, BYTES));
    GOOD(DRIVER(cuMulticastAddDevice)(team, 0));
    EQUAL(DRIVER(cuMulticastAddDevice)(team, 0), CUDA_ERROR_INVALID_DEVICE);
    GOOD(DRIVER(cuMulticastAddDevice)(team, 1));
    EQUAL(DRIVER(cuMulticastAddDevice)(team, 2), CUDA_ERROR_INVALID_DEVICE);
    EQUAL(DRIVER(cuMulticastBindAddr)(team, 0, (CUdeviceptr)(uintptr_t)outside, BYTES, 0), CUDA_ERROR_INVALID_DEVICE);
    EQUAL(DRIVER(cuMulticastBindAddr)(team, 0, (CUdeviceptr)(uintptr_t)plain, BYTES, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(DRIVER(cuMulticastBindAddr)(team, 0, (CUdeviceptr)(uintptr_t)inside, 2 * BYTES, 0), CUDA_ERROR_INVALID_VALUE);
    bind(team, inside);
}

static int multicasts(int gpu) {
    int can;
    GOOD(DRIVER(cuDeviceGetAttribute)(&can, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, gpu));
    return can;
}

static void gpus_without_a_switch_multicast_nothing(void) {
    setenv("GPUSIM_LINKS", "PCI", 1);
    EQUAL(multicasts(0), 0);
    EQUAL(DRIVER(cuMulticastAddDevice)(team_of(1), 0), CUDA_ERROR_NOT_SUPPORTED);
}

static void older_gpus_multicast_nothing(void) {
    setenv("GPUSIM_CAPABILITY", "90,80", 1);
    EQUAL(multicasts(0), 1);
    EQUAL(multicasts(1), 0);
}

static void parts_of_gpus_multicast_nothing(void) {
    setenv("GPUSIM_MIG", "2", 1);
    EQUAL(multicasts(0), 0);
    EQUAL(DRIVER(cuMulticastAddDevice)(team_of(1), 0), CUDA_ERROR_NOT_SUPPORTED);
}

static void teams_come_in_granules(void) {
    CUmulticastObjectProp what = {
        .numDevices = 2, .size = BYTES + 4096, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemGenericAllocationHandle team;
    size_t granule;
    GOOD(DRIVER(cuMulticastGetGranularity)(&granule, &what, CU_MULTICAST_GRANULARITY_MINIMUM));
    EQUAL(BYTES % granule, 0);
    EQUAL(DRIVER(cuMulticastCreate)(&team, &what), CUDA_ERROR_INVALID_VALUE);
    what.size = BYTES;
    what.numDevices = 0;
    EQUAL(DRIVER(cuMulticastCreate)(&team, &what), CUDA_ERROR_INVALID_VALUE);
    EQUAL(DRIVER(cuMulticastUnbind)(team_of(2), 0, 0, BYTES), CUDA_ERROR_INVALID_VALUE); /* nothing is bound */
}

/* ---- processes ---- */

static void bind_before_all_are_there(void) {
    CUmemGenericAllocationHandle team = team_of(2);
    GOOD(DRIVER(cuMulticastAddDevice)(team, 0));
    bind(team, number_on(0, 1));
}

static void a_bind_that_would_wait_is_told(void) {
    int status;
    if (fork() == 0) {
        bind_before_all_are_there();
        _exit(0);
    }
    wait(&status);
    EQUAL(WIFSIGNALED(status) ? WTERMSIG(status) : 0, SIGABRT);
}

/* Both have come so far. */
static void meet(int to, int from) {
    char word = 'x';
    EQUAL(write(to, &word, 1), 1);
    EQUAL(read(from, &word, 1), 1);
}

static void join_team(CUmemGenericAllocationHandle team, int gpu, int to, int from) {
    char fault[256];
    GOOD(DRIVER(cuMulticastAddDevice)(team, gpu));
    meet(to, from);
    float *number = number_on(gpu, (float)(gpu + 1));
    bind(team, number);
    meet(to, from);
    CUdeviceptr address = mapped(team, gpu, 1);
    meet(to, from);
    if (gpu == 0) {
        reduce_on(0, address, fault);
        EQUAL(*fault, '\0');
    }
    meet(to, from);
    EQUAL(number_at(number), 3);
}

static void two_processes_are_one_team(void) {
    int there[2], back[2], number[2], fd, status;
    EQUAL(pipe(there) | pipe(back), 0);
    if (fork() == 0) {
        CUmemGenericAllocationHandle team;
        char path[64];
        EQUAL(read(there[0], number, sizeof(number)), sizeof(number));
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", number[0], number[1]);
        fd = open(path, O_RDWR | O_CLOEXEC);
        GOOD(DRIVER(cuMemImportFromShareableHandle)(&team, (void *)(intptr_t)fd,
                                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        join_team(team, 1, back[1], there[0]);
        _exit(0);
    }
    CUmemGenericAllocationHandle team = team_of(2);
    GOOD(DRIVER(cuMemExportToShareableHandle)(&fd, team, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    number[0] = getpid();
    number[1] = fd;
    EQUAL(write(there[1], number, sizeof(number)), sizeof(number));
    join_team(team, 0, there[1], back[0]);
    wait(&status);
    EQUAL(status, 0);
}

#define CASES(X)                                                                                                       \
    X(a_team_of_four_gpus_reduces_through_one_address)                                                                 \
    X(a_gpu_that_has_bound_nothing_is_a_fault)                                                                         \
    X(only_memory_of_the_team_is_bound)                                                                                \
    X(gpus_without_a_switch_multicast_nothing)                                                                         \
    X(parts_of_gpus_multicast_nothing)                                                                                 \
    X(teams_come_in_granules)                                                                                          \
    X(older_gpus_multicast_nothing)                                                                                    \
    X(a_bind_that_would_wait_is_told)                                                                                  \
    X(two_processes_are_one_team)

static const struct each_case cases[] = {CASES(EACH_ROW)};

int main(int argc, char **argv) { return each_main(cases, (int)(sizeof(cases) / sizeof(*cases)), argc, argv); }
