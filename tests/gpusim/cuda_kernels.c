/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels: what the stubs that nvcc puts into every object register, and launches of it.
 *
 *    __cudaRegisterFatBinary    PTX of an object ──▶ a module of the machine, when one of its kernels is first used
 *    __cudaRegisterFunction     an address of the host ──▶ the name of a kernel in it
 *
 * A kernel is loaded on each GPU when it is first used there, and that waits for all that is under way on the GPU ("loading a kernel may
 * require context synchronization"). With CUDA_MODULE_LOADING=EAGER all are loaded when the context is made.
 */
#include "gpusim/gpusim.h"
#include "gpusim/machine.h"
#include "gpusim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a launch; drivers of CUDA 12.1 or later take more. */
#define ARGUMENT_BYTES 4096

struct sim_binary {
    const void *fatbin;
    struct gpusim_module *module; /* NULL: not yet */
};

struct function {
    struct function *next;
    const void *address;
    const char *name;
    struct sim_binary *binary;
    const struct gpusim_kernel *kernel; /* NULL: not yet */
    uint32_t loaded;                    /* by bits: the ordinals of the GPUs on which it is */
};
static struct function *functions;

static _Thread_local struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} configuration;

/* ---- stubs: they run before main() ---- */

/* What is registered names the fatbin. */
struct wrapper {
    int magic, version;
    const void *fatbin;
};

extern void **__cudaRegisterFatBinary(void *wrapper);
void **__cudaRegisterFatBinary(void *wrapper) {
    struct sim_binary *binary = calloc(1, sizeof(*binary));
    if (binary == NULL)
        abort();
    binary->fatbin = ((const struct wrapper *)wrapper)->fatbin;
    return (void **)binary;
}

extern void __cudaRegisterFatBinaryEnd(void **binary);
void __cudaRegisterFatBinaryEnd(void **binary) { (void)binary; }

extern void __cudaUnregisterFatBinary(void **binary);
void __cudaUnregisterFatBinary(void **binary) { (void)binary; /* the engine may still run its kernels */ }

extern void __cudaRegisterFunction(void **binary, const char *address, char *device, const char *name, int threads,
                                   void *tid, void *bid, void *block, void *grid, int *warp);
void __cudaRegisterFunction(void **binary, const char *address, char *device, const char *name, int threads, void *tid,
                            void *bid, void *block, void *grid, int *warp) {
    struct function *function = malloc(sizeof(*function));
    (void)device, (void)threads, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    if (function == NULL)
        abort();
    *function = (struct function){functions, address, name, (struct sim_binary *)binary, NULL, 0};
    functions = function;
}

extern void __cudaRegisterVar(void **binary, char *variable, char *device, const char *name, int ext, size_t bytes,
                              int constant, int global);
void __cudaRegisterVar(void **binary, char *variable, char *device, const char *name, int ext, size_t bytes,
                       int constant, int global) {
    (void)binary, (void)variable, (void)device, (void)name, (void)ext, (void)bytes, (void)constant, (void)global;
}

extern char __cudaInitModule(void **binary);
char __cudaInitModule(void **binary) { return binary != NULL; }

extern unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
    configuration.grid = grid;
    configuration.block = block;
    configuration.shared = shared;
    configuration.stream = stream;
    return 0;
}

extern cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    *grid = configuration.grid;
    *block = configuration.block;
    *shared = configuration.shared;
    *(cudaStream_t *)stream = configuration.stream;
    return cudaSuccess;
}

/* ---- loading ---- */

static struct function *function_at(const void *address) {
    struct function *function = functions;
    while (function != NULL && function->address != address)
        function = function->next;
    return function;
}

static cudaError_t load_module(struct sim_binary *binary) {
    uint32_t arch;
    char *ptx = gpusim_fatbin_ptx(binary->fatbin, (uint32_t)sim_capability(sim_device_here()), &arch);
    if (ptx != NULL)
        binary->module = gpusim_module_load(ptx);
    free(ptx);
    if (binary->module == NULL)
        fprintf(stderr, "gpusim: %s\n", gpusim_error());
    else
        gpusim_module_registers(binary->module, getenv("GPUSIM_REGISTERS"));
    return binary->module == NULL ? cudaErrorNoKernelImageForDevice : cudaSuccess;
}

static uint64_t loads;

uint64_t gpusim_loads(void) {
    sim_lock();
    uint64_t n = loads;
    sim_unlock();
    return n;
}

static bool loads_all_at_once(void) {
    const char *how = getenv("CUDA_MODULE_LOADING");
    return how != NULL && strcmp(how, "EAGER") == 0;
}

/* Loading a kernel may have to wait for those that run. */
static void load_here(struct function *function) {
    const struct sim_device *device = sim_device_here();
    if ((function->loaded >> device->ordinal & 1) != 0 || loads_all_at_once())
        return;
    loads++;
    sim_wait_for_kernels(device);
    function->loaded |= 1u << device->ordinal;
}

void sim_kernels_unload(const struct sim_device *device) {
    for (struct function *function = functions; function != NULL; function = function->next)
        function->loaded &= ~(1u << device->ordinal);
}

static cudaError_t load_function(struct function *function) {
    load_here(function);
    if (function->kernel != NULL)
        return cudaSuccess;
    cudaError_t error = function->binary->module == NULL ? load_module(function->binary) : cudaSuccess;
    if (error != cudaSuccess)
        return error;
    function->kernel = gpusim_kernel(function->binary->module, function->name);
    if (function->kernel == NULL)
        fprintf(stderr, "gpusim: %s\n", gpusim_error());
    return function->kernel == NULL ? cudaErrorInvalidDeviceFunction : cudaSuccess;
}

static cudaError_t find(const void *address, struct function **function_p) {
    *function_p = function_at(address);
    return *function_p == NULL ? cudaErrorInvalidDeviceFunction : load_function(*function_p);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *address) {
    SIM_CALL(SIM_UNSAFE);
    struct gpusim_kernel_info info;
    struct function *function;
    cudaError_t error = find(address, &function);
    if (error != cudaSuccess)
        return sim_result(error);
    gpusim_kernel_info(function->kernel, &info);
    memset(attributes, 0, sizeof(*attributes));
    attributes->numRegs = (int)info.registers;
    attributes->sharedSizeBytes = info.shared_bytes;
    attributes->localSizeBytes = info.local_bytes;
    attributes->maxThreadsPerBlock = (int)info.max_threads;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *address, enum cudaFuncAttribute which, int value) {
    SIM_CALL(SIM_SAFE);
    (void)which, (void)value;
    return sim_result(function_at(address) == NULL ? cudaErrorInvalidDeviceFunction : cudaSuccess);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *address, int lanes, size_t shared) {
    SIM_CALL(SIM_SAFE);
    struct function *function;
    cudaError_t error = find(address, &function);
    if (error == cudaSuccess)
        *blocks = (int)gpusim_kernel_blocks_per_sm(function->kernel, (uint32_t)lanes, (uint32_t)shared);
    return sim_result(error);
}

/* ---- launching ---- */

struct sim_launch *sim_launch_copy(const struct sim_launch *launch) {
    struct sim_launch *copy = malloc(sizeof(*copy) + launch->argument_bytes);
    if (copy == NULL)
        abort();
    memcpy(copy, launch, sizeof(*copy) + launch->argument_bytes);
    return copy;
}

static struct sim_launch *launch_of(const struct gpusim_kernel *kernel, dim3 grid, dim3 block, size_t shared,
                                    void *const *arguments) {
    struct gpusim_kernel_info info;
    gpusim_kernel_info(kernel, &info);
    struct sim_launch *launch = calloc(1, sizeof(*launch) + info.param_bytes);
    if (launch == NULL)
        abort();
    *launch = (struct sim_launch){
        kernel, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, (uint32_t)shared, info.param_bytes};
    for (uint32_t k = 0; k < info.nparams; k++)
        memcpy(launch->arguments + info.param_offset[k], arguments[k], info.param_size[k]);
    return launch;
}

static bool fits(const struct gpusim_kernel *kernel, dim3 grid, dim3 block, size_t shared) {
    struct gpusim_kernel_info info;
    gpusim_kernel_info(kernel, &info);
    uint32_t lanes = block.x * block.y * block.z;
    return grid.x * grid.y * grid.z > 0 && lanes > 0 && lanes <= info.max_threads &&
           shared + info.shared_bytes <= gpusim_limits()->sm_shared_bytes;
}

static cudaError_t launch_in(struct sim_stream *stream, const void *address, dim3 grid, dim3 block, void **arguments,
                             size_t shared) {
    struct gpusim_kernel_info info;
    struct function *function;
    cudaError_t error = find(address, &function);
    if (error != cudaSuccess)
        return error;
    if (stream == NULL || stream->device != sim_device_here())
        return cudaErrorInvalidResourceHandle;
    if (!fits(function->kernel, grid, block, shared))
        return cudaErrorInvalidConfiguration;
    gpusim_kernel_info(function->kernel, &info);
    if (info.param_bytes > ARGUMENT_BYTES)
        return cudaErrorInvalidValue;
    struct sim_op op = {.kind = OP_KERNEL};
    op.launch = launch_of(function->kernel, grid, block, shared, arguments);
    return sim_put(stream, &op);
}

cudaError_t cudaLaunchKernel(const void *address, dim3 grid, dim3 block, void **arguments, size_t shared,
                             cudaStream_t stream) {
    SIM_CALL(SIM_SAFE);
    return sim_result(launch_in(sim_stream_of(stream), address, grid, block, arguments, shared));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *address, void **arguments) {
    return cudaLaunchKernel(address, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
                            config->stream);
}

/* The stubs name a kernel by this, which is its address here. */
extern cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *address);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *address) {
    *kernel = (cudaKernel_t)(void *)address;
    return cudaSuccess;
}

extern cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                      cudaStream_t stream);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t stream) {
    return cudaLaunchKernel((const void *)kernel, grid, block, arguments, shared, stream);
}
